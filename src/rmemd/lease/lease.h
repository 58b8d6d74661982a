/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases: memory of the pools lent to a tenant until it is freed or its time to live is over.
 *
 * The table owns every lease.  An attachment makes a lease reachable for a session; its memory
 * regions have the keys.  However a lease ends, its keys are dead before its extents go back to
 * their pools.  A request that waits for a fabric or for memory ends with the waiter's done().
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(); never logs. */
#ifndef RMEMD_LEASE_LEASE_H
#define RMEMD_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/server.h"
#include "rmemd/lease/lease_client.h"
#include "rmemd/lease/tenant.h"
#include "rmemd/loop/durations.h"
#include "wire/msg.h"

struct attachment;
struct lease;
struct leases;
struct ledger;
struct origin;
struct pool_holders;
struct pools;
struct share;
struct slices;

/* The part of a lease on one node. */
struct lease_part {
	int node; /* -1: unknown */
	uint64_t bytes;
};

struct lease_status {
	const struct lease *lease; /* for lease_parts() */
	uint64_t id;
	const char *name; /* "": ephemeral */
	const char *tenant;
	uint64_t owner;               /* the session that it ends with; 0: named */
	const struct origin *creator; /* NULL: not known */
	uint64_t bytes;               /* its exact length */
	uint64_t lent;                /* bytes of its extents */
	unsigned segments;
	unsigned sessions; /* number of those that have it attached */
	unsigned writers;  /* sessions that may write */
	uint64_t age_ms;
	uint64_t ttl_ms; /* left; 0: for ever */
	uint32_t generation;
	enum wire_placement placement; /* as asked for */
	int node; /* as asked for, or the device's; or POOL_NODE_ANY */
	const struct share *shares; /* with other tenants */
	unsigned n_shares;
	bool ready; /* false: not granted yet, waits for memory or keys */
};

/* Atomics of several devices, or of a device and the CPU, are not atomic to each other, so one
 * device executes all atomics on a lease. */
struct lease_atomic_device {
	enum fabric_kind kind;        /* 0: not decided */
	char name[FABRIC_DEVICE_MAX]; /* "" for tcp */
};

struct leases_events {
	/* The client has events to read: lease_next_event(). */
	void (*client_event)(void *ctx, struct lease_client *client);
	/* The client has notifications to read: lease_next_notices(). */
	void (*client_notified)(void *ctx, struct lease_client *client);
	/* For the log: a lease is granted; a granted one ends. */
	void (*granted)(void *ctx, const struct lease_status *status);
	void (*ended)(void *ctx, const struct lease_status *status,
		      enum wire_reason reason);
	/* leases_next_ms() has changed. */
	void (*timer_moved)(void *ctx);
	/* The last lease has ended, and its keys are dead.  NULL: of no interest. */
	void (*none_left)(void *ctx);
};

/* Open a table that allocates from `pools` and records leases in `ledger`; borrows all pointers.
 * Work that may be long is done in `slices`.  The first lease gets the id `first_id`, later ones
 * higher ids.  -ENOMEM */
int leases_open(struct pools *pools, struct ledger *ledger, struct slices *slices,
		const struct leases_events *events, void *ctx, uint64_t first_id,
		struct leases **ret_leases);

struct leases_restore {
	/* A reference to the tenant.  NULL: -ENOMEM, with text. */
	struct tenant *(*tenant)(void *ctx, const char *name);
	/* The client of a session.  NULL: the session has ended. */
	struct lease_client *(*client)(void *ctx, uint64_t session);
	/* A lease cannot be restored, and ends.  name "": ephemeral, or not known; tenant NULL:
	 * not known. */
	void (*lost)(void *ctx, uint64_t id, const char *name, const char *tenant,
		     const char *why);
	/* A session does not have the lease attached any more. */
	void (*detached)(void *ctx, uint64_t session, uint64_t lease);
	void *ctx;
};

/* Restore the leases of the ledger into an empty table, after the sessions.  They have no keys
 * until their clients attach them again.
 *   -EBADMSG  a lease of the ledger is malformed
 *   -EINVAL   a lease is not in the memory of its pool
 *   -ENOMEM */
