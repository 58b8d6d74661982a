/* SPDX-License-Identifier: BSD-3-Clause */
/* librmem: borrow the memory of other hosts, read and write it with one-sided RDMA.
 *
 * A program opens a session with a memory server, takes or attaches leases, and moves
 * bytes with synchronous calls or through queues.  Operations name (lease, offset);
 * addresses, keys, segments and channels stay inside the library.  Where no RDMA device
 * is at hand the same calls run over TCP; rmem_info() tells which one it is and why.
 *
 * Results.  Every call returns 0 or a count, or a negative errno value; rmem_error()
 * then gives one line for the calling thread: which call, lease, server, device and
 * completion status.  What the numbers mean everywhere in this library:
 *
 *   EINVAL      an argument is out of its range; the text names it
 *   ENOMEM      this host lacks memory, or RLIMIT_MEMLOCK is too low to register it
 *   EACCES      authentication failed, or the lease does not permit the operation
 *   ENOENT      no lease of that name
 *   EEXIST      the name is taken
 *   ENOSPC      the server's pools cannot hold the request
 *   EDQUOT      a limit of the tenant or session would be exceeded
 *   ESTALE      the lease has ended: freed, revoked, expired, or its session was lost
 *   EBUSY       operations are outstanding, or the object is in use
 *   ETIMEDOUT   no answer in time; a write may or may not have been applied
 *   ECONNRESET  the channel or the connection died; a write may or may not have been
 *               applied
 *   ECANCELED   rmem_cancel() or the end of the queue ended the operation
 *   ENOTSUP     the fabric, device or server cannot do this; the text names it
 *   EOVERFLOW   the queue is full: take completions first
 *   EPROTO      the other side broke the protocol
 *   EFAULT      local memory is not mapped, or not as the operation needs it, and the
 *               kernel or the device says so.  What is copied, on RDMA, is touched by
 *               the program itself, which then gets a SIGSEGV
 *   EIO         the device failed; the text has its status
 *   ECONNREFUSED, EHOSTUNREACH, ENODEV, ...   from opening the connection
 *
 * Losing the server.  A session that has no sign of life from its server for fence_ms, or
 * loses its connection, stops, and comes back by itself within grace_ms with the leases it
 * had; rmem_info() counts that in `resumes`.  Operations under way and operations submitted
 * meanwhile wait for it, at most their time-out, and are then posted, reads and writes that
 * were under way anew; an atomic or a notification that was under way ends in ECONNRESET,
 * and whether it was done is unknown.  Calls to the server wait for it, at most their
 * time-out.  A call whose answer was lost with the connection is asked again by itself; the
 * server knows what it has done and takes no request twice.  So it is over a restart of the
 * server, too, where that keeps what it has lent: rmemd(8).
 * When the server does not know the session any more, everything ends in ESTALE, named
 * leases of this session too: close it, open anew and attach them by name.  A call that
 * ends in ETIMEDOUT or ESTALE may or may not have taken effect; a lease granted too late
 * is given back.
 *
 * A data channel that dies is replaced, and the others carry on.  Reads and writes that
 * were on it are posted again, once the server has confirmed that nothing of the old
 * channel can arrive any more, or a late packet could overwrite newer bytes; only one that
 * was itself at fault ends in an error, and one that loses its channel again and again in
 * ECONNRESET.  With no channel left operations wait for one, at most their time-out.
 *
 * Threads.  Tags in brackets: [any] any thread at any time, calls on one object are
 * serialised inside; [owner] one thread at a time, no lock is taken.
 *
 * After fork() the child must not use what the parent opened: connections and registered
 * memory are the parent's, and the service threads do not exist in the child. */
#ifndef RMEM_H
#define RMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Public symbols; everything else in the library is hidden. */
#define RMEM_API __attribute__((visibility("default")))

typedef struct rmem rmem;               /* a session with one server */
typedef struct rmem_lease rmem_lease;   /* memory lent to this session */
typedef struct rmem_queue rmem_queue;   /* where one thread submits and completes */
typedef struct rmem_buffer rmem_buffer; /* local memory registered with the devices */

#define RMEM_NAME_MAX 255     /* longest lease name, bytes without the terminator */
#define RMEM_SEGMENTS_MAX 64  /* most segments of one lease */
#define RMEM_CHANNELS_MAX 64  /* most channels of one queue */
#define RMEM_DEPTH_MAX 4096   /* most operations outstanding in one queue */
#define RMEM_DEFAULT_PORT 7460

