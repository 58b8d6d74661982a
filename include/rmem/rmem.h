/* SPDX-License-Identifier: BSD-3-Clause */
/* librmem: borrow the memory of other hosts, read and write it with one-sided RDMA.
 *
 * A program opens a session with a memory server, allocates or attaches leases, and moves
 * bytes with synchronous calls or through queues.  Operations name (lease, offset);
 * addresses, rkeys, segments and channels stay inside the library.  Without an RDMA device
 * the calls run over TCP; rmem_info() tells which fabric is in use and why.
 *
 * Results.  Calls return 0, a count, a descriptor or a value; those that can fail return a
 * negative errno value instead.  rmem_error() then has one line of text for the calling thread:
 * the call, the lease by number and name, server, device and completion status; of a lease that
 * has ended also why it has ended.  Output arguments are unchanged on failure.  The numbers mean
 * in all calls:
 *
 *   EINVAL      an argument is NULL or out of its range; the text names it
 *   ENOMEM      this host or the server lacks memory, or RLIMIT_MEMLOCK is too low to
 *               register it
 *   EACCES      authentication failed, or the lease or the rights of the tenant do not permit the
 *               operation; the text names the key of the server's configuration
 *   ENOENT      no lease has that name
 *   EEXIST      the name is taken
 *   ENOSPC      the server's pools cannot hold the request
 *   ESHUTDOWN   the server is being drained, and grants nothing new: ask another one
 *   EDQUOT      a limit of the tenant or session would be exceeded
 *   ESTALE      the lease has ended (freed, revoked, expired), or the session is lost for
 *               good, or was opened by the parent process
 *   EBUSY       operations are outstanding, or the object is in use
 *   ETIMEDOUT   no answer in time; a write or request may or may not have taken effect.  A write
 *               takes no effect after this error
 *   ECONNRESET  the channel or connection was lost; a write may or may not have taken effect.
 *               It takes no effect after this error
 *   ECANCELED   rmem_cancel() ended the operation, or rmem_calls_cancel() the call
 *   EINTR       the hook of rmem_thread_interrupt() ended the call
 *   ENOTSUP     the fabric, device or server cannot do this; the text names it
 *   EOVERFLOW   the queue is full: take completions first
 *   EPROTO      the server broke the protocol
 *   EFAULT      kernel or device report that local memory is not mapped, or not with the
 *               access that the operation needs.  Unregistered memory on RDMA, and memory
 *               that is read into by at most 2048 bytes over TCP, is copied by the calling
 *               thread, which gets a SIGSEGV instead
 *   EIO         the device failed; the text has the completion status
 *   ECONNREFUSED, EHOSTUNREACH, ENODEV, ...   from opening a connection
 *
 * Server calls.  A call that is marked so sends a request to the server and waits for the reply.
 * Besides the errors listed with each call it fails with
 *   - ENOMEM and EPROTO,
 *   - ETIMEDOUT: no reply within the session's timeout_ms, or rmem_thread_timeout(),
 *   - ESTALE: the session is lost for good, or the lease has ended,
 *   - ENOSPC: the server's file system has no room to record the change.
 *
 * Losing the server.  A session is lost when its connection breaks, or when it has heard
 * nothing from the server for fence_ms; the time for which this host is suspended counts.  The
 * library then acts by itself:
 *   - The session stops using its rkeys, and resumes within grace_ms with its leases.
 *     rmem_info() counts that in `resumes`.
 *   - Operations outstanding or submitted meanwhile wait, at most for their time-out.
 *     Then reads and writes are posted, those that were outstanding once more.  An
 *     outstanding atomic or notification ends in ECONNRESET; its outcome is unknown.
 *   - Server calls wait, at most for their time-out.  A request whose reply was lost is
 *     sent again; the server does no request twice.
 * This applies also to a restart of a server that keeps its leases, see rmemd(8):
 *   - The server may then have other addresses and ports for data.
 *   - The session waits for a device that the server lacks as for a lost channel: the queue's
 *     channels to other devices carry on.
 * With RMEM_NO_RESUME a session is not resumed, and nothing is posted again: everything ends in
 * ESTALE, see below.
 * If the server does not know the session any more, everything ends in ESTALE, also the
 * session's handles of named leases.  Then close the session, open another and attach the
 * leases by name.  A call that ends in ETIMEDOUT or ESTALE may or may not have taken effect; a
 * lease that is granted too late is detached, and freed if it was never attached by its name.
 *
 * Losing a channel.  A channel that fails is replaced; the others carry on.
 *   - Its reads and writes are posted again once the server has confirmed that nothing of
 *     the old channel can arrive any more: a late packet could overwrite newer bytes.
 *   - An operation that was itself at fault ends in its error; an operation that loses its
 *     channel again and again ends in ECONNRESET.
 *   - If no channel is left, operations wait for a channel, at most for their time-out.
 *
 * Ended operations.  After an operation was reported with an error, nothing of it is applied at
 * the server any more.  So the error of a posted operation that changes memory there, such as a
 * write or an atomic, is reported late: once the server has confirmed that it has closed its end
 * of the channel, one round trip after the time-out, cancellation or failure.  If the server does
 * not answer, the error is reported once the server has fenced the session: within 2 * fence_ms.
 *
 * Threads.  [any]: any thread may make the call at any time; calls on one object are serialised
 * inside.  [owner]: one thread at a time may make the call; no lock is taken.
 *
 * Growth.  A structure that can grow begins with `size`, which its _init() function sets.  The
 * library reads or fills no more than that.  It fills members that it does not know with zero.  If
 * it does not know a member that is not 0, the call fails with EINVAL.  Structures that programs
 * keep in arrays do not grow: their `reserved` members are 0, set by the program or the library.
 *
 * Signals and cancellation.  A signal handler that interrupts a thread which waits in a call may
 * take any time: the service threads keep the session alive, unless RMEM_NO_THREAD.  Calls that
 * wait, and rmem_process(), are no cancellation points: a thread that is cancelled meanwhile goes
 * on until the call has ended, and session and queue stay usable.  rmem_submit(), rmem_poll() and
 * rmem_cancel() make system calls that are cancellation points: disable cancellation around them.
 *
 * fork().  The parent goes on undisturbed.  In the child:
 *   - Each call that uses what the parent has opened fails with ESTALE at once.
 *     rmem_lease_status() returns that too, and rmem_lease_reason() RMEM_REASON_LOST.  Other
 *     calls that cannot fail, such as rmem_lease_bytes(), return what they returned in the
 *     parent.  rmem_close(), rmem_queue_free() and rmem_calls_free() do nothing.
 *   - The copies of the descriptors are closed, those of rmem_fd(), rmem_queue_fd(),
 *     rmem_calls_fd() and rmem_notified_fd() included; descriptors of RDMA devices stay open until
 *     the child ends or calls exec().
 *   - The child can open sessions of its own.
 * A signal handler that may interrupt a call of this library must not call fork(). */
#ifndef RMEM_H
#define RMEM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Public symbols; everything else in the library is hidden. */
#define RMEM_API __attribute__((visibility("default")))

typedef struct rmem rmem;               /* a session with one server */
typedef struct rmem_lease rmem_lease;   /* memory lent to this session */
typedef struct rmem_queue rmem_queue;   /* one thread's operations and completions */
typedef struct rmem_buffer rmem_buffer; /* local memory registered with the devices */
typedef struct rmem_calls rmem_calls;   /* server calls begun, of any sessions */

#define RMEM_NAME_MAX 255    /* bytes of a lease's name, without the terminator */
#define RMEM_SEGMENTS_MAX 64 /* segments of one lease */
#define RMEM_CHANNELS_MAX 64 /* channels of one queue */
#define RMEM_DEPTH_MAX 4096  /* operations outstanding in one queue */
#define RMEM_DEFAULT_PORT 7460

/* The error text of the thread's last call; "" if it succeeded.  Calls on a queue that succeed, and
 * calls that cannot fail, do not change the text.  Valid until the thread's next call of this
 * library.  [any] */
RMEM_API const char *rmem_error(void);

/* The version of the running library, "MAJOR.MINOR.PATCH"; static.  [any] */
RMEM_API const char *rmem_version(void);

/* ---- sessions ---- */

enum rmem_fabric {
	RMEM_FABRIC_AUTO = 0, /* RDMA if both hosts have RDMA devices, else TCP */
	RMEM_FABRIC_TCP = 1,
	RMEM_FABRIC_RDMA = 2,
};

#define RMEM_NO_THREAD 1u /* the program drives the session: rmem_fd, rmem_process */
#define RMEM_NO_RESUME 2u /* losing the server ends the session */

