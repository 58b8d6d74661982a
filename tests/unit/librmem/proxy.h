/* SPDX-License-Identifier: BSD-3-Clause */
/* A proxy between a client and the daemon's core, on loopback, in a thread.  It counts the messages
 * of one control connection, and drops, holds or replaces those that a test names.  A later
 * connection replaces an earlier one. */
#ifndef TESTS_UNIT_PROXY_H
#define TESTS_UNIT_PROXY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "wire/msg.h"

#define PROXY_TYPES 0x100
#define PROXY_HELD 128

struct proxy {
	/* Behaviour that a test sets; 0: none. */
	_Atomic unsigned drop;  /* request type: cut the connection at the next reply */
	_Atomic unsigned hold;  /* request or event type: hold the replies or events */
	_Atomic unsigned delay; /* request type: send the next reply behind another */
	_Atomic unsigned deny;  /* bit mask of endpoints that get no channels */
	atomic_bool mute;       /* drop all requests */
	atomic_bool forget;     /* change the token of sessions that resume */
	/* send the event `changed` before each answer to an attach */
	atomic_bool change;
	/* Edit each message of the server. */
	void (*_Atomic edit)(struct wire_msg *msg);
	/* Results; counters unless noted. */
	int port;
	_Atomic unsigned delayed; /* replies */
	_Atomic unsigned connections;
	_Atomic unsigned seen[PROXY_TYPES]; /* messages, by type */
	_Atomic unsigned resumed;           /* sessions */
	_Atomic unsigned repeated; /* requests of the type whose reply was dropped */
	_Atomic unsigned segments; /* of TCP, received up to the last hello */
	/* The last message of each type.  A request is stored before its reply is sent. */
	struct wire_msg last[PROXY_TYPES];
};
extern struct proxy proxy;

/* Listen at proxy.port, which is constant until the process ends, and connect clients to this port
 * of the core. */
void proxy_start(int core_port);
/* Close everything; the kernel refuses clients from now on. */
void proxy_stop(void);

/* Wait until `count` messages of a type have come, or until *counter is `count`; fails the test
 * after 10 s. */
void proxy_await(unsigned type, unsigned count);
void proxy_await_count(const _Atomic unsigned *counter, unsigned count);

/* Copy the last message of a type, while other messages may come. */
void proxy_last(unsigned type, struct wire_msg *ret_msg);

/* Cut the connection. */
void proxy_cut(void);
/* Send the held messages, and hold no more. */
void proxy_release(void);
/* Answer one request of this type with the number of an errno instead of the server, after `skip`
 * requests have passed; UINT_MAX: each.  Each hello is answered so, and its connection ends.  code
 * 0: no request any more. */
void proxy_fail(unsigned type, int code, unsigned skip);
/* Send the client a message of the test. */
void proxy_send(const struct wire_msg *msg);
/* Send the client an event about a lease or a channel. */
void proxy_event(unsigned type, uint64_t object, unsigned reason);

/* The lease's address and rkey on its first endpoint, as the client has received them. */
unsigned char *proxy_memory(uint64_t lease);
uint64_t proxy_rkey(uint64_t lease);

#endif