/* The error text of the last failed call in this thread; "" before the first.
 * Valid until the next call of this library in the thread.  [any] */
RMEM_API const char *rmem_error(void);

/* The version of the library that runs, "MAJOR.MINOR.PATCH".  [any] */
RMEM_API const char *rmem_version(void);

/* ---- sessions ---- */

enum rmem_fabric {
	RMEM_FABRIC_AUTO = 0, /* RDMA where both hosts have it, else TCP */
	RMEM_FABRIC_TCP = 1,
	RMEM_FABRIC_RDMA = 2,
};

#define RMEM_NO_THREAD 1u /* the program drives the session: rmem_fd, rmem_process */

/* Options beyond the URI.  Start from RMEM_OPTIONS_INIT; fields only ever get added. */
struct rmem_options {
	size_t size;         /* sizeof(struct rmem_options) */
	unsigned flags;      /* RMEM_NO_THREAD */
	unsigned timeout_ms; /* of set-up and control requests; 0: 10000 */
	/* how rmemctl shows this session, 1 to 64 bytes of UTF-8 without control
	 * characters; NULL: program and pid */
	const char *client;
};
#define RMEM_OPTIONS_INIT { .size = sizeof(struct rmem_options) }

/* Open a session.
 *   uri      rmem://HOST[:PORT][?fabric=auto|rdma|tcp&channels=N&tenant=NAME&...]; an IPv6
 *            address in brackets.  channels (1 to RMEM_CHANNELS_MAX, default 1) is per
 *            queue; tenant is in whose name memory is borrowed, default "default".  More
 *            options say how RDMA devices are used, see rmem_open(3): source, mtu,
 *            traffic_class, service_level, ack_timeout, retry_count, rnr_retry_count,
 *            rd_atomic, relaxed_ordering, connect, gid_index, pkey.
 *   options  NULL for the defaults; not kept
 * Two service threads per process keep all sessions alive unless RMEM_NO_THREAD; they
 * start with the first session, take no signals and end with the last.
 * A data channel is opened with the session: fabric=auto takes RDMA when that works, else
 * TCP, and rmem_info() says why.
 * A server that was reached and is lost before the session is open, as its daemon is restarted,
 * is waited for, within timeout_ms; one that was not reached is not.
 * The caller owns *ret_session and ends it with rmem_close().
 *   EINVAL  the URI or an option is malformed
 *   EACCES  the server has no such tenant, or has it no more
 *   ENODEV  fabric=rdma and this host or the server has no RDMA device
 *   ENOTSUP the server speaks no protocol version in common
 *   EDQUOT  the server or the tenant has as many sessions as it may, or the tenant as many
 *           channels: a session has one of its own
 *   or what connecting gave: ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT ...  [any] */
RMEM_API int rmem_open(const char *uri, const struct rmem_options *options,
		       rmem **ret_session);

/* End the session: ephemeral leases are freed at once, named ones are detached.  Leases,
 * queues and buffers of the session that still exist are freed with it: their handles must
 * not be used any more, not even to free them.  NULL: nothing.  [any, but nothing else may
 * use the session any more] */
RMEM_API void rmem_close(rmem *session);

/* What a session got. Strings live as long as the session. */
struct rmem_info {
	size_t size;             /* in: sizeof(struct rmem_info) */
	enum rmem_fabric fabric; /* RMEM_FABRIC_TCP or RMEM_FABRIC_RDMA */
	const char *downgrade;   /* why "auto" fell to TCP; NULL when it did not */
	const char *server;      /* address:port of the control connection */
	const char *device;      /* local RDMA devices, comma separated; "" on TCP */
	uint64_t session_id;
	unsigned channels;       /* per queue */
	unsigned heartbeat_ms;   /* how often a sign of life is sent */
	unsigned fence_ms;       /* without one for so long the server fences */
	unsigned grace_ms;       /* a fenced session keeps its leases for so long */
	uint64_t resumes;        /* how often the session was lost and came back */
	int draining;            /* 1: the server has said that it will stop */
};

/* Fill *info.  EINVAL: info->size is unknown.  [any] */
RMEM_API int rmem_info(rmem *session, struct rmem_info *info);

/* Only with RMEM_NO_THREAD: a descriptor that polls readable when rmem_process() has
 * work.  It also turns readable when a heartbeat is due.  It belongs to the session.
 *   EINVAL  the session has the service threads  [any] */
RMEM_API int rmem_fd(rmem *session);

