/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's handle of a lease.  Queues read status, rights and attachment without a lock, as
 * inflight.h tells; everything else is under the session's lock. */
#ifndef LIBRMEM_LEASE_LEASE_H
#define LIBRMEM_LEASE_LEASE_H

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rmem/rmem.h>

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/notices.h"
#include "base/tree.h"
#include "librmem/lease/attachment.h"
#include "librmem/session/call.h"
#include "librmem/session/session.h"

/* Limit of leases that were granted too late and not taken back: far more than a program has
 * threads. */
#define UNWANTED_MAX 1024u

/* Limit of leases being attached again at a time: the server accepts 256 outstanding requests of a
 * session, and the program's requests must have room. */
#define REKEYS_MAX 64u

#define ATOMIC_DEVICE_TEXT_BYTES 192
#define LEASE_LABEL_BYTES 128

/* clang-format off */
#define LEASE_STATES(S)                                                                  \
	S(ASKED)         /* the server has not answered */                               \
	S(USED)                                                                          \
	S(LEAVING)       /* used; no thread takes it again until the request that ends   \
			    it is answered */                                            \
	S(ENDED)         /* the program still has the handle */                          \
	S(ENDED_LEAVING) /* likewise, and the request that ends it is under way */       \
	S(UNWANTED)      /* granted when its caller had gone */                          \
	S(FREED)
#define LEASE_STEPS(S) S(GRANT) S(LATE) S(LEAVE) S(ANSWER) S(END) S(FREE)
/* State, step, next state, and what follows: all that there are. */
#define LEASE_MOVES(M)                                                                       \
	M(ASKED, GRANT, USED)             /* events find it */                               \
	M(ASKED, LATE, UNWANTED)          /* given back until the server has confirmed it */ \
	M(USED, LATE, UNWANTED)           /* likewise, as nobody took the answer */          \
	M(USED, LEAVE, LEAVING)           /* the request is sent */                          \
	M(LEAVING, ANSWER, USED)          /* freed, or ends, unless it was refused */        \
	M(USED, END, ENDED)               /* operations fail; the last notice */             \
	M(LEAVING, END, ENDED_LEAVING)    /* likewise */                                     \
	M(ENDED, LEAVE, ENDED_LEAVING)    /* the request is sent if none was before */       \
	M(ENDED_LEAVING, ANSWER, ENDED)   /* freed if it was the last reference */           \
	M(ASKED, FREE, FREED)             /* refused */                                      \
	M(USED, FREE, FREED)              /* the last reference, or its session is closed */ \
	M(ENDED, FREE, FREED)             /* likewise */                                     \
	M(UNWANTED, FREE, FREED)          /* confirmed, or its session is closed */
/* clang-format on */

#define LEASE_STATE_ENUM(state) LEASE_##state,
enum lease_state { LEASE_STATES(LEASE_STATE_ENUM) };
#define LEASE_STEP_ENUM(step) LEASE_STEP_##step,
enum lease_step { LEASE_STEPS(LEASE_STEP_ENUM) };

enum atomic_device_state {
	ATOMIC_DEVICE_UNKNOWN,
	ATOMIC_DEVICE_KNOWN,
	ATOMIC_DEVICE_REFUSED, /* the server refused */
};

/* A session's leases; all but `wants` under the session's lock. */
struct lease_table {
	struct list all;
	struct map by_id;
	/* granted too late for a caller, and not given back yet */
	struct list unwanted;
	unsigned n_unwanted;
	uint64_t give_back_ns; /* when to try again; UINT64_MAX: none is to be tried */
	/* leases that wait to be attached again, and those that have an older attachment, for which
	 * they wait first; rmem_lease.rekey_node */
	struct list rekeys_outstanding, rekeys_held;
	unsigned rekeys_sent; /* number of leases being attached again */
	/* bit mask of the endpoints with a channel since the session was opened or resumed */
	unsigned opened;
	struct list inflights;  /* of all queues, also of queues being connected */
	struct notices notices; /* opened with the first watch or shrinking event */
	/* an epoll set, readable while there are notices; -1: not asked for */
	int notice_fd;
	/* leases that the session renews by itself, by when they are due and their ids;
	 * rmem_lease.keep.node */
	struct tree kept;
	unsigned keeps_sent; /* number of renewals under way */
	/* leases that leases_work() looks at; it goes over no others, of which there may be
	 * 60,000 */
	struct list work; /* rmem_lease.work */
	/* a stack of leases that queues have enlisted for it; rmem_lease.next_want.  [any] */
	_Atomic(struct rmem_lease *) wants;
	/* leases with older attachments, those replaced first in front; rmem_lease.superseded */
	struct list superseded;
	/* when to look again for those that calls of queues still read; UINT64_MAX: there are
	 * none */
	uint64_t free_ns;
	uint64_t generation; /* of the newest attachment; 1: there was none */
};