/* Supplies the pre-shared key of a tenant: writes 16 to `bytes`, which is 64, bytes to key, and
 * their number to *ret_bytes.  Returns 0, or non-zero: there is none, and rmem_open() fails with
 * EACCES.  Called inside rmem_open(), or by a thread of the library for RMEM_CALL_OPEN, once for
 * each attempt to open; the library copies the key and wipes its own buffer. */
typedef int rmem_psk(void *ctx, const char *tenant, unsigned char *key, size_t bytes,
		     size_t *ret_bytes);

/* Steps of rmem_open(), in this order. */
enum rmem_step {
	RMEM_STEP_RESOLVED = 1,  /* HOST has an address */
	RMEM_STEP_CONNECTED = 2, /* the control connection */
	RMEM_STEP_SECURED = 3, /* TLS, left out without it: each side knows the other */
	RMEM_STEP_WELCOMED = 4, /* the server has opened the session */
	RMEM_STEP_CHANNEL = 5,  /* the first channel */
};

/* Is told that a step of rmem_open() is done.  Called inside rmem_open(), by its thread, or by one
 * of the library for RMEM_CALL_OPEN; it returns soon, and calls no function of this library.  A
 * step is repeated when another address is tried, or the server is lost and found again. */
typedef void rmem_stepped(void *ctx, enum rmem_step step);

/* Options beyond the URI.  Start from rmem_options_init(); members are only ever added. */
struct rmem_options {
	size_t size;         /* sizeof(struct rmem_options) */
	unsigned flags;      /* RMEM_NO_THREAD, RMEM_NO_RESUME */
	unsigned timeout_ms; /* set-up, server calls, operations; 0: 10000 */
	/* how rmemctl shows this session: 1 to 64 bytes of UTF-8 without control
	 * or invisible characters; NULL: program name and process id */
	const char *client;
	rmem_psk *psk;         /* supplies the key, instead of a file; NULL: none */
	void *psk_ctx;         /* passed to psk() */
	rmem_stepped *stepped; /* is told the steps; NULL: none */
	void *stepped_ctx;     /* passed to stepped() */
};
static inline struct rmem_options rmem_options_init(void)
{
	struct rmem_options value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	return value;
}

/* Open a session, and wait.
 *
 * Pre-shared keys are kept in locked pages that core dumps leave out, and OpenSSL's copy is wiped
 * after each handshake.  The library changes nothing for the whole process: a core dump of the
 * program may have secrets of connections that are alive, and the private key of a certificate.
 *
 *   uri      [rmem://]HOST[:PORT][?fabric=auto|rdma|tcp&channels=N&tenant=NAME&...]; NULL:
 *            the environment variable RMEM_SERVER, as in secure_getenv(3).  An IPv6 address
 *            is in brackets.  channels: per queue, 1 to RMEM_CHANNELS_MAX, default
 *            1.  tenant: the identity that borrows, default that of the key, or "default".
 *            psk, cert, key, ca, servername: authentication, see rmem_open(3).  Options for the
 *            use of RDMA devices, see rmem_open(3): source, mtu, traffic_class,
 *            service_level, ack_timeout, retry_count, rnr_retry_count, rd_atomic,
 *            relaxed_ordering, connect, gid_index, pkey.
 *   options  NULL: the defaults; not kept
 * Unless RMEM_NO_THREAD, two service threads per process keep all sessions alive.  They
 * start with the first session, end with the last, and take no signals.  A HOST that is a name
 * is resolved by one more thread, which may go on after the call if name servers are silent.
 * The call opens a first channel: fabric=auto uses RDMA if that works within 2 s, and within
 * a quarter of timeout_ms; else TCP, and rmem_info() tells why.
 * If the server was reached and is lost during the call, as when its daemon restarts, the
 * call waits for the server within timeout_ms.  It does not wait for a server that it never
 * reached.
 * The caller owns *ret_session and ends it with rmem_close().
 *   EINVAL  the URI or an option is malformed, or there is no URI
 *   EACCES  the server has no such tenant, or the tenant is leaving; the server does not accept
 *           the key or certificate, or this side not the server's; others can read a key's file
 *   ENODEV  fabric=rdma and this host or the server has no RDMA device
 *   ENOTSUP the server has no protocol version in common with this library
 *   EDQUOT  the server or tenant has as many sessions as allowed, or the tenant as many
 *           channels: each session has one for synchronous calls
 *   EHOSTUNREACH also if HOST cannot be resolved
 *   ENOMEM, EMFILE, EPROTO, ECONNREFUSED, ECONNRESET, ETIMEDOUT, ... from connecting  [any] */
RMEM_API int rmem_open(const char *uri, const struct rmem_options *options,
		       rmem **ret_session);

/* End the session: its ephemeral leases are freed at once, named ones are detached.  The
 * handles of its leases, queues and buffers are freed and must not be used any more, not
 * even to free them.  The call takes about 1 s at most: a server that does not answer in this time
 * ends the session by its clock.  NULL: nothing.
 * [any, but no other call may use the session] */
RMEM_API void rmem_close(rmem *session);

/* Give the calling thread a time-out of its own, instead of the timeout_ms of the sessions: for the
 * server calls and synchronous operations that the thread makes from now on, in all sessions, and
 * for rmem_queue_create().  It does not count for rmem_open(), rmem_close() and the operations of
 * queues.  Returns the thread's time-out before; 0: it had none.
 *   timeout_ms  0: that of the session again  [any] */
RMEM_API unsigned rmem_thread_timeout(unsigned timeout_ms);

/* Let signals end the waits of the calling thread: server calls, synchronous operations,
 * rmem_wait(), rmem_notified() and rmem_calls_wait().  While such a call waits it asks the hook,
 * after each signal that interrupts it and every 100 ms.  If the hook returns other than 0, the
 * call ends in EINTR:
 *   - An operation is cancelled as rmem_cancel() does, and its memory is the caller's again.  A
 *     write at a server that does not answer ends once the session is fenced, see "Ended
 *     operations" above.
 *   - A server call ends as in ETIMEDOUT; one that has ended meanwhile, and has granted nothing,
 *     returns its result.
 *   - Calls that take completions, notices or answers take none, and leave what they wait for as
 *     it is.
 *   interrupted  called by this thread, without a lock of the library; it must not use the session;
 *                NULL: none, which is the default
 *   ctx          passed to interrupted()  [any] */
RMEM_API void rmem_thread_interrupt(int (*interrupted)(void *ctx), void *ctx);

/* How client and server know each other, see rmem_open(3). */
enum rmem_auth {
	RMEM_AUTH_NONE = 0,
	RMEM_AUTH_PSK = 1, /* a pre-shared key */
	RMEM_AUTH_CERTIFICATE =
		2, /* the server by its certificate, the client by its own */
};

/* Properties of a session.  Strings live as long as the session.  Start from
 * rmem_info_init(). */
struct rmem_info {
	size_t size;             /* in: sizeof(struct rmem_info) */
	enum rmem_fabric fabric; /* RMEM_FABRIC_TCP or RMEM_FABRIC_RDMA */
	const char *downgrade;   /* why fabric=auto uses TCP; NULL: it does not */
	const char *server;      /* address:port of the control connection */
	const char *device;      /* local RDMA devices, comma separated; "" on TCP */
	uint64_t session_id;
	unsigned channels; /* per queue, from the URI */
	/* from [session] of the server's rmemd.conf: */
	unsigned heartbeat_ms; /* interval between heartbeats */
	unsigned fence_ms;     /* a session silent for this time is fenced */
	unsigned grace_ms;     /* ephemeral leases end this long after the fence */
	uint64_t resumes;      /* how often the session was lost and resumed */
	int draining; /* 1: the server has announced that it will stop, and grants nothing new */
	enum rmem_auth auth;
	/* on RDMA: copied so far, as the program's memory was in no registered buffer */
	uint64_t copied_bytes;
};
static inline struct rmem_info rmem_info_init(void)
{
	struct rmem_info value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	return value;
}

/* Fill *info.  EINVAL: info->size is not set.  [any] */
RMEM_API int rmem_info(rmem *session, struct rmem_info *info);

/* Only with RMEM_NO_THREAD: a descriptor that polls readable when rmem_process() has work,
 * a heartbeat included.  The session owns the descriptor: neither read nor close it.
 *   EINVAL  the session was opened without RMEM_NO_THREAD  [any] */
RMEM_API int rmem_fd(rmem *session);

/* Only with RMEM_NO_THREAD: do the session's due work: heartbeats, events, reconnecting.
 * It blocks only to replace a channel: one per call, half a heartbeat at most.  Calls that
 * wait (server calls, synchronous operations, rmem_wait) do this work themselves.
 *   EINVAL      the session was opened without RMEM_NO_THREAD
 *   ECONNRESET  the connection is lost; keep calling, the session tries to resume
 *   ESTALE      the session is lost for good: its grace time is over  [any] */
RMEM_API int rmem_process(rmem *session);