/* Do the session's due work: heartbeats, events, reconnecting.  It does not wait for the
 * network, but for a data channel that is opened anew: half a heartbeat at most, one per
 * call.  Calls that wait (control calls, rmem_read, rmem_write, rmem_wait) do this work
 * themselves meanwhile.
 *   EINVAL      the session has the service threads
 *   ECONNRESET  the connection is lost; calling on keeps trying to resume
 *   ESTALE      the session is lost for good: its grace time is over  [any] */
RMEM_API int rmem_process(rmem *session);

/* A round trip on the control connection; while the session is lost it waits for it to
 * come back.
 *   ret_ns  nanoseconds it took; may be NULL
 *   ETIMEDOUT, ESTALE  [any] */
RMEM_API int rmem_ping(rmem *session, uint64_t *ret_ns);

/* ---- leases ---- */

#define RMEM_READ 1u  /* the lease may be read */
#define RMEM_WRITE 2u /* the lease may be written */
#define RMEM_REPLACE 4u /* take the name from a lease that has it; that one is freed */

#define RMEM_NODE_ANY (-1)

/* Where on the server memory is to lie.  It is a wish: where there is no room others serve,
 * and rmem_lease_layout() tells what was given. */
enum rmem_placement {
	/* On a NUMA node; any: on the nodes of the RDMA devices that the session uses, then
	 * elsewhere. */
	RMEM_PLACE_NODE = 0,
	RMEM_PLACE_DEVICE = 1, /* on the node of one of the server's RDMA devices */
	/* In stripes over all nodes that have pools, for the bandwidth of all of them: up to
	 * 16 of 2 MiB or more, or one for each node where that makes more, or less. */
	RMEM_PLACE_INTERLEAVE = 2,
};

/* What to allocate.  Start from RMEM_ALLOC_INIT. */
struct rmem_alloc_params {
	size_t size;      /* sizeof(struct rmem_alloc_params) */
	uint64_t bytes;   /* may be 0: no memory yet, rmem_grow() adds it */
	uint64_t align;   /* bytes, power of two up to 1 GiB; 0: the pool's page */
	/* of RMEM_PLACE_NODE: NUMA node wished for; else RMEM_NODE_ANY */
	int node;
	const char *name; /* NULL: ephemeral, ends with the session */
	/* named only: lives so long after its last renewal; 0: for ever, or as long as the
	 * tenant's leases may */
	uint64_t ttl_ms;
	enum rmem_placement placement; /* of what rmem_grow() adds, too */
	/* of RMEM_PLACE_DEVICE: its name at the server; else NULL */
	const char *device;
};
#define RMEM_ALLOC_INIT                                                              \
	{ .size = sizeof(struct rmem_alloc_params), .node = RMEM_NODE_ANY }

/* Borrow memory.  It reads as zero.  The lease is readable and writable.  The caller owns
 * *ret_lease and ends it with rmem_free() or rmem_detach().
 *   ENODEV  the server serves no RDMA device of that name
 *   EINVAL, ENOSPC, EDQUOT, EEXIST, ETIMEDOUT, ESTALE  [any] */
RMEM_API int rmem_alloc(rmem *session, const struct rmem_alloc_params *params,
			rmem_lease **ret_lease);

/* Attach a named lease of the tenant.
 *   rights  RMEM_READ, or RMEM_READ | RMEM_WRITE
 *   ENOTSUP  part of it is lent through RDMA devices to which this host has no way, or
 *            can have no channel now
 *   EINVAL, ENOENT, EDQUOT, EBUSY (this session has it attached), ETIMEDOUT, ESTALE  [any] */
RMEM_API int rmem_attach(rmem *session, const char *name, unsigned rights,
			 rmem_lease **ret_lease);

/* Give the lease up in this session.  A named lease lives on; an ephemeral one is freed.
 * The handle is gone on success.  EBUSY: operations are outstanding.  [any] */
RMEM_API int rmem_detach(rmem_lease *lease);

/* End the lease for everybody: its keys die, its bytes are zeroed and lent again.
 * Operations of other sessions on it end in ESTALE.  The handle is gone on success, and
 * when the lease had ended already (0 is returned then).
 *   EBUSY   operations of this program are outstanding: wait, or rmem_cancel()
 *   EACCES  the lease is attached for reading only  [any] */
RMEM_API int rmem_free(rmem_lease *lease);

/* Name the lease, or change its name.  An ephemeral lease becomes a named one.
 *   flags  0, or RMEM_REPLACE
 *   EEXIST  the name is taken and RMEM_REPLACE is not given
 *   EACCES  the lease is attached for reading only  [any] */
