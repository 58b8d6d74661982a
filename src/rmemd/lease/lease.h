/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases: memory of the pools lent to a tenant until it is freed or its time is over.
 *
 * The table owns every lease.  A lease is made reachable for a session by an
 * attachment, whose mrs carry the keys.  Whatever ends a lease, the order is
 * always: keys dead, extents given back to their pools.  What waits for a fabric or for
 * memory ends in the waiter's done().
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(); never logs. */
#ifndef RMEMD_LEASE_LEASE_H
#define RMEMD_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "rmemd/lease/lease_client.h"
#include "rmemd/lease/tenant.h"
#include "wire/msg.h"

struct attachment;
struct lease;
struct leases;
struct ledger;
struct pools;

/* So much of a lease lies on one node. */
struct lease_share {
	int node; /* -1: unknown */
	uint64_t bytes;
};

/* A lease for people and programs that look on. */
struct lease_status {
	const struct lease *lease; /* for lease_shares() */
	uint64_t id;
	const char *name; /* "": ephemeral */
	const char *tenant;
	uint64_t owner; /* session it ends with; 0: named */
	uint64_t bytes; /* its exact length */
	uint64_t lent;  /* bytes of the pools it takes */
	unsigned segments;
	unsigned sessions; /* that have it attached */
	unsigned writers;  /* those of them that may write */
	uint64_t age_ms;
	uint64_t ttl_ms; /* left; 0: for ever */
	uint32_t generation;
	enum wire_placement placement; /* as asked for */
	int node; /* of that; of WIRE_PLACE_DEVICE that of the device; POOL_NODE_ANY */
	bool ready; /* false: being granted, waits for memory or keys */
};

/* Atomics through different devices, or of a device and of the CPU, are not atomic to each
 * other: those on one lease are all done in one place. */
struct lease_atomic_device {
	enum fabric_kind kind;        /* 0: not decided */
	char name[FABRIC_DEVICE_MAX]; /* "" for tcp */
};

/* Callbacks of the table. */
struct leases_events {
	/* The client has events to read: lease_next_event(). */
	void (*client_event)(void *ctx, struct lease_client *client);
	/* It has notifications to read: lease_next_notices(). */
	void (*client_notified)(void *ctx, struct lease_client *client);
	/* For the log: a lease is granted; a granted one ends. */
	void (*granted)(void *ctx, const struct lease_status *status);
	void (*ended)(void *ctx, const struct lease_status *status,
		      enum wire_reason reason);
	/* leases_next_ms() has changed. */
	void (*timer_moved)(void *ctx);
};

/* Open a table that takes memory from `pools` and keeps its leases in `ledger`; borrows all
 * and ctx.  The first lease gets the id `first_id`, later ones higher ids.  -ENOMEM */
int leases_open(struct pools *pools, struct ledger *ledger,
		const struct leases_events *events, void *ctx, uint64_t first_id,
		struct leases **ret_leases);

/* What leases_restore() asks. */
struct leases_restore {
	/* A reference, the caller's.  NULL: -ENOMEM, with text. */
	struct tenant *(*tenant)(void *ctx, const char *name);
	/* NULL: it has ended. */
	struct lease_client *(*client)(void *ctx, uint64_t session);
	/* A lease cannot be had back.  name "": ephemeral. */
	void (*lost)(void *ctx, uint64_t id, const char *name, const char *why);
	void *ctx;
};

/* Take back what is in the ledger, into a table that is empty yet; sessions are there
 * already, and have to ask for their keys.
 *   -EBADMSG  the ledger's leases are no leases
 *   -EINVAL   they are not where the pools have memory
 *   -ENOMEM */
int leases_restore(struct leases *leases, const struct leases_restore *with);
/* Whether leases of a ledger are in the pool with this id: 1, 0, or -EBADMSG */
int leases_use_pool(const struct ledger *ledger, uint32_t id);
/* Free everything at once, without news; the fabrics are closed already.  The ledger keeps
 * it.  NULL: nothing. */
void leases_close(struct leases *leases);