/* Server call: a round trip on the control connection.
 *   ret_ns  duration of the round trip in nanoseconds; may be NULL  [any] */
RMEM_API int rmem_ping(rmem *session, uint64_t *ret_ns);

/* ---- leases ---- */

#define RMEM_READ 1u  /* the lease may be read */
#define RMEM_WRITE 2u /* the lease may be written */

#define RMEM_NODE_ANY (-1)

/* Where on the server to place memory.  This is a preference: if there is no room, other
 * nodes are used, and rmem_lease_layout() tells the result. */
enum rmem_placement {
	/* On a NUMA node; RMEM_NODE_ANY: on the nodes of the RDMA devices that the session
	 * uses, then elsewhere. */
	RMEM_PLACE_NODE = 0,
	RMEM_PLACE_DEVICE = 1, /* on the node of one of the server's RDMA devices */
	/* In stripes over all nodes that have pools, for their combined bandwidth: up to 16
	 * stripes of at least 2 MiB; one per node if there are more nodes, or if the memory
	 * is too short for that. */
	RMEM_PLACE_INTERLEAVE = 2,
};

#define RMEM_ALLOC_ATTACH 1u /* attach the lease of that name, if there is one */

/* What to allocate.  Start from rmem_alloc_params_init(). */
struct rmem_alloc_params {
	size_t size;    /* sizeof(struct rmem_alloc_params) */
	uint64_t bytes; /* exact length; 0: no memory yet, rmem_grow() adds it */
	uint64_t align; /* bytes, a power of two up to 1 GiB; 0: a page of the server */
	int node;       /* RMEM_PLACE_NODE: preferred NUMA node; else RMEM_NODE_ANY */
	unsigned flags; /* RMEM_ALLOC_ATTACH */
	const char *name; /* NULL: ephemeral, ends with the session */
	/* time to live after the last renewal, of a lease without a name after rmem_rename()
	 * has named it; 0: for ever, or the tenant's ttl_max */
	uint64_t ttl_ms;
	enum rmem_placement placement; /* also of what rmem_grow() adds */
	const char *device; /* RMEM_PLACE_DEVICE: its name at the server; else NULL */
};
static inline struct rmem_alloc_params rmem_alloc_params_init(void)
{
	struct rmem_alloc_params value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	value.node = RMEM_NODE_ANY;
	return value;
}

/* Server call: borrow memory.  The lease reads as zero and can be read and written.  The caller
 * owns *ret_lease and ends it with rmem_destroy() or rmem_detach().
 * With RMEM_ALLOC_ATTACH a lease that has the name is attached for reading and writing, whatever
 * its length, placement and time to live, and the call returns 1.  If several sessions make this
 * call at once, one allocates and the others attach.
 *   EINVAL  a member of *params is out of its range; or RMEM_ALLOC_ATTACH without a name
 *   ENODEV  the server serves no RDMA device of that name
 *   EEXIST  the name is taken
 *   ENOSPC  the pools that this host reaches cannot hold it
 *   ESHUTDOWN  the server is being drained
 *   EDQUOT  a limit of the tenant or session would be exceeded
 *   EACCES  the tenant is leaving, may only read, or may not give this name
 *   EBUSY, ENOTSUP  as for rmem_attach(), with RMEM_ALLOC_ATTACH; EBUSY also if a lease of that
 *           name was being granted to another session, or ended, for all of timeout_ms  [any] */
RMEM_API int rmem_alloc(rmem *session, const struct rmem_alloc_params *params,
			rmem_lease **ret_lease);

/* Server call: attach a named lease of the tenant.  The caller owns *ret_lease and ends it
 * with rmem_destroy() or rmem_detach().  A session that has the lease already, by any call, gets
 * the same handle once more, with the rights that it has; one rmem_detach() gives back one of them.
 *   name    1 to RMEM_NAME_MAX bytes of UTF-8
 *   rights  RMEM_READ, or RMEM_READ | RMEM_WRITE
 *   EINVAL  rights or name is out of its range
 *   ENOENT  no lease has that name
 *   EBUSY   this session has attached it for reading only, and rights has RMEM_WRITE; or
 *           another thread was about to detach it, for all of timeout_ms
 *   ENOTSUP part of it is lent only through RDMA devices that this host does not reach, or
 *           to which the session can have no channel now
 *   EDQUOT  a limit of the tenant or session would be exceeded
 *   EACCES  the tenant is leaving, or may only read  [any] */
RMEM_API int rmem_attach(rmem *session, const char *name, unsigned rights,
			 rmem_lease **ret_lease);

/* Server call: attach a lease that another tenant shares, see rmem_share().
 *   - The session reads and writes it, notifies, watches and detaches it as its own leases.  Only
 *     its owner can end, rename, renew, grow, shrink or share it.
 *   - Its bytes count for the limits of the owner, its attachments and rkeys for those of the
 *     session's tenant.
 *   - When the owner ends the share, the lease ends for this session: RMEM_REASON_UNSHARED.
 *   tenant  that owns the lease; a lease of the session's own tenant is attached too
 *   EINVAL  also: tenant is empty, longer than 64 bytes, or not UTF-8
 *   ENOENT  the tenant shares no lease of that name with the session's tenant
 *   EACCES  also: it is shared for reading only
 * Other arguments and errors as for rmem_attach().  [any] */
RMEM_API int rmem_attach_shared(rmem *session, const char *tenant, const char *name,
				unsigned rights, rmem_lease **ret_lease);

/* Server call: detach the lease from this session.  A named lease lives on; an ephemeral
 * lease is freed.  The handle is gone on success; success also if the lease had ended already.
 * If the session got the handle several times, the call gives back one of them: only the last such
 * call detaches the lease and ends the handle, the others send nothing.
 *   EBUSY      operations of this session are outstanding: wait, or rmem_cancel()
 *   ETIMEDOUT  the handle is there still: call again, which waits for the same answer.  If the
 *              lease is attached again meanwhile, that is another handle, and this one ends
 * [any] */
RMEM_API int rmem_detach(rmem_lease *lease);

/* Server call: end the lease for all sessions: its rkeys die, its bytes are zeroed and lent again.
 * Operations of other sessions on it end in ESTALE.  The handle is gone on success; success also if
 * the lease had ended already.  If the session got the handle several times, the others stay, in
 * ESTALE, until they are given back.  If an rmem_detach() of the handle has ended in ETIMEDOUT, the
 * lease may be detached: then the call returns 0, and a named lease lives on; end it by
 * rmem_remove().
 *   EBUSY   operations of this session are outstanding: wait, or rmem_cancel()
 *   EACCES  the lease is attached for reading only  [any] */
RMEM_API int rmem_destroy(rmem_lease *lease);

#define RMEM_RENAME_REPLACE 1u /* end the lease that has the name, and use the name */

/* Server call: name the lease, or change its name.  An ephemeral lease becomes a named one.
 *   name    1 to RMEM_NAME_MAX bytes of UTF-8 without control or invisible characters
 *   flags   0, or RMEM_RENAME_REPLACE
 *   EINVAL  name or flags is out of its range
 *   EEXIST  the name is taken and RMEM_RENAME_REPLACE is not given; or a lease of that name is
 *           being allocated
 *   EDQUOT  the lease was ephemeral, and its ttl_ms is more than the tenant's ttl_max
 *   EACCES  the lease is attached for reading only; or the tenant is leaving, may only read, or may
 *           not give this name  [any] */
RMEM_API int rmem_rename(rmem_lease *lease, const char *name, unsigned flags);

/* Server call: let the sessions of another tenant attach the lease, see rmem_attach_shared().  A
 * second call changes the rights.  The share lasts until rmem_unshare() or the end of the lease,
 * also when the lease is renamed and when the server restarts.
 *   tenant  another tenant of the server
 *   rights  RMEM_READ, or RMEM_READ | RMEM_WRITE.  If they are fewer than before, attachments of
 *           the tenant that have more end, as in rmem_unshare()
 *   EINVAL  rights or tenant is out of its range; or the lease has no name, or is the tenant's own
 *   ENOENT  the server has no tenant of that name
 *   EDQUOT  the lease is shared with 16 tenants already
 *   EACCES  the lease is attached for reading only, or belongs to another tenant, or the tenant may
 *           only read  [any] */
RMEM_API int rmem_share(rmem_lease *lease, const char *tenant, unsigned rights);
/* Server call: end the share.  The tenant's sessions lose the lease at once: when the call returns
 * their rkeys are dead.  Success also if there is no such share.
 *   EINVAL, EACCES  as for rmem_share()  [any] */
RMEM_API int rmem_unshare(rmem_lease *lease, const char *tenant);

