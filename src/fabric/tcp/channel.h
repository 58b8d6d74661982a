/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's end of a stream: a ring of operations, which are sent and answered in the order
 * they were posted.  client.c opens streams and polls completion queues.
 * Threads: [owner] of the queue, unless said otherwise. */
#ifndef FABRIC_TCP_CHANNEL_H
#define FABRIC_TCP_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/list.h"
#include "fabric/client.h"
#include "fabric/inband.h"
#include "fabric/tcp/stream.h"
#include "tls/pipe.h"

struct fabric_domain {
	struct fabric_address address;
	bool atomics, inband;    /* the server supports them */
	struct tls_context *tls; /* of the streams; NULL: without TLS */
};

/* An epoll set of the channels' sockets, and a list of channels with completions that need no
 * socket. */
struct fabric_cq {
	const struct fabric_domain *domain;
	int epoll_fd;
	pthread_mutex_t lock;
	struct list channels; /* under the lock */
	struct list ready;
	atomic_uint n_channels;
	/* the last one that operations were posted on; NULL: it is freed.  A thread that frees
	 * one without operations looks at it too */
	struct fabric_channel *_Atomic used;
};

#define TCP_ANSWERS_BYTES 16384u /* received at once, without large payloads */
#define TCP_SLICES_MAX 8u        /* of the local memory of one operation */

struct tcp_op {
	/* as on the wire; the cookie is the sequence number */
	struct stream_request request;
	union { /* after the request, of an atomic or in-band request */
		struct stream_atomic atomic;
		struct inband_operands operands;
	};
	uint64_t result; /* of an in-band request, as on the wire */
	union {
		uint32_t *crc;        /* FABRIC_CRC: for the result */
		struct iovec *slices; /* of a read or write without addr: n_slices */
	};
	char *payload; /* sent after the request; NULL: what the slices have is */
	uint32_t payload_bytes;
	uint32_t n_slices;
	char *addr; /* for the response's payload; NULL: it goes to the slices */
	uint32_t bytes;
	enum fabric_opcode opcode;
};

struct fabric_channel {
	struct fabric_cq *cq;
	struct list node;     /* cq->channels */
	void *owner;          /* returned in its completions */
	int fd;               /* in the set of the cq, until the stream ends */
	ino_t inode;          /* of the socket */
	uint64_t look_ns;     /* when to look again whether it is the channel's */
	struct tls_pipe *tls; /* NULL: none, or the kernel does it */
	bool in_kernel;       /* TLS */
	struct list ready;    /* cq->ready */
	uint32_t interest;    /* registered EPOLL* */
	/* for alive(); set by the owner or by abort(), never cleared */
	atomic_bool dead;
	atomic_bool aborted;
	/* dead: the status of operation `culprit`, if it is outstanding, and of all other
	 * operations */
	uint64_t culprit;
	int culprit_status, flush_status;
	const char *culprit_text, *flush_text;
	int send_err; /* first error of sending, until poll() handles it */
	/* sequence numbers: not answered from head on, not sent from next on, not posted
	 * from tail on */
	uint64_t head, next, tail, put;
	/* Under TLS: records of each direction that one connection may have.  Those that were
	 * sent; those received are not seen, and are about one for each response and for so many
	 * bytes. */
	uint64_t records_max, records_sent, received_bytes;
	bool worn;   /* poll() has reported it */
	size_t sent; /* of operation `next`, including its request */
	/* receiving */
	char *place;          /* of the payload being received */
	char *tried;          /* end of the part that is known to be there */
	uint32_t left;        /* of this payload, or of its slice; 0: none */
	unsigned slices_left; /* of this payload, behind that slice */
	/* bytes of the payloads behind it that are in their places; none between calls */
	size_t ahead;
	/* received and not handled: of the buffer, or of the row */
	char *answers, *answers_end;
	char *row; /* of answers that had to be rearranged; or NULL */
	char buffer[TCP_ANSWERS_BYTES];
	/* TCP_SLICES_MAX for each operation; NULL: none has had any */
	struct iovec *slices;
	unsigned depth;
	struct tcp_op ops[]; /* ring */
};

/* Functions of fabric_client_ops. */
int tcp_domain_supports(const struct fabric_domain *domain,
			enum fabric_capability capability); /* [any] */
unsigned tcp_channel_prepare(struct fabric_channel *ch,
			     const struct fabric_batch *batch,
			     const struct fabric_op *parts, size_t stride, unsigned n);
int tcp_channel_prepare_sges(struct fabric_channel *ch,
			     const struct fabric_batch *batch,
			     const struct fabric_op *part,
			     const struct fabric_sge *sges, unsigned n);
int tcp_channel_prepare_atomic(struct fabric_channel *ch,
			       const struct fabric_batch *batch,
			       const struct fabric_op *part,
			       const struct fabric_atomic *atomic);
int tcp_channel_prepare_inband(struct fabric_channel *ch,
			       const struct fabric_batch *batch,
			       const struct fabric_op *part,
			       const struct fabric_inband_request *request);
int tcp_channel_post(struct fabric_channel *ch);
int tcp_channel_post_one(struct fabric_channel *ch, enum fabric_opcode opcode,
			 struct fabric_local_mr *region, const struct fabric_key *key,
			 const struct fabric_op *part);
void tcp_channel_abort(struct fabric_channel *ch); /* [any] */
/* How long a look at a descriptor counts: less would be felt by operations. */
#define TCP_LOOK_NS (10 * NS_PER_MS)
/* Whether the socket is still the channel's. */
bool tcp_channel_has_socket(struct fabric_channel *ch);
/* Close it, if it is. */
void tcp_channel_close(const struct fabric_channel *ch);

/* Send and receive without waiting; returns the completions written to wcs. */
unsigned tcp_channel_progress(struct fabric_channel *ch, struct fabric_wc *wcs,
			      unsigned n);
/* Report completions that need no socket; the channel leaves cq->ready after the last one. */
unsigned tcp_channel_report(struct fabric_channel *ch, struct fabric_wc *wcs,
			    unsigned n);

#endif
