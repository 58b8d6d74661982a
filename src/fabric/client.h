/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path of a client: one table of functions, implemented by verbs/ (RDMA) and tcp/.
 * librmem does not know which implementation it uses.
 *
 * A domain per (session, endpoint) holds the local memory regions; a cq belongs to one queue; a
 * channel carries operations of one queue to the server.
 *
 * Functions return 0 or -errno with err_text(); on failure ret_* is untouched. */
#ifndef FABRIC_CLIENT_H
#define FABRIC_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "fabric/hello.h"
#include "fabric/rdma_options.h"

struct fabric_domain;   /* client's side of one session on one endpoint */
struct fabric_local_mr; /* local memory registered in a domain */
struct fabric_cq;       /* completions of one queue in one domain; [owner] */
struct fabric_channel;  /* one connection; [owner] unless said otherwise */

/* Optional capabilities of a domain. */
enum fabric_capability { FABRIC_CAN_ATOMICS = 1, FABRIC_CAN_INBAND = 2 };

/* The common part of the operations of a batch: opcode, remote range, local mr. */
struct fabric_batch {
	enum fabric_opcode opcode;
	/* NULL if !needs_local_mr, or for writes up to inline_max() */
	struct fabric_local_mr *region;
	uint64_t remote_addr;
	uint64_t rkey;
};

static inline struct fabric_batch fabric_batch_of(enum fabric_opcode opcode,
						  struct fabric_local_mr *region,
						  const struct fabric_key *key)
{
	return (struct fabric_batch){ opcode, region, key->addr, key->rkey };
}

/* One operation of a batch.  may_alias: callers may pass equal members of a structure of their
 * own. */
struct __attribute__((may_alias)) fabric_op {
	uint64_t offset; /* from the batch's remote_addr */
	void *addr;      /* local */
	uint64_t bytes;  /* > 0, at most max_bytes */
};

/* A scatter/gather element: one of several local ranges of an operation. */
struct fabric_sge {
	void *addr;
	uint64_t bytes;                 /* > 0 */
	struct fabric_local_mr *region; /* NULL if !needs_local_mr */
};

/* Operands of an atomic. */
struct fabric_atomic {
	uint64_t compare; /* FABRIC_CAS: the expected value */
	uint64_t operand; /* FABRIC_CAS: the new value; FABRIC_FETCH_ADD: the addend */
};

/* Operands of an in-band request. */
struct fabric_inband_request {
	struct fabric_key source; /* FABRIC_COPY: first byte and rkey of the source */
	uint64_t pattern; /* FABRIC_FILL: 8 bytes, repeated from the range's start */
	uint32_t value;   /* FABRIC_NOTIFY */
};

/* A completion.  The operations of a channel complete in the order they were posted. */
struct fabric_wc {
	void *owner; /* of the channel */
	unsigned n;  /* it completes this number of the oldest operations */
	/* 0; -ESTALE with n 0: the channel works, but is to be replaced once nothing is outstanding
	 * on it, as its key of TLS wears out; -EACCES refused by the server; -ECONNRESET flushed,
	 * or the peer is gone; -ETIMEDOUT transport retries exceeded; -EFAULT local memory; -EIO
	 * other errors */
	int status;
	uint32_t vendor;  /* vendor error when status is not 0 */
	const char *text; /* static: the completion status in words; NULL when 0 */
};

struct fabric_channel_params {
	struct fabric_hello hello;
	/* Give the hello its origin: the channel will come from this local address.  Called once
	 * that is known, before the hello is sent.  NULL: the hello is complete. */
	void (*name_source)(void *ctx, const struct fabric_address *source,
			    struct fabric_hello *hello);
	void *name_source_ctx;
	/* FABRIC_ENDPOINT_TLS: the channel's key, which the server has too */
	uint8_t tls_key[FABRIC_TLS_KEY_BYTES];
	unsigned depth; /* limit of outstanding operations */
	unsigned timeout_ms;
	/* tcp: time without an acknowledgement of the peer after which the channel ends; 0: half a
	 * minute */
	unsigned silence_ms;
	/* connect() fails soon, with -ECANCELED, when another thread sets it; NULL: never.  Over
	 * siw a system call that connects is finished first */
	const atomic_bool *cancelled;
	void *owner; /* returned in its completions */
	/* FABRIC_ENDPOINT_DIRECT: send this queue pair's attributes to the server and receive
	 * the server's; blocks at most timeout_ms. */
	int (*exchange)(void *ctx, const struct fabric_qp_info *ours,
			unsigned timeout_ms, struct fabric_qp_info *ret_theirs);
	void *exchange_ctx;
};