/* Server call: make the lease longer.  Added bytes read as zero; the others keep their
 * offsets and contents.  Operations can go on meanwhile.
 *   bytes   the new length in bytes
 *   EINVAL  bytes is less than the present length
 *   ENOSPC  the pools cannot hold it, or not in RMEM_SEGMENTS_MAX segments
 *   ESHUTDOWN  the server is being drained
 *   EDQUOT  a limit of the tenant or session would be exceeded
 *   EBUSY   another call resizes the lease, of this session or another one, which may have
 *           timed out
 *   EACCES  the lease is attached for reading only, or the tenant is leaving  [any] */
RMEM_API int rmem_grow(rmem_lease *lease, uint64_t bytes);

/* Server call: make the lease shorter.  The part that is cut off cannot be reached any more; its
 * whole pages at the server are freed.  Operations of other sessions on that part end in EINVAL,
 * ESTALE or EACCES, also if the lease grows again meanwhile; rmem_lease_status() stays 0 there.
 *   bytes   the new length in bytes, may be 0
 *   EINVAL  bytes is more than the present length
 *   EDQUOT  bytes is less than the tenant's lease_min, and not 0
 *   EBUSY   operations of this session are outstanding, or another call resizes the lease, as
 *           above
 *   EACCES  the lease is attached for reading only  [any] */
RMEM_API int rmem_shrink(rmem_lease *lease, uint64_t bytes);

#define RMEM_TTL_SAME (UINT64_C(1) << 63)

/* Server call: start the time to live of a named lease again.
 *   ttl_ms  milliseconds from when the server receives the request; RMEM_TTL_SAME: the number
 *           that was given last; 0: for ever, or the tenant's ttl_max
 *   EINVAL  the lease has no name
 *   EDQUOT  ttl_ms is more than the tenant's ttl_max
 *   EACCES  the lease is attached for reading only  [any] */
RMEM_API int rmem_renew(rmem_lease *lease, uint64_t ttl_ms);

/* Server call: as rmem_renew(), and from then on the session renews the lease by itself, each third
 * of ttl_ms and soon after it has resumed.  That lasts until rmem_renew() succeeds, until the last
 * rmem_detach() of the handle, until the lease ends, or until the session is closed or lost for
 * good.  With RMEM_NO_THREAD rmem_process() and calls that wait do it.  A renewal that fails is
 * repeated after another third.  A lease is renewed every 100 ms at most: it may end if ttl_ms is
 * less than 300.
 *   ttl_ms  milliseconds
 *   EINVAL  ttl_ms is 0 or RMEM_TTL_SAME, or the lease has no name
 *   EDQUOT, EACCES  as for rmem_renew()  [any] */
RMEM_API int rmem_keep(rmem_lease *lease, uint64_t ttl_ms);

/* Server call: end a named lease of the tenant as rmem_destroy() does, without attaching it.
 *   name    up to RMEM_NAME_MAX bytes
 *   EINVAL  name is too long, has control characters or is not UTF-8
 *   ENOENT  no lease has that name
 *   EACCES  the tenant may only read  [any] */
RMEM_API int rmem_remove(rmem *session, const char *name);

/* A lease as the server describes it.  Start from rmem_stat_init(). */
struct rmem_stat {
	size_t size;       /* in: sizeof(struct rmem_stat) */
	uint64_t id;       /* a server never uses an id twice */
	uint64_t bytes;    /* exact length */
	uint64_t age_ms;   /* since the grant */
	uint64_t ttl_ms;   /* remaining time to live; 0: for ever */
	uint32_t sessions; /* number of sessions that have attached the lease */
	uint32_t segments; /* number of segments */
	char name[RMEM_NAME_MAX + 1]; /* "": ephemeral */
};
static inline struct rmem_stat rmem_stat_init(void)
{
	struct rmem_stat value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	return value;
}

/* Server call: describe one named lease of the tenant in *ret_stat.
 *   name    up to RMEM_NAME_MAX bytes
 *   EINVAL  name is too long, has control characters or is not UTF-8; or
 *           ret_stat->size is not set
 *   ENOENT  no lease has that name  [any] */
RMEM_API int rmem_stat(rmem *session, const char *name, struct rmem_stat *ret_stat);

/* Server calls: call `each` for the named leases of the tenant in the order of their ids,
 * until it returns non-zero.  Returns what `each` returned last; 0 if there are no leases.
 *   prefix  of the names, up to RMEM_NAME_MAX bytes; NULL: all
 *   each    must not call into the session; *stat is valid during the call, and its size is
 *           the library's
 *   EINVAL  prefix is too long, has control characters or is not UTF-8
 *   ETIMEDOUT  the server's answers together take longer than timeout_ms
 *   EPROTO  the server lists more than 16777216 leases, or out of order  [any] */
RMEM_API int rmem_list(rmem *session, const char *prefix,
		       int (*each)(const struct rmem_stat *stat, void *arg), void *arg);

/* The following eight calls send nothing: they return the state after the last server call on
 * the lease, or the last event of the server. */

/* The lease's length in bytes.  [any] */
RMEM_API uint64_t rmem_lease_bytes(const rmem_lease *lease);
/* The lease's id, which the server never uses twice.  [any] */
RMEM_API uint64_t rmem_lease_id(const rmem_lease *lease);
/* Copy the lease's name, and a terminator.  Returns the length of the name in bytes, up to
 * RMEM_NAME_MAX; 0: the lease has no name.  Another session may have renamed the lease since.
 *   bytes   room in name[]; a longer name is cut, 0: nothing is copied  [any] */
RMEM_API size_t rmem_lease_name(const rmem_lease *lease, char *name, size_t bytes);
/* RMEM_READ or RMEM_READ | RMEM_WRITE.  [any] */
RMEM_API unsigned rmem_lease_rights(const rmem_lease *lease);
/* The server's NUMA node of the first byte; RMEM_NODE_ANY: unknown, or there are no bytes.
 * [any] */
RMEM_API int rmem_lease_node(const rmem_lease *lease);
/* Where a lease's memory is at the server, and the placement that was asked for.  Start from
 * rmem_layout_init(). */
struct rmem_layout {
	size_t size;                   /* in: sizeof(struct rmem_layout) */
	enum rmem_placement placement; /* asked for */
	/* asked for; with RMEM_PLACE_DEVICE that of the device; RMEM_NODE_ANY: any */
	int node;
	unsigned segments; /* number of segments */
	unsigned nodes;    /* number of entries in share[] */
	struct {
		int node; /* in rising order; RMEM_NODE_ANY: unknown */
		uint64_t bytes;
	} share[RMEM_SEGMENTS_MAX];
};
static inline struct rmem_layout rmem_layout_init(void)
{
	struct rmem_layout value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	return value;
}

/* Fill *layout.
 *   EINVAL  layout->size is not set  [any] */
RMEM_API int rmem_lease_layout(rmem_lease *lease, struct rmem_layout *layout);
/* 0 while the lease can be used; -ESTALE once it has ended.  [any] */
RMEM_API int rmem_lease_status(const rmem_lease *lease);

/* Why a lease has ended, or what is not known of an operation. */
enum rmem_reason {
	RMEM_REASON_NONE = 0, /* not ended; the status leaves nothing open */
	/* rmem_destroy() or rmem_remove() of another session, or a call of this one that was
	 * answered after its time-out */
	RMEM_REASON_FREED = 1,
	RMEM_REASON_EXPIRED = 2, /* its time to live was over */
	RMEM_REASON_REVOKED =
		3, /* the server took it back, as rmem_lease_wanted() tells */
	RMEM_REASON_REPLACED =
		4, /* another session gave its name away, RMEM_RENAME_REPLACE */
	RMEM_REASON_LOST = 5, /* the session is lost for good; the lease may live on */
	/* the server has not told yet, or it ended while the session was lost */
	RMEM_REASON_UNKNOWN = 6,
	/* the outcome of a failed operation is unknown: it may have been done, or part of it */
	RMEM_REASON_OUTCOME = 7,
	/* the tenant that owns it shares it no longer with this one, or with fewer rights */
	RMEM_REASON_UNSHARED = 8,
};

/* Why the lease has ended; the texts of errors tell it too.  [any] */
RMEM_API enum rmem_reason rmem_lease_reason(const rmem_lease *lease);

/* The memory of a lease that the server wants back, because a pool is to shrink and the
 * lease is in the way.  The server does not move the lease: copy what matters to another
 * lease (rmem_copy() copies at the server), and destroy or shrink this lease. */
struct rmem_wanted {
	size_t size;      /* in: sizeof(struct rmem_wanted) */
	uint64_t bytes;   /* of the lease that are in the way; 0: nothing is wanted */
	uint64_t wait_ms; /* how long the server still waits */
	/* afterwards 1: the lease ends for all sessions, operations end in ESTALE; 0: the
	 * lease stays, and the pool keeps its size */
	int revoke;
};
static inline struct rmem_wanted rmem_wanted_init(void)
{
	struct rmem_wanted value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	return value;
}