RMEM_API int rmem_rename(rmem_lease *lease, const char *name, unsigned flags);

/* Make the lease longer: `bytes` is its new length.  The bytes added read as zero; those
 * it had keep their offsets and contents.  Operations may go on meanwhile.
 *   EINVAL (shorter than now), ENOSPC (space, or RMEM_SEGMENTS_MAX), EDQUOT, EACCES  [any] */
RMEM_API int rmem_grow(rmem_lease *lease, uint64_t bytes);

/* Make the lease shorter: `bytes` is its new length, 0 too.  What lies beyond is freed,
 * as far as the server's pages allow; it cannot be reached any more in any case.
 *   EINVAL (longer than now), EBUSY (operations outstanding), EACCES  [any] */
RMEM_API int rmem_trim(rmem_lease *lease, uint64_t bytes);

/* Renew a named lease: its time to live starts anew, as `ttl_ms` from now (0: for ever,
 * or as long as the tenant's leases may).
 *   EACCES (attached for reading only), EDQUOT (longer than they may)  [any] */
RMEM_API int rmem_renew(rmem_lease *lease, uint64_t ttl_ms);

/* Free a named lease without attaching it.  ENOENT: no such name.  [any] */
RMEM_API int rmem_remove(rmem *session, const char *name);

/* A lease as the server tells it. */
struct rmem_stat {
	uint64_t id;       /* never used twice by one server */
	uint64_t bytes;    /* its exact length */
	uint64_t age_ms;   /* since it was granted */
	uint64_t ttl_ms;   /* what is left of its life; 0: for ever */
	uint32_t sessions; /* that have it attached */
	uint32_t segments;
	char name[RMEM_NAME_MAX + 1]; /* "": ephemeral */
};

/* One named lease of the tenant.  ENOENT: no such name.  [any] */
RMEM_API int rmem_stat(rmem *session, const char *name, struct rmem_stat *ret_stat);

/* Call `each` for every named lease of the tenant whose name starts with `prefix`
 * (NULL: all), in the order of their ids, until it returns non-zero.  `each` must not
 * call into the session.  Returns what `each` returned last, or 0.  [any] */
RMEM_API int rmem_list(rmem *session, const char *prefix,
		       int (*each)(const struct rmem_stat *stat, void *arg), void *arg);

/* The lease's length in bytes; as of the last control call on it.  [any] */
RMEM_API uint64_t rmem_lease_bytes(const rmem_lease *lease);
/* Its id.  [any] */
RMEM_API uint64_t rmem_lease_id(const rmem_lease *lease);
/* RMEM_READ or RMEM_READ | RMEM_WRITE.  [any] */
RMEM_API unsigned rmem_lease_rights(const rmem_lease *lease);
/* The server's NUMA node on which it begins, as of the last control call on it;
 * RMEM_NODE_ANY: the server does not know, or it has no bytes.  [any] */
RMEM_API int rmem_lease_node(const rmem_lease *lease);
/* Where a lease lies at the server, and where it was to lie. */
struct rmem_layout {
	size_t size;                   /* in: sizeof(struct rmem_layout) */
	enum rmem_placement placement; /* that was asked for */
	/* of that; of RMEM_PLACE_DEVICE that of the device; RMEM_NODE_ANY */
	int node;
	unsigned segments;
	unsigned nodes; /* of the server, with bytes of it */
	struct {
		int node; /* rising; RMEM_NODE_ANY: the server does not know */
		uint64_t bytes;
	} share[RMEM_SEGMENTS_MAX]; /* so many are filled */
};

/* Fill *layout, as of the last control call on the lease.
 *   EINVAL  layout->size is unknown  [any] */
RMEM_API int rmem_lease_layout(rmem_lease *lease, struct rmem_layout *layout);
/* 0 while the lease can be used, else -ESTALE.  [any] */
RMEM_API int rmem_lease_status(const rmem_lease *lease);

/* What the server wants back of a lease, as one of its pools is to be smaller and the lease is
 * in the way.  What is given back by then is enough; the lease is moved by no one: copy what
 * matters to another (rmem_copy() does it at the server), and free this one, or trim it. */
struct rmem_wanted {
	size_t size;      /* in: sizeof(struct rmem_wanted) */
	uint64_t bytes;   /* of the lease that are in the way; 0: nothing is wanted */
	uint64_t wait_ms; /* so long the server waits yet */
	int revoke;       /* 1: then the lease ends for everybody, and its operations in
			   * ESTALE; 0: then the server gives it up, and nothing changes */
};
#define RMEM_WANTED_INIT { .size = sizeof(struct rmem_wanted) }