/* The one device that executes the atomics of a lease, for all sessions.  The server decides when
 * the first session asks, and the lease keeps the answer. */
struct atomic_device {
	/* a queue asks: the number of an endpoint, plus 1; 0: none has asked.  [any] */
	_Atomic unsigned wanted;
	_Atomic int state; /* enum atomic_device_state.  [any] */
	/* constant once `state` is known or refused */
	unsigned endpoints; /* bit mask of the endpoints on that device */
	int err;            /* why the server refused */
	/* the error text for atomics that cannot be done */
	char text[ATOMIC_DEVICE_TEXT_BYTES];
	/* under the session's lock */
	struct connection_call *call; /* the request under way; NULL: none */
};

/* The renewals that the session makes by itself; under its lock. */
struct keep {
	struct tree_node node; /* in session->leases->kept */
	bool kept;             /* it is there */
	uint64_t ttl_ms;
	struct connection_call *call; /* the renewal under way; NULL: none */
};

struct rmem_lease {
	/* constant */
	struct rmem *session;
	uint64_t id;
	unsigned rights;

	/* [any] */
	_Atomic int status; /* 0 or -ESTALE; follows `state` */
	_Atomic int reason; /* enum rmem_reason: why it has ended; set before status */
	_Atomic uint64_t bytes;
	_Atomic int numa_node; /* node of the first byte; RMEM_NODE_ANY: unknown */
	/* read only between attachments_enter() and attachments_leave() */
	_Atomic(struct attachment *) attachment;
	/* number of checks of the rkeys that queues have asked for */
	_Atomic unsigned asked;
	/* why the last answer has no new rkeys; 0: it has, or needs none.  Set before `verified` */
	_Atomic int rekey_err;
	/* the value of `asked` that the last answer covers */
	_Atomic unsigned verified;

	struct atomic_device atomic_device;

	/* in the session's list of leases, and not in leases->wants */
	atomic_bool may_want;
	struct rmem_lease *next_want; /* in leases->wants */

	/* uses not counted by a queue (inflight.h); on another cache line.  [any] */
	_Atomic unsigned outstanding;

	/* under the session's lock */
	enum rmem_placement placement; /* asked for, with node_asked */
	int node_asked;
	char *name; /* see lease_name.c; NULL: none */
	/* calls that have returned the handle, less those that have given it back */
	unsigned references;
	enum lease_state state;
	/* a request that ends the lease, whose caller has gone; NULL: none */
	struct connection_call *ending;
	struct call_line line; /* of the calls on it */
	struct list node;      /* in `all`, or in `unwanted` */
	struct map_node by_id;
	bool known;                   /* in by_id */
	unsigned detach_flags;        /* of a lease in `unwanted` */
	struct list work, superseded; /* in leases->work, leases->superseded */
	/* in rekeys_outstanding or rekeys_held: waits to be attached again */
	struct list rekey_node;
	struct connection_call *rekey; /* the attach request under way; NULL: none */
	/* attach again after the request under way, which may be too early */
	bool rekey_again;
	/* counted in session->rekeys; the request under way was sent since then */
	bool counted, counted_sent;
	struct keep keep;
	bool watched;                 /* the program gets its notifications */
	struct notice_source notices; /* in session->leases->notices */
	/* `asked` when the attach request under way was sent */
	unsigned asking;
	uint64_t wanted_bytes; /* bytes the server wants back; 0: none */
	uint64_t wanted_until_ns;
	bool wanted_revoke;   /* the lease ends at wanted_until_ns */
	bool wanted_reported; /* RMEM_NOTICE_WANTED waits for the program */
};