/* How a client uses its devices; verbs only. */
struct fabric_client_params {
	/* local address to use, without port; family 0: any that reaches the server */
	struct fabric_address source;
	/* local address from which IP reaches the server; family 0: unknown */
	struct fabric_address route_source;
	struct fabric_rdma_options rdma_options;
	/* domain_open() fails soon, with -ECANCELED, when another thread sets it; NULL: never */
	const atomic_bool *cancelled;
};
#define FABRIC_CLIENT_PARAMS_INIT { .rdma_options = FABRIC_RDMA_OPTIONS_INIT }

struct fabric_client_ops {
	const char *name;
	enum fabric_kind kind;
	bool needs_local_mr; /* operations need registered memory */
	uint32_t max_bytes;  /* limit of one operation */
	/* While a channel has so many bytes of large operations, no other one is posted there, so
	 * that a small one waits for these bytes at most.  0: no limit, as the device moves them
	 * while the program does something else */
	uint32_t large_max;

	/* Why this build, or this host, does not have the fabric: of all that follows there is
	 * device_present() alone.  NULL: it has; no such function: always.  [any] */
	const char *(*missing)(void);
	/* Whether this host has a device for the fabric; cheap, may be outdated.  NULL: the
	 * fabric needs no device.  [any] */
	bool (*device_present)(void);
	/* 0, or -ENODEV with a text why this host cannot use the fabric.  NULL: it can.  [any] */
	int (*available)(void);

	/* Find the device that reaches the endpoint and open a domain on it; blocks.  params
	 * NULL: FABRIC_CLIENT_PARAMS_INIT.  [any] */
	int (*domain_open)(const struct fabric_endpoint *endpoint,
			   const struct fabric_client_params *params,
			   unsigned timeout_ms, struct fabric_domain **ret_domain);
	void (*domain_close)(struct fabric_domain *domain);
	/* Whether the domain's device is being removed; the kernel waits until this process
	 * closes it.  Close the domain.  If that takes long, abort all its channels and call
	 * domain_disassociate(): after that neither device nor network reaches local memory.
	 * All objects must still be freed.  NULL: the fabric has no devices.
	 * [one thread at a time] */
	bool (*domain_removed)(struct fabric_domain *domain);
	void (*domain_disassociate)(struct fabric_domain *domain);
	/* Whether the process keeps the device open after domain_close(), and then cannot learn
	 * of the device's removal.  If so, close an unused domain only after another one was
	 * opened.  [any] */
	bool (*domain_holds_device)(const struct fabric_domain *domain);
	/* Name of the local device, "" for tcp; borrowed. */
	const char *(*domain_device)(const struct fabric_domain *domain);
	/* 0, or -ENOTSUP with a text that names the local or remote device and what it
	 * lacks.  [any] */
	int (*domain_supports)(const struct fabric_domain *domain,
			       enum fabric_capability capability);

	/* Limit of a write whose local memory needs no region: the request carries the bytes.
	 * NULL if !needs_local_mr. */
	uint32_t (*inline_max)(const struct fabric_channel *channel);

	/* Limit of scatter/gather elements per operation, >= 1.  [any] */
	unsigned (*sge_max)(const struct fabric_domain *domain,
			    enum fabric_opcode opcode);

	/* Register [addr, addr + bytes) for local access.  -ENOMEM, -EFAULT.  The three are NULL
	 * if !needs_local_mr.  [any] */
	int (*reg_mr)(struct fabric_domain *domain, void *addr, size_t bytes,
		      struct fabric_local_mr **ret_region);
	/* Register `bytes` of a dma-buf from `offset` on, which operations name by the addresses
	 * from `addr` on.  Only the device accesses them; prepare() and prepare_sges() take the
	 * region, the other functions do not.
	 *   -ENOTSUP  the device, which the text names, cannot  [any] */
	int (*reg_dmabuf_mr)(struct fabric_domain *domain, int fd, uint64_t offset,
			     void *addr, size_t bytes,
			     struct fabric_local_mr **ret_region);
	void (*dereg_mr)(struct fabric_local_mr *region);