/* Fill *wanted, as the server said last; it says so also when it wants nothing any more.
 * A notice tells when that changes, see rmem_notified(), of any lease, watched or not.
 *   EINVAL  an argument is NULL, or wanted->size is unknown
 *   ESTALE  the lease has ended  [any] */
RMEM_API int rmem_lease_wanted(rmem_lease *lease, struct rmem_wanted *wanted);

/* ---- notifications ---- */

/* Have the notifications of the lease told to this session: the 32-bit values that sessions
 * which may write to it send, this one too.  What was written before one was sent is there
 * to be read when it comes.  It holds until rmem_unwatch() or the end of the lease or its
 * handle, and when the session was lost and has come back.  Watching again does nothing.
 *   ESTALE, ENOMEM, ETIMEDOUT  [any] */
RMEM_API int rmem_watch(rmem_lease *lease);
/* No more of them; those not taken yet are dropped, but not what the server wants back.  What
 * is not watched: nothing.
 *   ETIMEDOUT  [any] */
RMEM_API int rmem_unwatch(rmem_lease *lease);

#define RMEM_LOST_UNKNOWN UINT32_MAX

/* What a session is told of a lease that it watches, and of any lease that the server wants
 * memory of back.  Nothing is lost in silence: when the program or its connection is too slow
 * for what comes, the latest of each lease is kept and those it took the place of are counted.
 * Who finds `lost` or a status should look at the lease itself. */
struct rmem_notice {
	rmem_lease *lease;
	int status;     /* 0: a notification.  -ECONNRESET: none, the session was lost and
			 * has come back.  -ESTALE: none, the lease has ended, or the session;
			 * it is the last of this lease.  -ENOSPC: none, the server wants
			 * more or less of it back than before: rmem_lease_wanted() */
	uint32_t value; /* of a notification */
	uint32_t lost;  /* notices of this lease before this one that were lost;
			 * RMEM_LOST_UNKNOWN: so many or more, or nobody knows */
};

/* Take up to n notices, the oldest first; wait for the first one.  Returns how many; 0 when
 * none has come in time.  With RMEM_NO_THREAD it does the session's due work, as
 * rmem_process().
 *   timeout_ms  0: do not wait; below 0: wait for ever
 *   EINVAL      n is 0
 *   ESTALE      the session is lost for good, and all notices were taken  [any] */
RMEM_API int rmem_notified(rmem *session, struct rmem_notice *notices, unsigned n,
			   int timeout_ms);
/* A descriptor that polls readable while there are notices to take; not to be read.  It
 * belongs to the session.  With RMEM_NO_THREAD nothing comes unless the program also waits
 * for rmem_fd().  EMFILE.  [any] */
RMEM_API int rmem_notified_fd(rmem *session);

/* ---- registered local memory ---- */

/* What to register.  Start from RMEM_BUFFER_INIT. */
struct rmem_buffer_params {
	size_t size;      /* sizeof(struct rmem_buffer_params) */
	void *addr;       /* NULL: allocate, page aligned and zeroed */
	uint64_t bytes;   /* > 0 */
	int dmabuf_fd;    /* -1; a dma-buf to register instead of addr */
	uint64_t dmabuf_offset;
};
#define RMEM_BUFFER_INIT                                                             \
	{ .size = sizeof(struct rmem_buffer_params), .dmabuf_fd = -1 }

/* Register memory of this process, so that operations move bytes without a copy.  `addr`
 * stays the caller's and must outlive the buffer.
 *   ENOMEM   out of memory, or RLIMIT_MEMLOCK too low; the text says which
 *   EFAULT   addr is not mapped.  What is mapped for reading only will do for writes
 *   ENOTSUP  the device cannot register dma-bufs  [any] */
RMEM_API int rmem_buffer_create(rmem *session, const struct rmem_buffer_params *params,
				rmem_buffer **ret_buffer);
/* EBUSY: operations on it are outstanding.  NULL: 0.  [any] */
RMEM_API int rmem_buffer_free(rmem_buffer *buffer);
/* Its first byte.  [any] */
RMEM_API void *rmem_buffer_addr(const rmem_buffer *buffer);
/* Its length in bytes.  [any] */
RMEM_API uint64_t rmem_buffer_bytes(const rmem_buffer *buffer);

/* ---- synchronous operations ---- */