/* Fill *wanted from the server's last event.  When it changes, there is a notice, also of a lease
 * that is not watched; see rmem_notified().
 *   EINVAL  wanted->size is not set
 *   ESTALE  the lease has ended  [any] */
RMEM_API int rmem_lease_wanted(rmem_lease *lease, struct rmem_wanted *wanted);

/* ---- notifications ---- */

/* Server call: deliver the notifications of the lease to this session: 32-bit values that
 * sessions with the right to write send, this one included.  Bytes written before a
 * notification was sent can be read when it arrives.  Watching lasts until rmem_unwatch(), or
 * until the lease or its handle ends, also over a resumption of the session.  A second call does
 * nothing.
 *   ESTALE  the lease has ended  [any] */
RMEM_API int rmem_watch(rmem_lease *lease);
/* Server call: stop watching.  Notices of the lease that were not taken yet are dropped,
 * except RMEM_NOTICE_WANTED.  Success also if the lease is not watched, or has ended.  [any] */
RMEM_API int rmem_unwatch(rmem_lease *lease);

#define RMEM_LOST_UNKNOWN UINT32_MAX

enum rmem_notice_type {
	RMEM_NOTICE_VALUE = 0,   /* a notification */
	RMEM_NOTICE_RESUMED = 1, /* the session was lost and has resumed */
	/* the lease has ended, or the session for good; the lease's last notice */
	RMEM_NOTICE_ENDED = 2,
	RMEM_NOTICE_WANTED =
		3, /* the bytes wanted back have changed: rmem_lease_wanted() */
};

/* A notice of a lease that the session watches, or of which the server wants memory back.
 * When the program or its connection is too slow, the latest notice of each lease is kept,
 * and the replaced notices are counted.  A program should look at the lease itself when `lost` is
 * not 0, or the type is not RMEM_NOTICE_VALUE. */
struct rmem_notice {
	rmem_lease *lease; /* the program's handle */
	/* enum rmem_notice_type; a program ignores one it does not know */
	uint32_t type;
	uint32_t reason;   /* RMEM_NOTICE_ENDED: enum rmem_reason */
	uint32_t value;    /* RMEM_NOTICE_VALUE: of the notification */
	uint32_t lost;     /* number of lost notices of this lease before this one;
			    * RMEM_LOST_UNKNOWN: unknown, or as many or more */
	uint64_t reserved; /* 0 */
};

/* Take notices, the oldest first; wait for the first one.  Returns their number, 0 after the
 * time-out.  With RMEM_NO_THREAD the call does the work of rmem_process().
 *   n           room in notices[]
 *   timeout_ms  milliseconds; 0: do not wait; negative: no limit
 *   EINVAL      n is 0
 *   ESTALE      the session is lost for good, and all notices were taken  [any] */
RMEM_API int rmem_notified(rmem *session, struct rmem_notice *notices, unsigned n,
			   int timeout_ms);
/* A descriptor that polls readable while there are notices to take.  The session owns the
 * descriptor: neither read nor close it.  With RMEM_NO_THREAD the program also waits for
 * rmem_fd(), as notices arrive in rmem_process().
 *   EMFILE  the process has too many descriptors  [any] */
RMEM_API int rmem_notified_fd(rmem *session);

/* ---- calls that do not wait ---- */

/* A program with an event loop begins calls, waits for a descriptor, and takes answers.  Each of
 * these is done as the function of its name.  RMEM_CALL_OPEN, CLOSE, QUEUE and BUFFER do what
 * rmem_open(), rmem_close(), rmem_queue_create() and rmem_buffer_create() do: as that may block in
 * the kernel, threads of the library do it, at most 16, which end when there is nothing to do. */
enum rmem_call {
	RMEM_CALL_OPEN = 1,
	RMEM_CALL_CLOSE = 2,
	RMEM_CALL_QUEUE = 3,
	RMEM_CALL_BUFFER = 4,
	RMEM_CALL_ALLOC = 5,
	RMEM_CALL_ATTACH = 6,
	RMEM_CALL_ATTACH_SHARED = 7,
	RMEM_CALL_DETACH = 8,
	RMEM_CALL_DESTROY = 9,
	RMEM_CALL_RENAME = 10,
	RMEM_CALL_SHARE = 11,
	RMEM_CALL_UNSHARE = 12,
	RMEM_CALL_GROW = 13,
	RMEM_CALL_SHRINK = 14,
	RMEM_CALL_RENEW = 15,
	RMEM_CALL_KEEP = 16,
	RMEM_CALL_REMOVE = 17,
	RMEM_CALL_STAT = 18,
	RMEM_CALL_LIST = 19,
	RMEM_CALL_WATCH = 20,
	RMEM_CALL_UNWATCH = 21,
	RMEM_CALL_PING = 22,
};

#define RMEM_CALLS_MAX 16384 /* requests outstanding in one rmem_calls */

/* One request.  Members that the call does not need are not looked at.  rmem_calls_begin() copies
 * texts and parameters. */
struct rmem_request {
	uint16_t call;  /* enum rmem_call */
	uint16_t flags; /* 0 */
	/* milliseconds from rmem_calls_begin() to the answer, for a list without the time between a
	 * page and the next; 0: that of the session, or rmem_thread_timeout(), or of the options */
	uint32_t timeout_ms;
	rmem *session;     /* of all calls but OPEN and those on a lease */
	rmem_lease *lease; /* of a call on a lease */
	/* of a lease; LIST: prefix, may be NULL; OPEN: the URI, NULL as for rmem_open() */
	const char *name;
	const char *tenant; /* ATTACH_SHARED, SHARE, UNSHARE */
	/* ALLOC: struct rmem_alloc_params; BUFFER: rmem_buffer_params; OPEN: rmem_options, QUEUE:
	 * rmem_queue_params, or NULL */
	const void *params;
	/* ATTACH, ATTACH_SHARED, SHARE: rights; RENAME: flags; GROW, SHRINK: bytes; RENEW, KEEP:
	 * ttl_ms */
	uint64_t value;
	uint64_t cookie;      /* the caller's, returned in the answer */
	uint64_t reserved[2]; /* 0 */
};

/* A request, of which all other members are 0. */
static inline struct rmem_request rmem_request_init(enum rmem_call call)
{
	struct rmem_request request;

	memset(&request, 0, sizeof(request));
	request.call = (uint16_t)call;
	return request;
}

struct rmem_answer {
	uint64_t cookie; /* cookie and call are the request's */
	uint16_t call;
	/* enum rmem_reason: why the lease has ended, if the status is an error */
	uint16_t reason;
	/* what the function returns: 0, 1 or -errno; RMEM_CALL_LIST: 1 before the last page */
	int status;
	uint32_t error;   /* number of its text, for rmem_answer_error(); 0: none */
	uint32_t n_stats; /* entries of stats; else 0 */
	/* ALLOC, ATTACH, ATTACH_SHARED: rmem_lease; OPEN: rmem; QUEUE: rmem_queue; BUFFER:
	 * rmem_buffer.  It is the caller's from now on */
	void *object;
	uint64_t value; /* PING: nanoseconds */
	/* STAT, LIST: valid until the next rmem_calls_take() or rmem_calls_wait() */
	const struct rmem_stat *stats;
	uint64_t reserved[2]; /* 0 */
};

/* Parameters of an rmem_calls.  Start from rmem_calls_params_init(). */
struct rmem_calls_params {
	size_t size;    /* sizeof(struct rmem_calls_params) */
	unsigned depth; /* requests outstanding, 1 to RMEM_CALLS_MAX; 0: 4096 */
};
static inline struct rmem_calls_params rmem_calls_params_init(void)
{
	struct rmem_calls_params value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	return value;
}

/* Make one.  The caller owns *ret_calls and ends it with rmem_calls_free().
 *   params  NULL: the defaults; not kept
 *   EINVAL  a member of *params is out of its range
 *   EMFILE  the process has too many descriptors  [any] */
RMEM_API int rmem_calls_create(const struct rmem_calls_params *params,
			       rmem_calls **ret_calls);
/* End it.  Requests that have no answer yet may or may not take effect; what they grant, and what
 * answers that were not taken have granted, is given back; sessions that are to be closed are.
 * The call waits for buffers that are being registered, as their memory is the caller's on return.
 * NULL: nothing.  [owner] */
RMEM_API void rmem_calls_free(rmem_calls *calls);

