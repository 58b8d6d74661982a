/* SPDX-License-Identifier: BSD-3-Clause */
/* A client fabric whose wire is the test: it sees what was posted, and says how and in
 * which order it completes.  It stands in for fabric_tcp_client (takes any memory) and
 * fabric_verbs_client (takes registered memory).  Remote addresses are addresses of this
 * process. */
#ifndef TESTS_UNIT_FAKE_FABRIC_H
#define TESTS_UNIT_FAKE_FABRIC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "fabric/fabric.h"

#define FAKE_MAX_BYTES 8192u
#define FAKE_POSTED_MAX 512u
#define FAKE_SESSIONS 16u
#define FAKE_REQUESTS 3u /* in-band ones on a channel */

struct fabric_domain {
	struct fabric_endpoint endpoint;
	_Atomic unsigned objects; /* in it */
};

struct fabric_local_mr {
	struct fabric_domain *domain;
	unsigned char *addr;
	size_t bytes;
};

struct fabric_cq {
	struct fabric_domain *domain;
	int fd;
	bool direct;
	unsigned n, max; /* completions to be polled; `max` is its depth */
	struct fabric_wc *wcs;
};

/* An operation as it was put. */
struct fake_wr {
	enum fabric_opcode opcode;
	uint32_t bytes;
	void *addr;
	const struct fabric_local_mr *region;
	uint64_t remote_addr, rkey;
	struct fabric_atomic atomic;
	struct fabric_inband_request request;
	struct fabric_sge slices[8]; /* several: addr is NULL */
	unsigned n_slices;
};

struct fabric_channel {
	struct fabric_channel *next; /* in fake.channels */
	struct fabric_cq *cq;
	struct fabric_hello hello;
	int alive_fd;
	bool aborted, peer_gone;
	void *owner;
	unsigned depth, n, n_put;
	struct fake_wr
		posted[FAKE_POSTED_MAX]; /* in order; n_put more are put behind */
};

/* What the test sets and sees. */
struct fake {
	pthread_mutex_t lock;
	_Atomic int live;                /* objects of all kinds */
	struct fabric_channel *channels; /* latest first; under the lock */
	_Atomic unsigned connects, aborts, posts;
	_Atomic unsigned singles; /* of the posts, post_one() */
	/* behaviour */
	atomic_bool automatic;  /* what is posted completes at once */
	atomic_bool hold_flush; /* aborted channels flush only by fake_flush() */
	/* the next post of more takes so many, whose end is never told, and breaks the
	 * channel; 0: no */
	unsigned post_max;
	_Atomic unsigned slow_ms; /* what connecting and opening a domain take */
	_Atomic unsigned tried[FAKE_SESSIONS]; /* connects, by the session's id */
	_Atomic int available_err, domain_err, connect_err, region_err, cq_err,
		rdma_cq_err, poll_err;
	/* the server's device to which this host's is being removed, or not there any more */
	char removed[FABRIC_DEVICE_MAX];
	_Atomic unsigned cuts, closes;      /* of domains */
	bool clings;                        /* a device stays behind its domain */
	struct fabric_endpoint opened;      /* of the domain opened last */
	unsigned sge_max;                   /* of every domain */
	char no_atomics[FABRIC_DEVICE_MAX]; /* the server's device that has none */
	char no_inband[FABRIC_DEVICE_MAX];  /* likewise */
	void (*at_able)(void); /* is called when somebody asks for atomics; or NULL */
	int (*at_connect)(
		void);     /* is called by every connect, and may fail it; or NULL */
	int request_err;   /* of every prepare_inband() */
	uint32_t notified; /* the last notification's value */
	unsigned notifications;
	struct fabric_client_params params; /* of the domain opened last */
	_Atomic uint32_t joined_qpn; /* what a server said last, where that is asked */
	_Atomic uint64_t refused_rkey; /* automatic: refuse this key; 0: none */
	struct fake_late *late;        /* latest first; under the lock */
};
extern struct fake fake;

/* Back to the start. */
void fake_reset(void);
/* The channel connected last. */
struct fabric_channel *fake_latest(void);
/* End the oldest operation on a channel. */
void fake_complete(struct fabric_channel *channel, int status);
/* Complete everything posted on every channel. */
void fake_complete_all(void);
/* Apply one of the writes that were flushed from channels of this owner, as a packet that
 * was still under way; and forget them, as their queue pair is dead at the peer. */
void fake_apply_late(const void *owner);
void fake_forget_late(const void *owner);
/* Of the domain that was opened last. */
unsigned fake_opened_port(void);
/* Complete what is outstanding on an aborted channel. */
void fake_flush(struct fabric_channel *channel);
/* The peer ends the channel. */
void fake_peer_gone(struct fabric_channel *channel);

#endif