/* Read from the lease at `offset` into `dst`, and wait.  Any memory will do; what lies in
 * a registered buffer is not copied.  It ends in ETIMEDOUT when nothing has moved for the
 * session's time-out.  Synchronous calls share one channel of the session.
 *   EINVAL (out of the lease, dst is NULL), EACCES, ESTALE, ETIMEDOUT, ECONNRESET,
 *   EFAULT, EIO
 *   [any; calls on one session take turns, use queues for concurrency] */
RMEM_API int rmem_read(rmem_lease *lease, uint64_t offset, void *dst, uint64_t bytes);
/* Write to the lease at `offset` from `src`, and wait until it is placed.  Errors as for
 * rmem_read().  [any] */
RMEM_API int rmem_write(rmem_lease *lease, uint64_t offset, const void *src,
			uint64_t bytes);

/* A piece of local memory. */
struct rmem_vec {
	void *addr;          /* not written to by writes */
	uint64_t bytes;      /* may be 0 */
	rmem_buffer *buffer; /* that addr lies in; NULL: unregistered, is copied on RDMA */
};
#define RMEM_VEC_MAX 1024 /* most pieces of one operation */

/* Read the range of the lease that begins at `offset` into n pieces of local memory, one
 * behind the other, and wait; it is as long as they are together.  Pieces in registered
 * buffers are not copied when they say so.  Errors as for rmem_read(), and
 *   EINVAL  more than RMEM_VEC_MAX pieces  [any] */
RMEM_API int rmem_readv(rmem_lease *lease, uint64_t offset, const struct rmem_vec *vec,
			unsigned n);
/* The same the other way.  [any] */
RMEM_API int rmem_writev(rmem_lease *lease, uint64_t offset, const struct rmem_vec *vec,
			 unsigned n);

/* Compare and swap: put `desired` at `offset`, a multiple of 8, if `expected` is there, and
 * wait.  *ret_old (may be NULL) is what was there, so it is done if that is `expected`.  See
 * RMEM_OP_CAS for what it is atomic to.
 *   EINVAL (out of the lease, not aligned), EACCES, ESTALE, EIO
 *   ENOTSUP                device or server have no atomics, or the lease's atomic home is
 *                          another one; the text names it
 *   ETIMEDOUT, ECONNRESET  it may or may not have been done  [any] */
RMEM_API int rmem_compare_swap(rmem_lease *lease, uint64_t offset, uint64_t expected,
			       uint64_t desired, uint64_t *ret_old);
/* Add to the number at `offset`, modulo 2^64; all else as in rmem_compare_swap().  [any] */
RMEM_API int rmem_fetch_add(rmem_lease *lease, uint64_t offset, uint64_t add,
			    uint64_t *ret_old);

/* Fill a range with 8 bytes, as they lie in memory, again and again, and wait; the server
 * does it.  RMEM_FILL_BYTE(b) is the pattern of one byte.  Errors of this and the following
 * three as for rmem_read(), and
 *   ENOTSUP  the server has no in-band operations there; the text says where  [any] */
RMEM_API int rmem_fill(rmem_lease *lease, uint64_t offset, uint64_t bytes,
		       uint64_t pattern);
#define RMEM_FILL_BYTE(b) ((uint64_t)(uint8_t)(b) * UINT64_C(0x0101010101010101))
/* Copy a range of `source` to `lease`, which may be the same, and wait; the server does it.
 *   EINVAL   the ranges overlap
 *   ENOTSUP  no RDMA device of the server reaches both  [any] */
RMEM_API int rmem_copy(rmem_lease *lease, uint64_t offset, rmem_lease *source,
		       uint64_t source_offset, uint64_t bytes);
/* The CRC-32C (as in iSCSI: of "123456789" it is 0xe3069283) of a range, from the server.
 * What other sessions write meanwhile may be in it or not.  [any] */
RMEM_API int rmem_crc32c(rmem_lease *lease, uint64_t offset, uint64_t bytes,
			 uint32_t *ret_crc);
/* A round trip on a data channel, to the thread that does in-band operations.
 *   ret_ns  nanoseconds it took; may be NULL  [any] */
RMEM_API int rmem_ping_data(rmem *session, uint64_t *ret_ns);
/* Write as rmem_write() does, then notify the sessions that watch the lease, with `value`.
 *   ETIMEDOUT, ECONNRESET  they may or may not have been notified  [any] */
RMEM_API int rmem_write_notify(rmem_lease *lease, uint64_t offset, const void *src,
			       uint64_t bytes, uint32_t value);