/* Begin calls.  Never waits: the requests of a session are sent together, those beyond what its
 * server accepts at a time when it has answered others.  Returns the number begun.  That is less
 * than n if there is no room, or if a request follows that would give an error as the first one.
 *   - Requests on one lease are done in their order, those of functions included, each after the
 *     answer of the one before.  All others may be done, and answered, in any order.
 *   - A wrong argument is no error of this call: the answer has it.
 *   - While a request has no answer, its session and lease must not be ended by another thread.
 *     rmem_close(), and the begin of RMEM_CALL_CLOSE, answer all requests of the session with
 *     ECANCELED, and take the objects from answers that were not taken.
 *   - RMEM_CALL_OPEN: a library's thread calls psk() and stepped() of the options, whose contexts
 *     must last until the answer, and after rmem_calls_cancel() until the session's time-out.
 *   - RMEM_CALL_BUFFER: the memory is in use until the answer, or until its session is closed.
 *   - After the answer to a request that ends the handle of its lease, the requests on it that are
 *     still waiting end in ESTALE.
 *   requests, n  not kept
 *   EINVAL     the first request is malformed: call or flags are unknown, reserved members are not
 *              0, or session, lease, name, tenant or params is NULL where the call needs it
 *   EOVERFLOW  as many requests as may be are outstanding: take answers first.  A session has at
 *              most RMEM_CALLS_MAX altogether; others are answered with ETIMEDOUT
 *   ESTALE     the object was made by the parent process  [owner] */
RMEM_API int rmem_calls_begin(rmem_calls *calls, const struct rmem_request *requests,
			      unsigned n);

/* Take answers without waiting.  Returns their number, at most 256.  With sessions of
 * RMEM_NO_THREAD that have requests outstanding here, the call does the work of rmem_process().
 *   n  room in answers[]
 *   ESTALE  as above  [owner] */
RMEM_API int rmem_calls_take(rmem_calls *calls, struct rmem_answer *answers,
			     unsigned n);
/* Take answers, and wait until there are at least `min`.  Returns their number, which is less than
 * min after the time-out.
 *   min         at most n, 256 and the number outstanding count
 *   timeout_ms  milliseconds; negative: no limit
 * Other arguments and errors as for rmem_calls_take().  [owner] */
RMEM_API int rmem_calls_wait(rmem_calls *calls, struct rmem_answer *answers, unsigned n,
			     unsigned min, int timeout_ms);
/* The number of requests whose answers were not taken.  [owner] */
RMEM_API unsigned rmem_calls_outstanding(const rmem_calls *calls);

/* A descriptor that polls readable while there are answers to take, and when a session of
 * RMEM_NO_THREAD that has requests outstanding here has work.  The object owns the descriptor:
 * neither read nor close it.
 *   ESTALE  as above  [owner] */
RMEM_API int rmem_calls_fd(const rmem_calls *calls);

/* End the requests that have this cookie: they are answered with ECANCELED at once, unless their
 * answer waits to be taken already, or a buffer is being registered.  They may or may not take
 * effect; what they grant is given back, and a session is closed all the same.
 * Returns the number of requests ended.
 *   ESTALE  as above  [owner] */
RMEM_API int rmem_calls_cancel(rmem_calls *calls, uint64_t cookie);

/* The text of an answer that the last rmem_calls_take() or rmem_calls_wait() has returned; "": the
 * answer is no error.  Valid until the next call of either.  [owner] */
RMEM_API const char *rmem_answer_error(const rmem_calls *calls,
				       const struct rmem_answer *answer);

/* ---- registered local memory ---- */

/* What to register.  Start from rmem_buffer_params_init(). */
struct rmem_buffer_params {
	size_t size;            /* sizeof(struct rmem_buffer_params) */
	void *addr;             /* NULL: allocate, page aligned and zeroed */
	uint64_t bytes;         /* > 0 */
	int dmabuf_fd;          /* a dma-buf to register; addr is NULL.  -1: none */
	uint64_t dmabuf_offset; /* into it, bytes; a multiple of the page size */
};
static inline struct rmem_buffer_params rmem_buffer_params_init(void)
{
	struct rmem_buffer_params value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	value.dmabuf_fd = -1;
	return value;
}

/* Register memory of this process with the devices, so that operations move bytes without a
 * copy; those of more than 256 bytes find a buffer that they do not name.  The caller owns
 * *ret_buffer and ends it with rmem_buffer_free(), and must keep `addr` mapped until then.
 *
 * A dma-buf is mapped for reading and writing if its exporter permits that.  The caller may close
 * dmabuf_fd after the call.  What else the program has to do depends on the fabric:
 *   RDMA  The devices of the session access the memory, the library does not, and it need not be
 *         mapped: memory of a GPU works if the RDMA device's driver can reach it.  Reads, writes
 *         and their vectored forms take such a buffer; atomics and checksums, whose results the
 *         library puts into memory, end in EINVAL.  Pieces of a vectored operation name the buffer;
 *         other operations of any size find it.
 *   TCP   The dma-buf must be mappable, as the library copies to and from the mapping.  If the
 *         exporter needs DMA_BUF_IOCTL_SYNC around accesses by the CPU, the program issues it
 *         before an operation is submitted and after its completion.
 *   EINVAL   bytes is 0 or too large, or params->size is not set, or dmabuf_fd is not a dma-buf of
 *            which these bytes are a part, or dmabuf_offset is not a multiple of the page size
 *   EBADF    dmabuf_fd is not open
 *   EMFILE   dmabuf_fd: the process has too many descriptors
 *   ENOMEM   no memory, or RLIMIT_MEMLOCK is too low; the text says which
 *   EFAULT   addr is not mapped.  Read-only memory can be the source of writes
 *   ENOTSUP  dmabuf_fd: an RDMA device of the session, which the text names, cannot register
 *            dma-bufs; or over TCP the dma-buf cannot be mapped  [any] */
RMEM_API int rmem_buffer_create(rmem *session, const struct rmem_buffer_params *params,
				rmem_buffer **ret_buffer);
/* End the registration, and free memory that the library allocated, or its mapping of a dma-buf.
 * NULL: 0.
 *   EBUSY  operations on the buffer are outstanding  [any] */
RMEM_API int rmem_buffer_free(rmem_buffer *buffer);
/* The buffer's first byte.  Of a dma-buf that could not be mapped (RDMA) it is an address that
 * names the first byte in operations, and at which the program must not access memory.  [any] */
RMEM_API void *rmem_buffer_addr(const rmem_buffer *buffer);
/* The buffer's length in bytes.  [any] */
RMEM_API uint64_t rmem_buffer_bytes(const rmem_buffer *buffer);

/* ---- synchronous operations ---- */

/* Read bytes of the lease, and wait.  Memory in a registered buffer is not copied.
 *   offset  into the lease, bytes
 *   dst     any local memory
 *   bytes   may be 0
 *   EINVAL  the range is not within the lease, or dst is NULL
 *   EACCES  the lease does not permit the operation
 *   ESTALE  the lease has ended
 *   ETIMEDOUT   nothing has moved for the session's timeout_ms
 *   ECONNRESET  the channel was lost again and again
 *   ENOTSUP  the session's channel does not reach this part of the lease
 *   ENOMEM, EFAULT, EIO  as above
 * Synchronous operations of one session take turns on one channel, and the time-out counts while a
 * call waits for its turn; use queues for concurrency.  [any] */
RMEM_API int rmem_read(rmem_lease *lease, uint64_t offset, void *dst, uint64_t bytes);
/* Write bytes to the lease, and wait until they are placed in the server's memory.
 * Arguments and errors as for rmem_read().  [any] */
RMEM_API int rmem_write(rmem_lease *lease, uint64_t offset, const void *src,
			uint64_t bytes);

/* A piece of local memory.  Like struct iovec this structure never grows. */
struct rmem_vec {
	void *addr;     /* only read by writes */
	uint64_t bytes; /* may be 0 */
	/* holds addr; NULL: on RDMA copied, unless the buffer has it that is found for the
	 * first piece of more than 256 bytes without one */
	rmem_buffer *buffer;
};
#define RMEM_VEC_MAX 1024 /* pieces of one operation */

/* Read a range of the lease into pieces of local memory, one after the other, and wait.  The
 * range is as long as the pieces together.  Pieces that name their buffer are not copied.
 *   offset  where the range begins, bytes
 *   vec, n  the pieces, up to RMEM_VEC_MAX; read during the call
 *   EINVAL  also: n is too large, or a piece is not within its buffer
 * Other errors are those of rmem_read().  [any] */
RMEM_API int rmem_readv(rmem_lease *lease, uint64_t offset, const struct rmem_vec *vec,
			unsigned n);
/* Write pieces of local memory to a range of the lease, and wait until all are placed.  Arguments
 * and errors as for rmem_readv().  [any] */
RMEM_API int rmem_writev(rmem_lease *lease, uint64_t offset, const struct rmem_vec *vec,
			 unsigned n);

