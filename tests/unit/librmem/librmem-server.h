/* SPDX-License-Identifier: BSD-3-Clause */
/* A server on loopback, in a thread, that speaks the control protocol as the test wants.
 * Its leases are memory of this process, so that the fake fabric reaches them. */
#ifndef TESTS_UNIT_LIBRMEM_SERVER_H
#define TESTS_UNIT_LIBRMEM_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "wire/msg.h"

#define SERVER_NODE 3 /* on which all memory lies */
#define SERVER_LEASES 80
#define SERVER_LEASE_BYTES 65536
#define SERVER_TYPES 0x100

struct server_lease {
	uint64_t id; /* 0: none */
	uint64_t bytes;
	unsigned rights;
	bool attached;
	uint8_t placement; /* as asked for; in stripes it lies on the node before, too */
	int node;
	char name[WIRE_NAME_MAX + 1];
	_Alignas(8) unsigned char memory[SERVER_LEASE_BYTES];
};

/* All under the lock, but for what is atomic. */
struct server {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a request came */
	int port;
	/* what happened */
	_Atomic unsigned seen[SERVER_TYPES]; /* requests, by type */
	_Atomic unsigned connections, resumed;
	_Atomic unsigned done;     /* requests that change something */
	_Atomic unsigned repeated; /* those asked again, which were not done again */
	unsigned atomic_device_endpoint; /* of the last fix_home */
	uint32_t joined_channel;         /* of the last join_channel */
	uint32_t granted_channel;        /* with the last welcome */
	uint32_t closed_channel;         /* of the last close_channel */
	char device[WIRE_LABEL_MAX + 1]; /* of the last allocate */
	unsigned reach;                  /* of that, or of the last attach or resize */
	unsigned wanted;    /* the fabric the last hello wanted a channel of */
	uint32_t hello_qpn; /* the end that came with the last hello; 0: none */
	unsigned segments;  /* that had come over the connection with the last hello */
	uint64_t rkey;      /* of the keys given now; rises with each resume */
	struct server_lease leases[SERVER_LEASES];
	/* what it is to do */
	struct wire_welcome welcome;
	struct wire_channel
		where; /* what open_channel is answered with, but for the number */
	struct wire_home atomic_device; /* what fix_home is answered with */
	unsigned keyless;       /* endpoints, a bit each, that there are no keys for */
	uint8_t through;        /* those that memory is lent through, a bit each */
	unsigned deny;          /* those that no channel is opened to */
	bool mute;              /* read, but do not answer */
	bool forget;            /* know no session */
	int refuse;             /* the hello, with this errno; 0: welcome */
	bool grants;            /* a new session gets a channel with the welcome */
	uint8_t grant_endpoint; /* through this one */
	bool joins;             /* and joins it, where the client's end comes along */
	unsigned drop_on;  /* close the connection instead of answering this, once */
	unsigned delay_on; /* answer this only after the next request */
	unsigned hold_on;  /* answer this only when told to */
	unsigned fail_on;  /* answer this with fail_errno, fail_skip times not */
	int fail_errno;
	unsigned fail_skip;
	bool list_twice; /* list the same page again and again */
};
extern struct server server;

void server_start(void);
void server_stop(void);
/* Another one takes the place of one that was stopped, at the same port; it knows the session,
 * unless it is told to forget. */
void server_restart(void);

/* Change something with the server's thread out of the way. */
void server_lock(void);
void server_unlock(void);
/* Wait until that many requests of a type have come; fails the test after 10 s. */
void server_await(unsigned type, unsigned count);
/* Wait until *counter has reached count. */
void server_await_count(const _Atomic unsigned *counter, unsigned count);
/* Answer what was held, and hold no more. */
void server_release(void);
/* Close the connection. */
void server_hang_up(void);
/* Send n notifications of a lease, with values from `value` on, `lost` before the first. */
void server_notify(uint64_t lease, uint32_t value, unsigned n, uint32_t lost);
/* Want so many bytes of a lease back within `wait_ms`. */
void server_want(uint64_t lease, uint64_t bytes, uint64_t wait_ms, bool revoke);
/* Send an event. */
void server_event(unsigned type, uint64_t lease, unsigned reason);

#endif