/* ---- asynchronous operations ---- */

enum rmem_opcode {
	RMEM_OP_READ = 1,
	RMEM_OP_WRITE = 2,
	/* Atomics, on the 64-bit number that stands at a multiple of 8, in the server's byte
	 * order: they are atomic to all other atomics on the lease, of any session, and need
	 * a lease that may be read and written.  All of them are done in the lease's atomic
	 * home, an RDMA device of the server or its TCP service: the first one decides which,
	 * for the life of the lease.  Plain writes are not atomic to them.  One that was cut
	 * off by the death of its channel is never done again: it ends in an error, and
	 * rmem_completion_error() says that whether it was done is unknown. */
	RMEM_OP_CAS = 3,       /* put a number there if a certain one is there */
	RMEM_OP_FETCH_ADD = 4, /* add to the number there */
	/* Between one range of the lease and a list of pieces of local memory, which are
	 * filled, or emptied, one behind the other. */
	RMEM_OP_READV = 5,
	RMEM_OP_WRITEV = 6,
	/* In-band operations: the server does them, near its memory, and only the request
	 * goes over the wire.  They have no local memory. */
	RMEM_OP_FILL = 7, /* the range, with `pattern` again and again */
	RMEM_OP_COPY = 8, /* the range, from one as long at `source`, of any lease of the
			   * session; the two must not overlap */
	RMEM_OP_CRC = 9,  /* the CRC-32C of the range, a uint32_t, goes to `addr` */
	RMEM_OP_PING = 10, /* a round trip on a data channel; of no lease and no range */
	/* A write, and once it is placed, a notification with `value` to the sessions that
	 * watch the lease; of no bytes, the notification alone.  It completes when the
	 * server has both.  Where the channel died under the notification it ends in an
	 * error, and rmem_completion_error() says that whether it was done is unknown. */
	RMEM_OP_WRITE_NOTIFY = 11,
};

/* A place in a lease. */
struct rmem_place {
	rmem_lease *lease;
	uint64_t offset; /* bytes */
};

/* What an atomic works with. */
struct rmem_atomic {
	uint64_t compare; /* RMEM_OP_CAS: only if this is there */
	uint64_t operand; /* RMEM_OP_CAS: what is put there; RMEM_OP_FETCH_ADD: added */
};

#define RMEM_OP_FENCE 1u /* start only after all operations before it have completed */

/* One operation.  `addr` must stay untouched (for writes: unchanged) until it completes. */
struct rmem_op {
	uint16_t opcode;     /* enum rmem_opcode */
	uint16_t flags;      /* RMEM_OP_FENCE */
	uint32_t timeout_ms; /* for all of it; 0: the session's, anew with every part of it
			      * that is done.  An operation still on the wire then takes
			      * its channel down with it, so that its memory is the
			      * caller's again when ETIMEDOUT is told */
	rmem_lease *lease;
	rmem_buffer *buffer; /* that addr lies in; NULL: unregistered, is copied on RDMA */
	uint64_t offset;     /* into the lease, bytes */
	void *addr;          /* local memory; not written to by RMEM_OP_WRITE; an atomic
			      * puts the number there that it found, a CRC its result */
	union {
		uint64_t bytes; /* of an atomic: 8 */
		uint64_t n_vec; /* of a vectored one: entries of vec, RMEM_VEC_MAX at most */
	};
	uint64_t cookie; /* the caller's, comes back in the completion */
	union {
		const struct rmem_atomic *atomic; /* of an atomic; read by rmem_submit() */
		const struct rmem_place *source;  /* of a copy; read by rmem_submit() */
		uint64_t pattern; /* of a fill: 8 bytes as they lie in memory, the first
				   * of them goes to the range's first byte */
		uint32_t value;   /* of a write with notification */
		/* of a vectored one, in the place of addr and buffer; it must stay
		 * untouched until the completion has been taken */
		const struct rmem_vec *vec;
	};
};

struct rmem_completion {
	uint64_t cookie;
	int status;      /* 0 or -errno; rmem_completion_error() has the text */
	uint32_t vendor; /* vendor error of the device, 0 if none */
	uint64_t bytes;  /* of the operation; moved when status is 0 */
};