int leases_restore(struct leases *leases, const struct leases_restore *with);
/* Whether leases of a ledger are in the pool with this id. */
bool leases_use_pool(const struct ledger *ledger, uint32_t id);
/* Free all leases without telling the clients; the fabrics are closed already.  The ledger keeps
 * them.  NULL: no effect. */
void leases_close(struct leases *leases);

/* Scrubbers have cleaned memory: serve requests that wait for it. */
void leases_retry(struct leases *leases);
/* End leases and requests that are due, a limited number at a time. */
void leases_tick(struct leases *leases);
/* When leases_tick() is next due (clock_now_ms), UINT64_MAX: never. */
uint64_t leases_next_ms(const struct leases *leases);

/* End a lease at once, for all sessions.  -ENOENT: none that is granted has this id. */
int leases_revoke(struct leases *leases, uint64_t id);
/* End some leases with ids above *after, `max` at most; *after becomes the id of the last one.
 * False: there are no more. */
bool leases_revoke_after(struct leases *leases, uint64_t *after, unsigned max);

#define LEASES_DRAINING \
	"the server is being drained, and grants nothing new: ask another one"
/* Grant no memory any more, also to requests that wait for it, which fail with ESHUTDOWN; or
 * again. */
void leases_set_draining(struct leases *leases, bool draining);
/* Whether there is no lease, and no key of one that has ended. */
bool leases_none_left(const struct leases *leases);

/* Call each() for every lease with an id above `after` in the order of ids, until it returns
 * non-zero, and return its result.  The strings are borrowed until each() returns; each() must not
 * change the table. */
int leases_each(const struct leases *leases, uint64_t after,
		int (*each)(const struct lease_status *status, void *arg), void *arg);
/* As leases_each(), for the tenant's named leases with ids above *after and names that begin with
 * `prefix`; looks at `max` leases at most.  *after becomes the id of the last one it looked at.
 * -EAGAIN, without text: it has looked at `max` leases. */
int leases_each_named(const struct tenant *tenant, uint64_t *after, const char *prefix,
		      unsigned max,
		      int (*each)(const struct lease_status *status, void *arg),
		      void *arg);

/* The lease with this id.  False: there is none, or it is not granted yet. */
bool leases_find_status(const struct leases *leases, uint64_t id,
			struct lease_status *ret_status);
/* The tenant's lease with this name.  False: there is none, or it is not granted yet. */
bool leases_find_named(const struct tenant *tenant, const char *name,
		       struct lease_status *ret_status);
/* The parts of the lease in the order of nodes; returns their number.  `status` is from
 * leases_each(). */
unsigned lease_parts(const struct lease_status *status,
		     struct lease_part ret_parts[WIRE_SEGMENTS_MAX]);

/* A session that has a lease attached. */
struct lease_holder {
	uint64_t session;
	const char *tenant;
	const struct origin *origin; /* NULL: not known */
	unsigned rights;             /* WIRE_RIGHT_* */
	bool fenced; /* its keys are dead until the client asks for new ones */
};
/* Call each() for the holders with an id above `after`, in the order of ids, until it returns
 * non-zero, and return its result.  `status` is from leases_each(). */
int lease_each_holder(const struct lease_status *status, uint64_t after,
		      int (*each)(const struct lease_holder *holder, void *arg),
		      void *arg);
/* What went through the keys of the lease, as far as the fabrics know; a sum over all of them. */
struct fabric_mr_traffic lease_traffic(const struct lease_status *status);
/* Whether the session owns the lease or has it attached. */
bool lease_is_of(const struct lease_status *status, uint64_t session);

/* The number of leases, including those not granted yet. */
unsigned leases_count(const struct leases *leases);
struct leases_counters {
	/* since the table was opened */
	uint64_t granted, expired;
	/* requests that waited for clean memory, and their waits */
	uint64_t waited, waited_ms;
	/* from the request to the grant; from the start of a registration until its key is live */
	struct durations grants, registrations;
	/* leases that there are, including those not granted yet */
	uint64_t named, ephemeral, bytes;
};
const struct leases_counters *leases_counters(const struct leases *leases);

/* The memory that pools want back has changed, or a deadline has come: the next calls of
 * leases_tick() tell clients that have such leases attached, and end leases that are due. */