/* Compare and swap: if the 64-bit number at `offset` is `expected`, replace it by `desired`;
 * and wait.  RMEM_OP_CAS tells the scope of atomicity.
 *   offset   into the lease, bytes, a multiple of 8
 *   ret_old  the number found: the swap was done if it is `expected`; may be NULL
 *   EINVAL   the number is not within one segment of the lease, or not aligned
 *   EACCES   the lease is not attached for reading and writing
 *   ENOTSUP  device or server have no atomics, or another device executes the
 *            lease's atomics; the text names it
 *   ETIMEDOUT, ECONNRESET  the atomic may or may not have been done
 *   ESTALE, EIO  as for rmem_read()  [any] */
RMEM_API int rmem_compare_swap(rmem_lease *lease, uint64_t offset, uint64_t expected,
			       uint64_t desired, uint64_t *ret_old);
/* Add to the 64-bit number at `offset`, modulo 2^64, and wait.  Arguments and errors as for
 * rmem_compare_swap().  [any] */
RMEM_API int rmem_fetch_add(rmem_lease *lease, uint64_t offset, uint64_t add,
			    uint64_t *ret_old);

/* Let the server fill a range with a repeated pattern, and wait.
 *   offset, bytes  where the range begins in the lease, and its length, bytes
 *   pattern  8 bytes in memory order; RMEM_FILL_BYTE(b) repeats one byte
 *   ENOTSUP  the server has no in-band operations there; the text says where
 * Other errors of this call and the next three are those of rmem_read().  [any] */
RMEM_API int rmem_fill(rmem_lease *lease, uint64_t offset, uint64_t bytes,
		       uint64_t pattern);
#define RMEM_FILL_BYTE(b) ((uint64_t)(uint8_t)(b) * UINT64_C(0x0101010101010101))
/* Let the server copy a range of `source` to `lease`, and wait.  Both are leases of one
 * session, and may be one lease.
 *   offset, source_offset, bytes  where the ranges begin, and their length, bytes
 *   EINVAL   also: the ranges overlap
 *   ENOTSUP  also: no RDMA device of the server reaches both  [any] */
RMEM_API int rmem_copy(rmem_lease *lease, uint64_t offset, rmem_lease *source,
		       uint64_t source_offset, uint64_t bytes);
/* Let the server compute the CRC-32C of a range (as in iSCSI, RFC 3720; 0xe3069283 for
 * "123456789"), and wait.  Concurrent writes may or may not be included.
 *   ret_crc  the sum  [any] */
RMEM_API int rmem_crc32c(rmem_lease *lease, uint64_t offset, uint64_t bytes,
			 uint32_t *ret_crc);
/* A round trip on a channel, to the server's thread for in-band operations.
 *   ret_ns  duration of the round trip in nanoseconds; may be NULL  [any] */
RMEM_API int rmem_ping_data(rmem *session, uint64_t *ret_ns);
/* Write as rmem_write() does, then notify the sessions that watch the lease.  The call waits until
 * the server has both.
 *   bytes  may be 0: only notify
 *   value  of the notification
 *   EINVAL   also: the lease has no bytes
 *   ENOTSUP  the server has no in-band operations there; the text says where
 *   ETIMEDOUT, ECONNRESET  also: the sessions may or may not have been notified
 * Other errors as for rmem_write().  [any] */
RMEM_API int rmem_write_notify(rmem_lease *lease, uint64_t offset, const void *src,
			       uint64_t bytes, uint32_t value);

/* ---- asynchronous operations ---- */

enum rmem_opcode {
	RMEM_OP_READ = 1,
	RMEM_OP_WRITE = 2,
	/* Atomics on the 64-bit number at an offset that is a multiple of 8, in the server's
	 * byte order.  They need the rights to read and write.
	 *   - They are atomic to all other atomics on the lease, of any session, not to
	 *     writes.
	 *   - The lease's atomic device executes all of them: an RDMA device of the server,
	 *     or its TCP service.  The first atomic decides which, for the life of the lease.
	 *   - An atomic that loses its channel is never done again: it ends in an error, and
	 *     rmem_completion_error() says that its outcome is unknown.  If a device has lost the
	 *     answer of an atomic, the atomic ends in ECONNRESET in the same way.
	 *   - After an error `addr` holds no number. */
	RMEM_OP_CAS = 3,       /* replace the number if it is the expected number */
	RMEM_OP_FETCH_ADD = 4, /* add to the number */
	/* Vectored: between one range of the lease and a list of pieces of local memory, in
	 * their order. */
	RMEM_OP_READV = 5,
	RMEM_OP_WRITEV = 6,
	/* In-band operations: the server does them, near its memory; only the request goes
	 * over the wire.  They use no local memory, except for the result of a CRC. */
	RMEM_OP_FILL = 7, /* fill the range with a repeated `pattern` */
	/* copy to the range from `source`, in any lease of the session, without overlap */
	RMEM_OP_COPY = 8,
	RMEM_OP_CRC = 9,   /* store the CRC-32C of the range, a uint32_t, at `addr` */
	RMEM_OP_PING = 10, /* a round trip on a channel; no lease, no range */
	/* A write, and once its bytes are placed a notification with `value` to the sessions
	 * that watch the lease; with 0 bytes the notification alone.  The operation completes
	 * when the server has both.  A notification that loses its channel is never sent again: it
	 * ends in an error, and rmem_completion_error() says that its outcome is unknown. */
	RMEM_OP_WRITE_NOTIFY = 11,
};

/* What a copy reads: a range of this lease, as long as the destination. */
struct rmem_source {
	rmem_lease *lease;
	uint64_t offset; /* bytes */
};

/* The operands of an atomic. */
struct rmem_atomic {
	uint64_t compare; /* RMEM_OP_CAS: the expected number */
	uint64_t operand; /* RMEM_OP_CAS: the new number; FETCH_ADD: the summand */
};

#define RMEM_OP_FENCE 1u /* start only after all operations before it have completed */
#define RMEM_OP_DEADLINE 2u /* timeout_ms is a deadline, see there */

/* One operation.  Until it completes the program must not touch the memory at `addr`; it may
 * read the source of a write. */
struct rmem_op {
	uint16_t opcode; /* enum rmem_opcode */
	uint16_t flags;  /* RMEM_OP_FENCE, RMEM_OP_DEADLINE */
	/* Milliseconds without progress; 0: the session's time-out.  Progress is that something
	 * of the operation has been done; or, while the operation waits for its turn, something of
	 * the operations before it on its channels.  The library finds the end up to a quarter of
	 * the time later.  With RMEM_OP_DEADLINE the time counts from rmem_submit(), whatever has
	 * been done.
	 * If the operation is on the wire then, its channel is closed, so that the memory is
	 * the caller's again when ETIMEDOUT is reported */
	uint32_t timeout_ms;
	rmem_lease *lease;
	/* holds addr; NULL: on RDMA a registered buffer that has the memory is found, if it
	 * has more than 256 bytes, else it is copied */
	rmem_buffer *buffer;
	uint64_t offset; /* into the lease, bytes */
	/* local memory; an atomic stores the number found here, a CRC its result */
	void *addr;
	__extension__ union {
		uint64_t bytes; /* length; 8 for an atomic */
		uint64_t n_vec; /* vectored: entries of vec, up to RMEM_VEC_MAX */
	};
	uint64_t cookie; /* the caller's, returned in the completion */
	__extension__ union {
		const struct rmem_atomic *atomic; /* read by rmem_submit() */
		const struct rmem_source *source; /* copy: read by rmem_submit() */
		/* fill: 8 bytes in memory order, from the range's start on */
		uint64_t pattern;
		uint32_t value; /* write with notification */
		/* vectored: in place of addr and buffer; must stay unchanged until the
		 * completion has been taken */
		const struct rmem_vec *vec;
	};
	uint64_t reserved[2]; /* 0 */
};

/* An operation, of which the members that are not arguments are 0. */
static inline struct rmem_op rmem_op_init(enum rmem_opcode opcode, rmem_lease *lease,
					  uint64_t offset, uint64_t bytes)
{
	struct rmem_op op;

	memset(&op, 0, sizeof(op));
	op.opcode = (uint16_t)opcode;
	op.lease = lease;
	op.offset = offset;
	op.bytes = bytes;
	return op;
}

/* The operations of the calls of these names, with the same arguments.  Set cookie, buffer, flags
 * and timeout_ms before rmem_submit(), where they are to be other than 0. */