/* What a queue is to be like.  Start from RMEM_QUEUE_INIT. */
struct rmem_queue_params {
	size_t size;       /* sizeof(struct rmem_queue_params) */
	unsigned depth;    /* operations outstanding, 1 to RMEM_DEPTH_MAX; 0: 128 */
	/* 1 to RMEM_CHANNELS_MAX; 0: as the URI says.  There is one more to each device of
	 * the server through which alone some memory is lent, if none of these goes there */
	unsigned channels;
	/* for unregistered memory on RDMA, made at its first use; 0: 1 MiB */
	uint64_t bounce_bytes;
	/* of the server: channels go first to its devices on that NUMA node, see
	 * rmem_lease_node(); RMEM_NODE_ANY: to all alike */
	int node;
};
#define RMEM_QUEUE_INIT                                                              \
	{ .size = sizeof(struct rmem_queue_params), .node = RMEM_NODE_ANY }

/* Make a queue with its own channels to the server.  The caller owns it and ends it with
 * rmem_queue_free().  A server that is lost meanwhile is waited for as long as the session's
 * timeout_ms.  Errors as for rmem_open(), and EDQUOT: the server allows the session or the
 * tenant not so many channels, and the queue has none of them.  [any] */
RMEM_API int rmem_queue_create(rmem *session, const struct rmem_queue_params *params,
			       rmem_queue **ret_queue);
/* End the queue; outstanding operations are flushed, their completions lost, and the
 * memory they named is the caller's again on return.  NULL: nothing.  [owner] */
RMEM_API void rmem_queue_free(rmem_queue *queue);

/* There is no flush: a write, vectored too, completes only once it is placed in the server's
 * memory, where every later read by any session sees it.  So what a flush would wait for is
 * that the completions of all writes before it have come, or, in the queue itself, an
 * operation with RMEM_OP_FENCE. */

/* Submit n operations, in order; all that are accepted are posted as one batch.
 * Returns how many were accepted, which is less than n when the queue filled up or an
 * operation came that would give EINVAL, ENOTSUP or ENOMEM as the first.
 * What cannot be started for its own fault (out of bounds, no rights, lease ended) is
 * accepted and completes with that error; so is the first vectored or in-band one of a
 * channel that has no memory for it, with ENOMEM.
 *   EINVAL     opcode or flags of the first operation are unknown, or its lease or buffer
 *              is not of this session, or an atomic lacks its operands, a copy its
 *              source, a vectored one its list, or that is too long
 *   ENOTSUP    the first operation is an atomic, and the RDMA device, here or at the
 *              server, has none, or an in-band one, and the server does none there; the
 *              text names it.  A lease whose atomic home is
 *              another one is told by the completion, with the home's name
 *   ENOMEM     the first operation is the queue's first ping
 *   EOVERFLOW  the queue is full  [owner] */
RMEM_API int rmem_submit(rmem_queue *queue, const struct rmem_op *ops, unsigned n);

/* Take up to n completions without waiting.  Returns how many.  [owner] */
RMEM_API int rmem_poll(rmem_queue *queue, struct rmem_completion *completions,
		       unsigned n);

/* Take completions; wait until there are at least `min` (at most n, or all that is
 * outstanding if that is less) or timeout_ms has passed (-1: none).  Returns how many,
 * 0 after the time-out.  [owner] */
RMEM_API int rmem_wait(rmem_queue *queue, struct rmem_completion *completions, unsigned n,
		       unsigned min, int timeout_ms);

/* The text of the last completion with an error that rmem_poll() or rmem_wait() gave
 * from this queue; "" if none.  Valid until the next call on the queue.  [owner] */
RMEM_API const char *rmem_completion_error(const rmem_queue *queue);

/* How many operations are outstanding.  [owner] */
RMEM_API unsigned rmem_queue_outstanding(const rmem_queue *queue);

/* A descriptor that polls readable when rmem_poll() may have completions, once armed by
 * rmem_queue_arm().  It belongs to the queue.  [owner] */
RMEM_API int rmem_queue_fd(const rmem_queue *queue);
/* Arm the descriptor.  Returns 1 when completions are waiting already (poll first), 0
 * when armed.
 *   EMFILE  no descriptor is left for its timer, which the first call makes  [owner] */
RMEM_API int rmem_queue_arm(rmem_queue *queue);

/* Flush the queue's operations on `lease` (NULL: all of them): they complete with
 * ECANCELED, or with their result when that came first.  Whether a cancelled write was
 * applied is unknown.  What shares a channel with them is posted again on another.  The
 * completions are still to be taken.  Returns how many were cancelled.  [owner] */
RMEM_API int rmem_cancel(rmem_queue *queue, const rmem_lease *lease);

#ifdef __cplusplus
}
#endif
#endif