void leases_reclaim(struct leases *leases);
/* Check some leases behind holders->after.  False: there are more, which other clients must not
 * wait for. */
bool leases_find_holders(const struct leases *leases, struct pool_holders *holders);
/* For the log: describe the holders, and name the largest. */
void leases_describe_holders(const struct leases *leases,
			     const struct pool_holders *holders, char *buf,
			     size_t buf_bytes);

/* Take the next event of the client: `revoked`, `changed` or `shrinking`, with the present state;
 * repeated events are one.  False: there is none. */
bool lease_next_event(struct lease_client *client, struct wire_msg *ret_msg);

/* ---- requests ---- */

/* The condition that a waiter waits for; for lease/ alone. */
enum lease_wait {
	LEASE_WAIT_GRANT,
	LEASE_WAIT_ATTACH,
	LEASE_WAIT_REKEY,
	LEASE_WAIT_GROW,
	LEASE_WAIT_TRIM,
	LEASE_WAIT_END,
};

#define LEASE_TEXT_MAX 256

/* Embedded in a request; the caller sets done. */
struct lease_waiter {
	/* The request is done, or has failed and is undone; the waiter is the caller's again.
	 * May be called before the function of the request returns 0.  It must not start another
	 * request. */
	void (*done)(struct lease_waiter *waiter, int err, const char *text);
	/* For done(err == 0) of allocate, attach, rekey and resize, to build the reply with
	 * lease_describe(); borrowed until done() returns. */
	struct attachment *attachment;
	/* Set before lease_reattach() by its user: if that fails, unless the function's result told
	 * so, the attachment ends; or the lease, if it was never attached by its name. */
	bool ends_attachment, ends_lease;
	/* The rest is for lease/ alone. */
	struct lease *lease;
	enum lease_wait kind;
	uint64_t begun_ns;         /* clock_now_ns() */
	struct list link;          /* in lease->waiters */
	struct list in_attachment; /* in attachment->waiters */
	bool checked;              /* in the present round: lease->round */
	uint64_t old_bytes;
	struct list waiting;   /* in leases->waiting, while it waits for memory */
	struct list in_tenant; /* in tenant->waiters or ->untried, meanwhile */
	uint64_t wanted_bytes;
	uint64_t give_up_ms;
	int err; /* not 0: the request will fail with it */
	char text[LEASE_TEXT_MAX];
};

/* Stop waiting: a grant or an attachment not yet done is undone, any other request goes on.  done()
 * is not called.  True: the request is undone. */
bool lease_waiter_cancel(struct lease_waiter *waiter);

struct lease_params {
	uint64_t bytes; /* 0: no memory yet */
	uint64_t align; /* 0, or a power of two */
	enum wire_placement placement;
	int node;         /* POOL_NODE_ANY: preferably those of the client's devices */
	uint64_t ttl_ms;  /* once it has a name; 0: the longest the tenant may have */
	const char *name; /* "": ephemeral */
};

#define LEASE_ALIGN_MAX (UINT64_C(1) << 30)

static inline bool lease_align_good(uint64_t align)
{
	return align <= LEASE_ALIGN_MAX && !(align & (align ? align - 1 : 0));
}

/* -EINVAL: these are valid for no lease, whatever the limits. */
int lease_check_params(const struct lease_params *params);
int lease_check_rights(unsigned rights);

/* Whose lease a request by name is about. */
struct lease_owner {
	const char *name;            /* "": of the client's tenant */
	const struct tenant *tenant; /* of that name; NULL: there is none */
};

/* Each returns 0 if done() was or will be called; after an error done() is not called. */

/* After lease_check_params().  -ENOSPC, -EDQUOT, -EEXIST, -ENOMEM, -EACCES (the tenant is leaving,
 * or has no right).  While the bytes it needs are being scrubbed the request waits. */
int lease_allocate(struct leases *leases, struct lease_client *client,
		   const struct lease_params *params, struct lease_waiter *waiter);
/* After lease_check_rights().  A client that was fenced, and has the lease attached, may attach it
 * again, as the reply may have been lost with its connection: the lease gets new keys.  -ENOENT,
 * -EALREADY (attached already), -EDQUOT, -ENOMEM, -EACCES (the tenant is leaving, or has no right),
 * -ENOTSUP (the client cannot reach some segment) */