/* Memory came back from the scrubbers: grant what waits for it. */
void leases_retry(struct leases *leases);
/* End what is due, or so much of it that it does not take long. */
void leases_tick(struct leases *leases);
/* When leases_tick() is next due (clock_now_ms), UINT64_MAX: never. */
uint64_t leases_next_ms(const struct leases *leases);

/* Call each() for every lease in the order of their ids, until it returns non-zero, and
 * return that.  The strings are borrowed until each() returns; the table must not
 * change meanwhile. */
int leases_each(const struct leases *leases,
		int (*each)(const struct lease_status *status, void *arg), void *arg);
/* The same for the named leases of a tenant behind the id `after` whose names begin with
 * `prefix`. */
int leases_each_named(const struct leases *leases, const struct tenant *tenant,
		      uint64_t after, const char *prefix,
		      int (*each)(const struct lease_status *status, void *arg),
		      void *arg);

/* Where it lies, by rising nodes; returns how many.  `status` is as leases_each() gives it. */
unsigned lease_shares(const struct lease_status *status,
		      struct lease_share ret_shares[WIRE_SEGMENTS_MAX]);

/* How many there are, those too that are not granted yet. */
unsigned leases_count(const struct leases *leases);
/* Since the table was opened. */
struct leases_counters {
	uint64_t granted, expired;
	/* Requests that waited for clean memory and do no more, and the sum of their waits. */
	uint64_t waited, waited_ms;
};
const struct leases_counters *leases_counters(const struct leases *leases);

/* What pools want back has changed, or it is time to take it: tell all who have leases attached
 * that are in the way, and end those leases that are to end by now; over some calls of
 * leases_tick(). */
void leases_reclaim(struct leases *leases);
/* For the log: how much is in the way of what is wanted back of this pool, and the leases that have
 * most of it.  False: nothing is. */
bool leases_describe_reclaimed(const struct leases *leases, uint32_t pool, char *buf,
			       size_t buf_bytes);

/* Take one of what the client is to be told: `revoked`, `changed` or `shrinking`, as it is now;
 * what happens several times before it is taken is told once.  False: there is nothing. */
bool lease_next_event(struct lease_client *client, struct wire_msg *ret_msg);

/* ---- requests ---- */

/* What a waiter waits for; only lease/ looks at it. */
enum lease_wait {
	LEASE_WAIT_GRANT,
	LEASE_WAIT_ATTACH,
	LEASE_WAIT_REKEY,
	LEASE_WAIT_GROW,
	LEASE_WAIT_TRIM,
	LEASE_WAIT_END,
};

#define LEASE_TEXT_MAX 256

/* Embedded in a request; set done before the call. */
struct lease_waiter {
	/* The request is done, or failed and is undone; the waiter is the caller's again.  May
	 * be called before the request's function returns 0.  It must not start another
	 * request. */
	void (*done)(struct lease_waiter *waiter, int err, const char *text);
	/* For done(err == 0) of allocate, attach, rekey and resize: build the reply
	 * with lease_describe(); borrowed until done() returns. */
	struct attachment *attachment;
	/* The rest is for lease/ alone. */
	struct lease *lease;
	enum lease_wait kind;
	struct list link; /* in lease->waiters */
	uint64_t old_bytes;
	struct list waiting; /* in leases->waiting, while it waits for memory */
	uint64_t wanted_bytes;
	uint64_t give_up_ms;
	int err; /* it is going to fail with this */
	char text[LEASE_TEXT_MAX];
};

/* Nobody waits any more: a grant or an attachment not yet done is undone, anything else
 * goes on.  done() is not called.  True: it is as if it had not been asked. */
bool lease_waiter_cancel(struct lease_waiter *waiter);

struct lease_params {
	uint64_t bytes; /* 0: no memory yet */
	uint64_t align; /* 0, or a power of two */
	enum wire_placement placement;
	int node;         /* POOL_NODE_ANY: those of the client's devices first */
	uint64_t ttl_ms;  /* named only; 0: the longest the tenant may have */
	const char *name; /* "": ephemeral */
};

/* Each returns 0 when done() was or will be called, else done() is not called. */

