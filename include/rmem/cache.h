/* SPDX-License-Identifier: BSD-3-Clause */
/* librmem-cache: a cache in the memory of servers, shared by clients on many hosts.
 *
 * Keys of 1 to 255 bytes have values of up to 64 MiB.  The memory of each server is one named
 * lease, cache/NAME; clients look for keys, read, store and evict with one-sided operations, and no
 * program at the server takes part.  rmem-cache(7) has the format, librmem-cache(3) an
 * introduction.
 *
 * What a get finds was stored under the key, whole, by a put that no later put or delete of the key
 * had replaced when the get began.  A key that was stored may be missing at any time: it was
 * evicted, its server was lost, or a client raced with the get.  Clients may be stopped or killed
 * at any time: nobody waits for them.
 *
 * Results.  Calls return 0, a count, a descriptor or a value; those that can fail return a negative
 * errno value instead, and rmem_cache_error() then has one line of text for the calling thread.
 *
 * Threads.  [owner]: one thread at a time may use a cache; [any]: any thread.  A thread of the
 * library for each server opens its session, and opens it again when it was lost.
 *
 * fork().  In the child the calls on what the parent has opened fail with ESTALE. */
#ifndef RMEM_CACHE_H
#define RMEM_CACHE_H

#include <rmem/rmem.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rmem_cache rmem_cache; /* a client of a cache */

#define RMEM_CACHE_KEY_MAX 255
#define RMEM_CACHE_VALUE_MAX 67108864 /* bytes */
#define RMEM_CACHE_NAME_MAX 249       /* bytes */
#define RMEM_CACHE_SERVERS_MAX 1024
#define RMEM_CACHE_DEPTH_MAX 65536

/* The error text of the thread's last call; "" if it succeeded.  Valid until the thread's next call
 * of this library.  [any] */
RMEM_API const char *rmem_cache_error(void);

/* ---- open and close ---- */

#define RMEM_CACHE_IMMUTABLE 1u /* a key never has two values */
#define RMEM_CACHE_READ_ONLY 2u /* only get and exists */

/* Options of a client.  Start from rmem_cache_options_init(). */
struct rmem_cache_options {
	size_t size; /* sizeof(struct rmem_cache_options) */
	/* RMEM_CACHE_IMMUTABLE, of a cache that is made; RMEM_CACHE_READ_ONLY */
	unsigned flags;
	unsigned depth; /* keys outstanding, 1 to RMEM_CACHE_DEPTH_MAX; 0: 4096 */
	/* of each server's memory, if there is no cache of that name yet; 0: there must be one */
	uint64_t bytes;
	/* of a cache that is made: a power of two of 4096 to 67108864; 0: by its bytes */
	uint64_t segment_bytes;
	uint64_t places;     /* of keys of each server that are remembered; 0: 65536 */
	unsigned timeout_ms; /* of opening, and of the servers' calls; 0: 10000 */
	/* of the sessions; kept until rmem_cache_close().  RMEM_NO_THREAD is refused.  NULL: the
	 * defaults */
	const struct rmem_options *session;
};
static inline struct rmem_cache_options rmem_cache_options_init(void)
{
	struct rmem_cache_options value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	return value;
}

/* Open a cache, and wait until each server is open or has failed.  The call succeeds if one is
 * open; the others are tried again in the background, and meanwhile their keys are missing.
 *
 *   servers, n  URIs as for rmem_open(3).  Each key has one server, by the HOST:PORT of the URIs
 *               and nothing else: all clients give the same ones, in any order.  n is 0: the one
 *               of the environment variable RMEM_SERVER
 *   name        of the cache, 1 to RMEM_CACHE_NAME_MAX bytes of UTF-8
 *   options     NULL: the defaults; not kept
 * The caller owns *ret_cache and ends it with rmem_cache_close().
 *   EINVAL  an argument is NULL or out of its range, or two servers are the same
 *   ENOENT  there is no cache of that name, and options->bytes is 0
 *   EPROTO  the lease of that name has other contents, or a later version of the format
 *   ENOTSUP options->flags has RMEM_CACHE_IMMUTABLE, and the cache has not, or the other way round
 *   ENOMEM, ENOSPC, EDQUOT, EACCES, ... as for rmem_open(), rmem_alloc(), rmem_queue_create()
 * [any] */
RMEM_API int rmem_cache_open(const char *const *servers, unsigned n, const char *name,
			     const struct rmem_cache_options *options,
			     rmem_cache **ret_cache);

/* End the client: the rest of its open segments is left to others.  Keys that are outstanding are
 * forgotten.  NULL: nothing.  [any, but no other call may use the cache] */
RMEM_API void rmem_cache_close(rmem_cache *cache);

/* ---- keys ---- */

enum rmem_cache_opcode {
	RMEM_CACHE_GET = 1,
	RMEM_CACHE_PUT = 2,
	RMEM_CACHE_EXISTS = 3, /* also tells the value's length */
	RMEM_CACHE_DELETE = 4,
};