static inline struct rmem_op rmem_op_read(rmem_lease *lease, uint64_t offset, void *dst,
					  uint64_t bytes)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_READ, lease, offset, bytes);

	op.addr = dst;
	return op;
}
static inline struct rmem_op rmem_op_write(rmem_lease *lease, uint64_t offset,
					   const void *src, uint64_t bytes)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_WRITE, lease, offset, bytes);

	op.addr = (void *)(uintptr_t)src; /* is only read */
	return op;
}
static inline struct rmem_op rmem_op_readv(rmem_lease *lease, uint64_t offset,
					   const struct rmem_vec *vec, unsigned n)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_READV, lease, offset, n);

	op.vec = vec;
	return op;
}
static inline struct rmem_op rmem_op_writev(rmem_lease *lease, uint64_t offset,
					    const struct rmem_vec *vec, unsigned n)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_WRITEV, lease, offset, n);

	op.vec = vec;
	return op;
}
static inline struct rmem_op rmem_op_fill(rmem_lease *lease, uint64_t offset,
					  uint64_t bytes, uint64_t pattern)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_FILL, lease, offset, bytes);

	op.pattern = pattern;
	return op;
}
static inline struct rmem_op rmem_op_crc32c(rmem_lease *lease, uint64_t offset,
					    uint64_t bytes, uint32_t *ret_crc)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_CRC, lease, offset, bytes);

	op.addr = ret_crc;
	return op;
}
static inline struct rmem_op rmem_op_write_notify(rmem_lease *lease, uint64_t offset,
						  const void *src, uint64_t bytes,
						  uint32_t value)
{
	struct rmem_op op = rmem_op_write(lease, offset, src, bytes);

	op.opcode = RMEM_OP_WRITE_NOTIFY;
	op.value = value;
	return op;
}
/* As above, but the operands are in structures, which rmem_submit() reads. */
static inline struct rmem_op rmem_op_compare_swap(rmem_lease *lease, uint64_t offset,
						  const struct rmem_atomic *operands,
						  uint64_t *ret_old)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_CAS, lease, offset, sizeof(*ret_old));

	op.atomic = operands;
	op.addr = ret_old;
	return op;
}
static inline struct rmem_op rmem_op_fetch_add(rmem_lease *lease, uint64_t offset,
					       const struct rmem_atomic *operands,
					       uint64_t *ret_old)
{
	struct rmem_op op =
		rmem_op_init(RMEM_OP_FETCH_ADD, lease, offset, sizeof(*ret_old));

	op.atomic = operands;
	op.addr = ret_old;
	return op;
}
static inline struct rmem_op rmem_op_copy(rmem_lease *lease, uint64_t offset,
					  const struct rmem_source *source,
					  uint64_t bytes)
{
	struct rmem_op op = rmem_op_init(RMEM_OP_COPY, lease, offset, bytes);

	op.source = source;
	return op;
}

struct rmem_completion {
	uint64_t cookie;      /* cookie, lease and opcode are the operation's */
	rmem_lease *lease;    /* NULL: a ping */
	uint64_t bytes;       /* length of the operation; all moved if status is 0 */
	int status;           /* 0 or -errno; rmem_completion_error() has the text */
	uint32_t vendor;      /* vendor error of the device; 0: none */
	uint16_t opcode;      /* enum rmem_opcode */
	uint16_t reason;      /* enum rmem_reason: what the status leaves open */
	uint32_t error;       /* number of its text; 0: none */
	uint32_t reserved[2]; /* 0 */
};

/* Parameters of a queue.  Start from rmem_queue_params_init(). */
struct rmem_queue_params {
	size_t size;    /* sizeof(struct rmem_queue_params) */
	unsigned depth; /* operations outstanding, 1 to RMEM_DEPTH_MAX; 0: 128 */
	/* 1 to RMEM_CHANNELS_MAX; 0: as in the URI.  If the server lends some memory only
	 * through certain devices, each of these without a channel gets one more */
	unsigned channels;
	/* registered when the first operation on unregistered memory is submitted on RDMA;
	 * up to 1 GiB; 0: 1 MiB */
	uint64_t bounce_bytes;
	/* a NUMA node of the server: channels go first to the server's devices on that node, see
	 * rmem_lease_node(); RMEM_NODE_ANY: to all devices in turn */
	int node;
};
static inline struct rmem_queue_params rmem_queue_params_init(void)
{
	struct rmem_queue_params value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	value.node = RMEM_NODE_ANY;
	return value;
}

/* Make a queue with its own channels to the server.  The caller owns *ret_queue and ends it
 * with rmem_queue_free().  If the server is lost during the call, the call waits for the
 * server, at most the session's timeout_ms, or rmem_thread_timeout().
 *   params  NULL: the defaults; not kept
 *   EINVAL  a member of *params is out of its range
 *   EDQUOT  the session or tenant may not have so many channels; then no queue is made
 * Other errors as for rmem_open().  [any] */
RMEM_API int rmem_queue_create(rmem *session, const struct rmem_queue_params *params,
			       rmem_queue **ret_queue);
/* End the queue.  Outstanding operations are flushed without completions; their memory is
 * the caller's again on return.  The server may still apply them for a while; if it must not,
 * first call rmem_cancel() and take the completions.  If a channel of the queue is being
 * connected again, the call waits until that is given up, within about 0.1 s (over siw longer,
 * see rmem_queue_create(3)).  NULL: nothing.  [owner] */
RMEM_API void rmem_queue_free(rmem_queue *queue);

/* There is no flush call: a write, vectored too, completes only once it is placed in the
 * server's memory, where every later read by any session sees it.  To order after writes,
 * wait for their completions, or submit an operation with RMEM_OP_FENCE to their queue. */

/* Submit operations, in order, as one batch.  Returns the number accepted.  That is less
 * than n if the queue is full, or if an operation follows that would give EINVAL, ENOTSUP or
 * ENOMEM as the first operation.
 * An operation that cannot be started for its own fault (out of bounds, no rights, lease
 * ended) is accepted and completes with that error; so is the first vectored or in-band
 * operation of a channel without memory for it, with ENOMEM.
 *   ops, n  not kept, except for rmem_op.vec
 *   EINVAL     the first operation is malformed:
 *               - its opcode or flags are unknown, or its reserved members are not 0
 *               - its lease, source or buffer is not of this session
 *               - it is an atomic without operands, a copy without source, or a vectored
 *                 operation without a list or with a list that is too long
 *               - it has a buffer although it is vectored or has no local memory
 *   ENOTSUP    the first operation is an atomic, and the RDMA device here or at the server
 *              has no atomics; or an in-band operation, and the server has none on any
 *              channel of the queue; the text names it.  If the lease's atomic device is
 *              another device, the completion has this error
 *   ENOMEM     the first operation is the queue's first ping
 *   EOVERFLOW  the queue is full  [owner] */
RMEM_API int rmem_submit(rmem_queue *queue, const struct rmem_op *ops, unsigned n);

/* Take completions without waiting.  Returns their number.
 *   n  room in completions[]  [owner] */
RMEM_API int rmem_poll(rmem_queue *queue, struct rmem_completion *completions,
		       unsigned n);

/* Take completions, and wait until there are at least `min`.  Returns their number, which is less
 * than min after the time-out.
 *   n           room in completions[]
 *   min         at most n and the number outstanding count
 *   timeout_ms  milliseconds; negative: no limit  [owner] */
RMEM_API int rmem_wait(rmem_queue *queue, struct rmem_completion *completions,
		       unsigned n, unsigned min, int timeout_ms);

/* The text of a completion that rmem_poll() or rmem_wait() of this queue has returned; "": the
 * completion has no error.  Valid until the next call of either.  The queue keeps the whole text of
 * the last 256 failed completions, or of as many as it is deep; of others the text is only the
 * meaning of the status.
 *   completion  NULL: the last one that failed  [owner] */
RMEM_API const char *rmem_completion_error(const rmem_queue *queue,
					   const struct rmem_completion *completion);

/* The number of operations outstanding.  [owner] */
RMEM_API unsigned rmem_queue_outstanding(const rmem_queue *queue);

/* A descriptor that polls readable when rmem_poll() may have completions, once armed by
 * rmem_queue_arm().  The queue owns the descriptor: neither read nor close it.  [owner] */
RMEM_API int rmem_queue_fd(const rmem_queue *queue);
/* Arm the descriptor.  Returns 0 when armed, 1 if there are completions already: poll first.
 *   EMFILE  no descriptor is left for the timer that the first call makes  [owner] */
RMEM_API int rmem_queue_arm(rmem_queue *queue);

/* Flush the queue's operations on a lease, copies from it included.  They complete with
 * ECANCELED, or with their result if that came first; take the completions as usual.
 * Whether a cancelled write took effect is unknown.  After its completion it takes no effect, see
 * "Ended operations" above.  Other operations on the same channels are posted again on other
 * channels.  Returns the number of operations cancelled.
 *   lease  NULL: all operations  [owner] */
RMEM_API int rmem_cancel(rmem_queue *queue, const rmem_lease *lease);
/* Flush the queue's operations that have this cookie.  Otherwise as rmem_cancel().  [owner] */
RMEM_API int rmem_cancel_cookie(rmem_queue *queue, uint64_t cookie);

#ifdef __cplusplus
}
#endif
#endif