/* 0, or -ESTALE: the lease has ended, perhaps with its session.  [any] */
static inline int lease_status(const struct rmem_lease *lease)
{
	int session =
		atomic_load_explicit(&lease->session->status, memory_order_acquire);

	return session == -ESTALE
		       ? -ESTALE
		       : atomic_load_explicit(&lease->status, memory_order_acquire);
}

/* Only between attachments_enter() and attachments_leave(), or under the lock.  [any] */
static inline struct attachment *lease_attachment(const struct rmem_lease *lease)
{
	return atomic_load_explicit(&lease->attachment, memory_order_acquire);
}

/* The lease itself has ended; its session is not looked at.  [any] */
static inline bool lease_ended(const struct rmem_lease *lease)
{
	return atomic_load_explicit(&lease->status, memory_order_acquire) != 0;
}

/* ---- lease_name.c, lease_reason.c ---- */

/* Remember the name; "": none.  Without memory the lease is shown by its number alone.  Under the
 * lock. */
void lease_name_set(struct rmem_lease *lease, const char *name);
/* Copy a name that the program gave for a lease, or with !`given` for the beginning of names, which
 * may be empty.  -EINVAL  [any] */
int lease_name_parse(const char *name, bool given, char dst[WIRE_NAME_MAX + 1]);
/* Copy a tenant's name; NULL: the session's own tenant, "".  -EINVAL  [any] */
int lease_tenant_parse(const char *tenant, char dst[WIRE_LABEL_MAX + 1]);
/* `lease 5 ("name")`, or `lease 5`; a long name is cut.  Returns buf.  [any] */
const char *lease_label(const struct rmem_lease *lease, char buf[LEASE_LABEL_BYTES]);
/* In the child of a fork(), where another thread of the parent may have been at work: names are
 * whole, as they change under the session's lock. */
void lease_names_reset(void);
/* Why a lease that has ended, perhaps with its session, cannot be used; static text.  [any] */
const char *lease_ended_text(const struct rmem_lease *lease);

/* ---- watch.c, under the lock ---- */

/* The server has sent a notification. */
void watch_notified(struct rmem_lease *lease, const struct wire_notice *notice);
/* The server wants memory of the lease back, or withdraws that. */
void watch_wanted(struct rmem_lease *lease, const struct wire_shrinking *msg);
/* The session has resumed: notifications sent meanwhile are lost. */
void watch_resumed(struct rmem_lease *lease);
/* The lease has ended: this is its last notice. */
void watch_ended(struct rmem_lease *lease);
/* Drop the lease's notices; the lease is not watched any more. */
void watch_cancel(struct rmem_lease *lease);
/* Close the descriptor of rmem_notified_fd(), if it is still the session's. */
void watch_fd_close(struct rmem *session);

/* ---- keep.c, under the lock ---- */

/* Renew the lease by itself from now on; a renewal with this time to live was sent at sent_ns. */
void keep_start(struct rmem_lease *lease, uint64_t ttl_ms, uint64_t sent_ns);
/* End that.  False: the lease was not kept. */
bool keep_stop(struct rmem_lease *lease);
/* After keep_stop(): go on, with a renewal at once; the caller wakes the driver. */
void keep_resume(struct rmem_lease *lease);
/* Before the handle is freed. */
void keep_abandon(struct rmem_lease *lease);
/* Send the renewals that are due; when the next ones are due. */
void keeps_work(struct rmem *session, uint64_t now_ns);
uint64_t keeps_due(const struct rmem *session);
/* The session has resumed: all renewals are due soon. */
void keeps_resumed(struct rmem *session);

/* ---- lease_end.c ---- */

/* -EBUSY: operations use the lease.  Under the lock. */
int lease_check_idle(const struct rmem_lease *lease);

/* ---- the calls, as call_create of call.h ---- */

/* lease_get.c */
call_create lease_alloc_create, lease_attach_create, lease_attach_shared_create;
/* lease_change.c */
call_create lease_rename_create, lease_share_create, lease_unshare_create,
	lease_grow_create, lease_shrink_create, lease_renew_create, lease_keep_create;
/* lease_end.c */
call_create lease_detach_create, lease_destroy_create;
/* lease_list.c */
call_create lease_remove_create, lease_stat_create, lease_list_create;
/* watch.c */
call_create lease_watch_create, lease_unwatch_create;