int lease_attach(struct leases *leases, struct lease_client *client,
		 const struct lease_owner *owner, const char *name, unsigned rights,
		 struct lease_waiter *waiter);
/* Make the keys of an attached lease for all endpoints of the client.  -ESTALE */
int lease_reattach(struct leases *leases, struct lease_client *client, uint64_t id,
		   struct lease_waiter *waiter);
/* Ends an ephemeral lease; `undo`: also a named one that was never attached by its name.
 * -ESTALE */
int lease_detach(struct leases *leases, struct lease_client *client, uint64_t id,
		 bool undo, struct lease_waiter *waiter);
/* -ESTALE, -EACCES */
int lease_free(struct leases *leases, struct lease_client *client, uint64_t id,
	       struct lease_waiter *waiter);
/* -ENOENT, -EACCES */
int lease_remove(struct tenant *tenant, const char *name, struct lease_waiter *waiter);
/* The name is not empty.  replace: the lease that has the name ends.
 * -ESTALE, -EACCES, -EEXIST, -ENOMEM */
int lease_rename(struct leases *leases, struct lease_client *client, uint64_t id,
		 const char *name, bool replace, struct lease_waiter *waiter);
/* -ESTALE, -EACCES, -ENOSPC, -EDQUOT, -EBUSY (another resize is under way), -ENOMEM */
int lease_resize(struct leases *leases, struct lease_client *client, uint64_t id,
		 uint64_t bytes, struct lease_waiter *waiter);

/* Renew at once.  ttl_ms 0: the longest the tenant may have; same: for as long as was given last.
 * -ESTALE, -EACCES, -EINVAL (ephemeral), -EDQUOT, -ENOMEM */
int lease_renew(struct leases *leases, struct lease_client *client, uint64_t id,
		uint64_t ttl_ms, bool same);
/* The device that executes the atomics of all sessions on the lease.  The first call fixes it for
 * the life of the lease, to the device of this endpoint.
 *   -ENOTSUP  no device is fixed, and the endpoint's device has no atomics
 *   -ESTALE, -EACCES */
int lease_fix_atomic_device(struct leases *leases, struct lease_client *client,
			    uint64_t id, const struct fabric_endpoint *endpoint,
			    struct lease_atomic_device *ret_device);
/* Borrowed strings.  -ENOENT */
int lease_stat(struct tenant *tenant, const struct lease_owner *owner, const char *name,
	       struct lease_status *ret_status);
/* Share a named lease of the client's tenant with another tenant, or with rights 0 end the share.
 * Attachments with more rights end, and the request is done when their keys are dead.
 * -ESTALE, -EACCES, -EINVAL (no name, or its own tenant), -EDQUOT, -ENOMEM */
int lease_share(struct leases *leases, struct lease_client *client, uint64_t id,
		const char *tenant, unsigned rights, struct lease_waiter *waiter);
/* Fill in the reply to allocate, attach, rekey and resize. */
void lease_describe(const struct attachment *attachment, struct wire_lease *ret_msg);

/* ---- notifications ---- */

/* A client that has a lease attached may watch the lease: it gets the notifications until
 * lease_unwatch() or the end of the attachment.  A repeated call has no effect.  -ESTALE,
 * -ENOMEM */
int lease_watch(struct leases *leases, struct lease_client *client, uint64_t id);
int lease_unwatch(struct leases *leases, struct lease_client *client, uint64_t id);
/* Take the oldest notifications of the client, as many as a message holds.  False: there are
 * none. */
bool lease_next_notices(struct lease_client *client, struct wire_notified *ret_msg);

/* ---- events of the fabrics ---- */

/* fabric_server_events.mr_registered and .mr_deregistered. */
void lease_mr_registered(void *ctx, void *mr_cookie, int err, const char *text,
			 const struct fabric_key *key);
void lease_mr_deregistered(void *ctx, void *mr_cookie);
/* fabric_server_events.notified: tells all clients that watch the lease, including the notifier.
 * The fabric ensures that only a client with write access can notify. */
void lease_notified(void *ctx, void *session_cookie, void *mr_cookie, uint32_t value,
		    uint32_t lost);

#endif