/* What to do with one key. */
struct rmem_cache_op {
	const void *key; /* read by rmem_cache_submit() */
	/* The value of a put, unchanged until its result was taken.  Of a get: where it goes; bytes
	 * behind it, up to `bytes`, may be overwritten, also if the key is missing */
	void *value;
	uint64_t bytes;  /* of `value` */
	uint64_t ttl_ms; /* put: milliseconds after which the key is missing; 0: none */
	uint64_t cookie; /* the caller's, returned in the result */
	uint16_t opcode; /* enum rmem_cache_opcode */
	uint8_t key_bytes;   /* 1 to RMEM_CACHE_KEY_MAX */
	uint8_t reserved[5]; /* 0 */
};

enum rmem_cache_outcome {
	RMEM_CACHE_HIT = 1,     /* get, exists */
	RMEM_CACHE_MISSING = 2, /* get, exists, delete */
	RMEM_CACHE_STORED = 3,  /* put */
	RMEM_CACHE_DELETED = 4, /* delete */
	RMEM_CACHE_FAILED = 5,
};

struct rmem_cache_result {
	uint64_t cookie; /* the operation's */
	uint64_t bytes; /* of the value, if the outcome is HIT or the status EMSGSIZE */
	/* FAILED: -errno.  MISSING: 0, or the -errno for which the server could not be asked.
	 * rmem_cache_result_error() has the text.
	 *   EMSGSIZE   get: the value is longer than the room for it
	 *   EFBIG      put: the value is too long for this cache
	 *   ENOSPC     put: all segments are in use by other clients now
	 *   EAGAIN     other clients change the key all the time
	 *   EROFS      put, delete: the client only reads
	 *   ECONNRESET put, delete: whether it was done is unknown
	 *   ENOTSUP    put, delete: another fabric executes the lease's atomics
	 *   ETIMEDOUT, ESTALE, EHOSTUNREACH, ...  of the server */
	int status;
	uint16_t outcome;  /* enum rmem_cache_outcome */
	uint16_t opcode;   /* the operation's */
	uint32_t error;    /* number of its text; 0: none */
	uint32_t reserved; /* 0 */
};

/* Submit operations.  Returns the number accepted, which is less than n if as many are outstanding
 * as may be, or if an operation follows that would give EINVAL as the first operation.  Those on
 * one key that are outstanding together take effect in any order.
 *   EINVAL     the first operation is malformed; the text tells why
 *   EOVERFLOW  as many are outstanding as may be: take results first
 *   ENOMEM     this host lacks memory
 *   ESTALE     the parent process has opened the cache  [owner] */
RMEM_API int rmem_cache_submit(rmem_cache *cache, const struct rmem_cache_op *ops,
			       unsigned n);

/* Go on with what is outstanding, and take results without waiting.  Returns their number.
 *   n  room in results[]  [owner] */
RMEM_API int rmem_cache_poll(rmem_cache *cache, struct rmem_cache_result *results,
			     unsigned n);

/* Take results, and wait until there are at least `min`.  Returns their number, which is less than
 * min after the time-out.
 *   n           room in results[]
 *   min         at most n and the number outstanding count
 *   timeout_ms  milliseconds; negative: no limit  [owner] */
RMEM_API int rmem_cache_wait(rmem_cache *cache, struct rmem_cache_result *results,
			     unsigned n, unsigned min, int timeout_ms);

/* The text of a result that the last call of rmem_cache_poll() or rmem_cache_wait() returned; "":
 * it has none.  Valid until the next call of either.  A call keeps the texts of its last 256
 * results that have one; of others the text is only the meaning of the status.  [owner] */
RMEM_API const char *rmem_cache_result_error(const rmem_cache *cache,
					     const struct rmem_cache_result *result);

/* The number of operations outstanding.  [owner] */
RMEM_API unsigned rmem_cache_outstanding(const rmem_cache *cache);

/* A descriptor that polls readable when rmem_cache_poll() has work, once armed by
 * rmem_cache_arm().  The cache owns it: neither read nor close it.  [owner] */
RMEM_API int rmem_cache_fd(const rmem_cache *cache);
/* Arm the descriptor.  Returns 0 when armed, 1 if there is work already: poll first.
 *   EMFILE  no descriptor is left for the timer that the first call makes  [owner] */
RMEM_API int rmem_cache_arm(rmem_cache *cache);

/* ---- one key, and wait ---- */

/* The following calls submit one operation and wait for its result; results of others that come
 * meanwhile are kept for rmem_cache_poll().  A failure is returned as its -errno.  [owner] */

/* Returns 1: *ret_bytes, which may be NULL, is the length of the value; 0: the key is missing.  The
 * value is longer than `bytes`: EMSGSIZE, and *ret_bytes is its length all the same. */
RMEM_API int rmem_cache_get(rmem_cache *cache, const void *key, size_t key_bytes,
			    void *value, uint64_t bytes, uint64_t *ret_bytes);
