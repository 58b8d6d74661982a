/* SPDX-License-Identifier: BSD-3-Clause */
/* A client fabric under the control of the test, which reads the posted operations and chooses
 * their status and the order of completion.  It replaces fabric_tcp_client (local memory need
 * not be registered) and fabric_verbs_client (registered memory only).  Remote addresses are
 * addresses of this process. */
#ifndef TESTS_UNIT_FAKE_FABRIC_H
#define TESTS_UNIT_FAKE_FABRIC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "fabric/client.h"
#include "fabric/server.h"

#define FAKE_MAX_BYTES 8192u
#define FAKE_POSTED_MAX 512u
#define FAKE_SESSIONS 16u
#define FAKE_REQUESTS 3u /* limit of in-band requests on a channel */

struct fabric_domain {
	struct fabric_endpoint endpoint;
	_Atomic unsigned objects; /* memory regions and cqs in it */
	struct list cqs;          /* under the lock */
};

struct fabric_local_mr {
	struct fabric_domain *domain;
	unsigned char *addr;
	size_t bytes;
	/* a dma-buf: where the fake device has it; NULL: at addr */
	unsigned char *at_device;
};

struct fabric_cq {
	struct fabric_domain *domain;
	struct list in_domain;
	int fd;
	bool direct;
	unsigned n, max; /* completions to be polled, and their limit */
	struct fabric_wc *wcs;
};

/* A prepared or posted operation. */
struct fake_wr {
	enum fabric_opcode opcode;
	uint32_t bytes;
	void *addr;
	const struct fabric_local_mr *mr; /* NULL: unregistered memory */
	uint64_t remote_addr, rkey;
	struct fabric_atomic atomic;
	struct fabric_inband_request request;
	struct fabric_sge sges[8]; /* of n_sges elements, if that is not 0 */
	unsigned n_sges;
};

struct fabric_channel {
	struct fabric_channel *next; /* in fake.channels */
	struct fabric_cq *cq;
	struct fabric_hello hello;
	int alive_fd;
	bool aborted, peer_gone;
	uint32_t qpn;    /* 0: connected by rdma_cm, or TCP */
	void *peer;      /* the server's side; NULL: none, or ended */
	int connect_err; /* for the server's side */
	void *owner;
	unsigned depth, n, n_put;
	uint32_t inline_max; /* of writes that need no mr */
	/* n posted operations in order, then n_put prepared ones */
	struct fake_wr posted[FAKE_POSTED_MAX];
};

/* The server's side of the fabric; all but connect() are called under the lock. */
struct fake_server_side {
	/* Connect the channel; blocks. */
	int (*connect)(struct fabric_channel *channel,
		       const struct fabric_channel_params *params);
	/* End the channel; sets `peer` to NULL. */
	void (*disconnect)(struct fabric_channel *channel);
	/* Whether the operation's rkeys are valid. */
	bool (*allows)(const struct fabric_channel *channel, const struct fake_wr *wr);
	/* Take the operation, and call wire_complete() when it was executed, or failed.  NULL:
	 * the fake executes what is allowed. */
	void (*post)(struct fabric_channel *channel, const struct fake_wr *wr);
	/* The client has aborted the channel; or NULL. */
	void (*abort)(struct fabric_channel *channel);
};

/* Settings of the test, and counters. */
struct fake {
	pthread_mutex_t lock;
	const struct fake_server_side *server; /* NULL: any address of this process */
	_Atomic int live;                      /* number of objects of all kinds */
	struct fabric_channel *channels;       /* latest first; under the lock */
	_Atomic unsigned connects, aborts, posts;
	/* behaviour */
	atomic_bool automatic; /* operations complete when they are posted */
	/* RDMA devices exchange no packets: nothing is connected, except directly, and nothing
	 * completes */
	atomic_bool black_hole;
	atomic_bool lose_answers; /* of atomics, which are executed and succeed */
	atomic_bool hold_flush;   /* aborted channels flush only by fake_flush() */
	/* the next longer post executes only this number of operations, reports no completion,
	 * and breaks the channel; 0: off */
	unsigned post_max;
	_Atomic unsigned slow_ms;              /* time to connect or to open a domain */
	_Atomic unsigned tried[FAKE_SESSIONS]; /* connects, by the session's id */
	_Atomic int available_err, domain_err, connect_err, mr_err, cq_err, rdma_cq_err,
		poll_err;
	/* the server's device whose counterpart on this host is removed; "": none */
	char removed[FABRIC_DEVICE_MAX];
	_Atomic unsigned disassociations, opens, closes; /* of domains */
	/* looks for removed devices: in each turn of the driver */
	_Atomic unsigned looks;
	_Atomic unsigned arms;         /* of cqs: in each turn of a wait */
	bool holds_device;             /* a left domain still holds its device */
	struct fabric_endpoint opened; /* of the domain opened last */
	_Atomic unsigned cancels;      /* calls that ended before their time-out */
	_Atomic unsigned connect_timeout_ms; /* of the last connect() */
	_Atomic unsigned domain_timeout_ms;  /* for the domain opened last */
	unsigned sge_max;                    /* of every domain */
	uint32_t max_bytes;  /* of an operation, at least FAKE_MAX_BYTES */
	uint32_t inline_max; /* of every channel; verbs only */
	char no_atomics[FABRIC_DEVICE_MAX]; /* the server's device without atomics */
	char no_inband[FABRIC_DEVICE_MAX];  /* without in-band requests */
	char silent[FABRIC_DEVICE_MAX];     /* device that no channel reaches */
	/* called when domain_supports() is asked for atomics; or NULL */
	void (*at_able)(void);
	/* called by every connect(), which fails with its error; or NULL */
	int (*at_connect)(void);
	/* called by every registration, which fails with its error; or NULL */
	int (*at_reg_mr)(void);
	/* called, with the channel's owner, when an operation is prepared; or NULL */
	void (*at_prepare)(const void *owner);
	/* the error of every registration of a dma-buf; and how often, and from which descriptor
	 * and offset, they were */
	int dmabuf_err;
	_Atomic unsigned dmabufs;
	int dmabuf_fd;
	uint64_t dmabuf_offset;
	int inband_err;    /* of every prepare_inband() */
	uint32_t notified; /* value of the last notification */
	unsigned notifications;
	struct fabric_client_params params; /* of the domain opened last */
	_Atomic uint32_t joined_qpn;        /* the server's, in the last exchange() */
	_Atomic uint64_t refused_rkey;      /* `automatic` refuses it; 0: none */
	struct fake_late *late;             /* latest first; under the lock */
};
extern struct fake fake;

/* Restore the defaults. */
void fake_reset(void);
/* The channel that was connected last. */
struct fabric_channel *fake_latest(void);
/* Complete the oldest operation on a channel. */
void fake_complete(struct fabric_channel *channel, int status);
/* Report that the channel is to be replaced. */
void fake_wear_out(struct fabric_channel *channel);
/* Complete everything posted on every channel. */
void fake_complete_all(void);
/* Apply a write that was flushed from a channel of this owner, as a late packet does. */
void fake_apply_late(const void *owner);
/* Drop these writes: the queue pair is dead at the peer.  NULL: those of all owners. */
void fake_drop_late(const void *owner);
/* The port of the domain that was opened last. */
unsigned fake_opened_port(void);
/* Flush an aborted channel. */
void fake_flush(struct fabric_channel *channel);
/* The peer ends the channel. */
void fake_peer_gone(struct fabric_channel *channel);

#endif