/* ---- lease_call.c ---- */

/* A call on a lease, with its arguments. */
struct lease_call {
	struct call call; /* first */
	uint64_t value;
	bool flag; /* of the kind */
	char text[WIRE_NAME_MAX + 1];
};

static inline struct lease_call *lease_call_of(const struct call *call)
{
	return container_of((struct call *)(uintptr_t)call, struct lease_call, call);
}

/* The memory of a call; NULL, with text: there is none. */
struct lease_call *lease_call_new(void);
/* Make it a call on request->lease, behind those on it.  err: as for call_init(). */
struct call *lease_call_init(struct lease_call *call, const struct call_kind *kind,
			     const struct rmem_request *request, int err);
/* call_kind.describe */
int lease_call_describe(struct call *call, int err);
/* A request that changes a lease needs one that has not ended and is writable.  -ESTALE, -EACCES */
int lease_call_check(const struct call *call);
/* -EACCES */
int lease_check_writable(const struct rmem_lease *lease);
/* -EINVAL */
int lease_rights_check(uint64_t rights);

/* ---- give_back.c, under the lock ---- */

/* Give back the lease with this id, which the server has granted too late; until it has confirmed
 * that, the request is repeated.  The handle, which is in no list, is used for that and then freed.
 *   flags  WIRE_DETACH_* */
void lease_give_back(struct rmem_lease *handle, uint64_t id, unsigned flags);
/* -ETIMEDOUT: the server takes none of them back, and is asked for no more. */
int give_backs_check(const struct rmem *session);
void give_backs_work(struct rmem *session, uint64_t now_ns);
uint64_t give_backs_due(const struct rmem *session);
/* The session ends, and all that it has with it. */
void give_backs_drop(struct lease_table *table);

/* ---- lease.c ---- */

/* Put the call and the lease before the text of an error; returns `err`. */
static inline int lease_error(const struct rmem_lease *lease, int err, const char *call)
{
	char label[LEASE_LABEL_BYTES];

	return err_prefix(err, "%s of %s at %s", call, lease_label(lease, label),
			  lease->session->server);
}

void lease_table_init(struct lease_table *table);
/* Free all handles and the table.  Without the lock. */
void leases_destroy(struct rmem *session);
/* Publish the server's answer as the lease's attachment.  The old attachment stays while a queue
 * may read it.  Under the lock.  -EPROTO, -ENOMEM. */
int lease_publish(struct rmem_lease *lease, const struct wire_lease *answer);
/* Add the lease to the session's, so that events find it.  Under the lock.  -ENOMEM */
int lease_enter(struct rmem_lease *lease);
extern const struct session_observer lease_observer;
/* A queue wants new rkeys or the atomic device of the lease, which it uses: make the driver look at
 * it.  [any] */
void lease_want(struct rmem_lease *lease);
/* The lease with that id in this session, or NULL.  Under the lock. */
struct rmem_lease *lease_find(struct rmem *session, uint64_t id);
/* End the lease: its operations fail.  Under the lock. */
void lease_end(struct rmem_lease *lease, enum rmem_reason reason);
/* The rkeys of the lease were refused or are missing: attach the lease again to ask the server
 * about its state.  The server has answered when lease_verified() is true for the count returned.
 * [any] */
unsigned lease_verify(struct rmem_lease *lease);
bool lease_verified(const struct rmem_lease *lease, unsigned count);
/* The server grants the lease with this id afresh: a handle that the session has of it ends, and is
 * not found any more.  Under the lock. */
void lease_replace(struct rmem *session, uint64_t id);
/* Free the handle, which nothing may use.  Under the lock. */
void lease_drop(struct rmem_lease *lease);
/* Nobody took the answer with the handle: give back one reference, and with the last one the lease.
 * Under the lock.
 *   flags  WIRE_DETACH_* */
void lease_undo(struct rmem_lease *lease, unsigned flags);

/* ---- lease_moves.c ---- */

/* Take a step, which there must be from this state.  Under the lock once a list has the lease. */
void lease_move(struct rmem_lease *lease, enum lease_step step);
/* Free a handle that is in no list. */
void lease_handle_free(struct rmem_lease *lease);

#endif