/* Returns 0.
 *   ttl_ms  milliseconds after which the key is missing; 0: none */
RMEM_API int rmem_cache_put(rmem_cache *cache, const void *key, size_t key_bytes,
			    const void *value, uint64_t bytes, uint64_t ttl_ms);
/* Returns as rmem_cache_get(). */
RMEM_API int rmem_cache_exists(rmem_cache *cache, const void *key, size_t key_bytes,
			       uint64_t *ret_bytes);
/* Returns 1, or 0: the key was missing. */
RMEM_API int rmem_cache_delete(rmem_cache *cache, const void *key, size_t key_bytes);

/* ---- memory of the program ---- */

/* Register memory with the sessions of all servers, and with those that are opened later: over RDMA
 * values of more than 256 bytes are moved from and to it in place, others are copied.  The memory
 * stays mapped until rmem_cache_unregister() or rmem_cache_close(), and the limit of locked memory
 * holds it once for each server.  If it cannot be registered with a session that is opened later,
 * that one copies.
 *   addr, bytes  memory; more than 0 bytes; the same may be registered several times
 *   EINVAL   addr is NULL or bytes are 0 or too many
 *   ENOMEM, EFAULT, ...  as for rmem_buffer_create(); then it is registered nowhere  [owner] */
RMEM_API int rmem_cache_register(rmem_cache *cache, void *addr, uint64_t bytes);
/* End one registration of the same addr and bytes.
 *   EBUSY   operations whose value is in the memory are outstanding: take their results first
 *   ENOENT  there is none  [owner] */
RMEM_API int rmem_cache_unregister(rmem_cache *cache, void *addr, uint64_t bytes);

/* ---- state ---- */

#define RMEM_CACHE_ALL (-1)

/* What this client has counted since it was opened, and sees of the memory.  Start from
 * rmem_cache_stat_init(). */
struct rmem_cache_stat {
	size_t size;            /* in: sizeof(struct rmem_cache_stat) */
	unsigned servers;       /* number of servers, 1 of one server */
	unsigned servers_open;  /* of these */
	uint64_t bytes;         /* of the segments */
	uint64_t segment_bytes; /* of one; 0: of several servers, which differ */
	uint64_t segments;      /* number of segments */
	uint64_t segments_free; /* that hold nothing */
	uint64_t segments_open; /* that clients write to */
	/* keys that were: */
	uint64_t hits;
	uint64_t misses;
	uint64_t stored;
	uint64_t deleted;
	uint64_t failed;
	/* operations on the memory: */
	uint64_t reads;
	uint64_t writes;
	uint64_t swaps;  /* atomics */
	uint64_t copies; /* at the server */
	uint64_t hints;  /* of the writes: one byte that tells of a hit */
	/* events: */
	/* blocks that were overwritten while they were read, or damaged */
	uint64_t torn;
	uint64_t stale;     /* keys that were found evicted */
	uint64_t contended; /* swaps that another client was ahead of */
	uint64_t unknown;   /* atomics whose outcome had to be asked for */
	uint64_t claims;    /* segments that this client took */
	uint64_t seals;     /* that it closed, of clients that are gone */
	uint64_t evictions; /* segments that it evicted */
	uint64_t dropped;   /* blocks that were evicted with them */
	uint64_t moved;     /* blocks that stayed, elsewhere */
	uint64_t losses;    /* of servers */
	/* on RDMA: of values and keys that were in no registered memory */
	uint64_t copied_bytes;
};
static inline struct rmem_cache_stat rmem_cache_stat_init(void)
{
	struct rmem_cache_stat value;

	memset(&value, 0, sizeof(value));
	value.size = sizeof(value);
	return value;
}

/* Fill *ret_stat.
 *   server  number of the server in the list of rmem_cache_open(); RMEM_CACHE_ALL: all together
 *   EINVAL  ret_stat->size is not set, or there is no such server  [owner] */
RMEM_API int rmem_cache_stat(rmem_cache *cache, int server,
			     struct rmem_cache_stat *ret_stat);

/* A key of a cache.  More members may be added behind. */
struct rmem_cache_entry {
	const void *key;
	size_t key_bytes;
	uint64_t bytes;  /* of the value */
	uint64_t ttl_ms; /* milliseconds that remain; 0: it does not expire */
	unsigned server; /* number in the list of rmem_cache_open() */
};

/* Call `each` for the keys of the servers that are open, in no order, until it returns non-zero.
 * Returns what `each` returned last; 0 if there are no keys.  The call reads all directories and
 * the head of each value, and waits for each read: it is for people who look, not for programs in
 * a hurry.  Keys that change meanwhile may be left out, or be told of twice.
 *   each  must not call into the cache; *entry is valid during the call
 *   ESTALE, ETIMEDOUT, ... as for rmem_read()  [owner] */
RMEM_API int rmem_cache_list(rmem_cache *cache,
			     int (*each)(const struct rmem_cache_entry *entry,
					 void *arg),
			     void *arg);

#ifdef __cplusplus
}
#endif
#endif