/* -EINVAL, -ENOSPC, -EDQUOT, -EEXIST, -ENOMEM, -EACCES (the tenant is leaving).  While
 * the bytes it needs are being scrubbed the request waits. */
int lease_allocate(struct leases *leases, struct lease_client *client,
		   const struct lease_params *params, struct lease_waiter *waiter);
/* Asked again after a fence, because the answer was lost with the connection, it gives the
 * keys anew.  -ENOENT, -EBUSY (attached already), -EINVAL, -EDQUOT, -ENOMEM,
 * -EACCES (the tenant is leaving), -ENOTSUP (the client reaches not all of it) */
int lease_attach(struct leases *leases, struct lease_client *client, const char *name,
		 unsigned rights, struct lease_waiter *waiter);
/* The keys of what the client has attached, for all its endpoints.  -ESTALE */
int lease_rekey(struct leases *leases, struct lease_client *client, uint64_t id,
		struct lease_waiter *waiter);
/* Ends an ephemeral lease.  -ESTALE */
int lease_detach(struct leases *leases, struct lease_client *client, uint64_t id,
		 struct lease_waiter *waiter);
/* -ESTALE, -EACCES */
int lease_free(struct leases *leases, struct lease_client *client, uint64_t id,
	       struct lease_waiter *waiter);
/* -ENOENT */
int lease_remove(const struct tenant *tenant, const char *name,
		 struct lease_waiter *waiter);
/* replace: the lease that has the name ends.  -ESTALE, -EACCES, -EEXIST, -EINVAL,
 * -ENOMEM */
int lease_rename(struct leases *leases, struct lease_client *client, uint64_t id,
		 const char *name, bool replace, struct lease_waiter *waiter);
/* -ESTALE, -EACCES, -ENOSPC, -EDQUOT, -EBUSY (another resize is under way), -ENOMEM */
int lease_resize(struct leases *leases, struct lease_client *client, uint64_t id,
		 uint64_t bytes, struct lease_waiter *waiter);

/* ttl_ms 0: the longest the tenant may have.  Done at once.  -ESTALE, -EACCES, -EINVAL
 * (ephemeral), -EDQUOT, -ENOMEM */
int lease_renew(struct leases *leases, struct lease_client *client, uint64_t id,
		uint64_t ttl_ms);
/* Where atomics on the lease are done, by all sessions: the first session that asks decides it, for
 * as long as the lease lives, for the device of the endpoint that it is about to use.
 *   -ENOTSUP  it is not decided, and that device has no atomics
 *   -ESTALE, -EACCES */
int lease_fix_atomic_device(struct leases *leases, struct lease_client *client,
			    uint64_t id, const struct fabric_endpoint *endpoint,
			    struct lease_atomic_device *ret_home);
/* Borrowed strings.  -ENOENT */
int lease_stat(const struct tenant *tenant, const char *name,
	       struct lease_status *ret_status);
/* Fill in the answer to allocate, attach and resize. */
void lease_describe(const struct attachment *attachment, struct wire_lease *ret_msg);

/* ---- notifications ---- */

/* A client that has a lease attached may watch it; until lease_unwatch() or the end of the
 * attachment it is told of the notifications.  To do either again changes nothing.  -ESTALE, -ENOMEM */
int lease_watch(struct leases *leases, struct lease_client *client, uint64_t id);
int lease_unwatch(struct leases *leases, struct lease_client *client, uint64_t id);
/* Take the oldest of what the client is to be told, as many as an event carries.  False:
 * there is nothing. */
bool lease_next_notices(struct lease_client *client, struct wire_notified *ret_msg);

/* ---- news of the fabrics ---- */

/* fabric_server_events.exposed and .withdrawn; the cookie is the mr's. */
void lease_mr_registered(void *mr_cookie, int err, const char *text,
			 const struct fabric_key *key);
void lease_mr_deregistered(void *mr_cookie);
/* fabric_server_events.notified: all who watch the lease are to be told, the notifier too.
 * Only who may write to a lease can notify, as the fabric sees to. */
void lease_notified(void *mr_cookie, uint32_t value, uint32_t lost);

#endif