	/* `depth`: sum of the depths of all its channels. */
	int (*cq_create)(struct fabric_domain *domain, unsigned depth,
			 struct fabric_cq **ret_cq);
	/* Free its channels first. */
	void (*cq_free)(struct fabric_cq *cq);
	/* Readable, after cq_arm(), when poll() may return completions. */
	int (*cq_fd)(const struct fabric_cq *cq);
	/* Make the descriptor readable at the next completion, and not readable now.  Then call
	 * poll() once more, for completions that arrived in between. */
	int (*cq_arm)(struct fabric_cq *cq);

	/* Connect; blocks at most timeout_ms.  -EACCES or another error of the server, -ETIMEDOUT,
	 * -ECONNREFUSED ...  [any]; the channel then belongs to the owner of cq. */
	int (*connect)(struct fabric_cq *cq, const struct fabric_channel_params *params,
		       struct fabric_channel **ret_channel);
	/* Prepare up to n operations, each `stride` bytes after the previous one, for the next
	 * post(); returns the number prepared, less than n when the channel is full.  Between
	 * prepare and post() only more prepare calls are allowed on the channel, and no
	 * poll(). */
	unsigned (*prepare)(struct fabric_channel *channel,
			    const struct fabric_batch *batch,
			    const struct fabric_op *ops, size_t stride, unsigned n);
	/* Prepare one read or write with up to sge_max() scatter/gather elements instead of
	 * the op's addr and the batch's region.  Returns 1, or 0 when the channel is full.
	 * NULL if sge_max() is 1.
	 *   -ENOMEM  first such operation of a channel */
	int (*prepare_sges)(struct fabric_channel *channel,
			    const struct fabric_batch *batch,
			    const struct fabric_op *op, const struct fabric_sge *sges,
			    unsigned n);
	/* Prepare one atomic; the old value goes to the op's addr.  Returns 1, or 0 when the
	 * channel is full.
	 *   -EINVAL   the address is not a multiple of FABRIC_ATOMIC_BYTES
	 *   -ENOTSUP  see domain_supports() */
	int (*prepare_atomic)(struct fabric_channel *channel,
			      const struct fabric_batch *batch,
			      const struct fabric_op *op,
			      const struct fabric_atomic *atomic);
	/* Limit of outstanding in-band requests per channel; its depth may be lower. */
	unsigned inband_max;
	/* Prepare one in-band request for up to FABRIC_INBAND_BYTES_MAX bytes; 0 for requests
	 * without a range.  The result of FABRIC_CRC goes to the op's addr, a uint32_t that
	 * needs no mr; other requests have no addr.  Returns 1, or 0 when the channel is
	 * full.
	 *   -ENOTSUP  see domain_supports() */
	int (*prepare_inband)(struct fabric_channel *channel,
			      const struct fabric_batch *batch,
			      const struct fabric_op *op,
			      const struct fabric_inband_request *request);
	/* Post all prepared operations; returns the number posted, or -ECONNRESET.  If some
	 * are not posted, they are dropped and the channel is dead: posted operations may not
	 * complete.  Otherwise each operation completes exactly once through poll(). */
	int (*post)(struct fabric_channel *channel);
	/* prepare() one operation and post() it, on a channel with no prepared operations:
	 * 1, or 0 when the channel is full, or -ECONNRESET.  On a channel that was connected
	 * directly a write may have no bytes: it reaches the peer's device, and no memory. */
	int (*post_one)(struct fabric_channel *channel, enum fabric_opcode opcode,
			struct fabric_local_mr *region, const struct fabric_key *key,
			const struct fabric_op *op);
	/* Return up to n completions; never blocks.  After an error other than -EACCES the
	 * channel is dead and all its outstanding operations complete in error. */
	int (*poll)(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n);
	/* All outstanding operations complete in error soon; the local device applies none of
	 * them any more.  [any] while the channel exists. */
	void (*abort)(struct fabric_channel *channel);
	/* Readable when the peer has ended the channel: call alive().  -1: poll() reports
	 * it.  alive() aborts a channel whose peer is gone.  [service thread] */
	int (*alive_fd)(const struct fabric_channel *channel);
	bool (*alive)(struct fabric_channel *channel);
	/* Disconnect and free; unpolled completions are lost. */
	void (*channel_free)(struct fabric_channel *channel);
	/* In the child of a fork(), instead: close this process's copies of the channel's
	 * descriptors, as far as they are the channel's alone.  The connection is the parent's
	 * and goes on. */
	void (*channel_leave)(const struct fabric_channel *channel);
};

extern const struct fabric_client_ops fabric_tcp_client;
extern const struct fabric_client_ops fabric_verbs_client;

#endif
