/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of the fake fabric.  The daemon admits channels.  A key works from its
 * registration until it is dead, for its session, range and rights; both take no time, but for
 * the hooks of the test.  A daemon that breaks the contract of fabric/server.h ends the program. */
#ifndef TESTS_UNIT_FAKE_SERVER_H
#define TESTS_UNIT_FAKE_SERVER_H

#include "base/list.h"
#include "fabric/server.h"
#include "wire/msg.h"

struct fake_wr;

extern const struct fabric_server_ops fake_verbs_server, fake_tcp_server;
/* What a server that is opened serves, of both kinds. */
extern struct fabric_endpoint fake_endpoints[WIRE_ENDPOINTS_MAX];
extern unsigned n_fake_endpoints;

struct fabric_server {
	struct list link;
	const struct fabric_server_events *events;
	void *ctx;
	enum fabric_kind kind;
	int fd;
	const struct fabric_endpoint *endpoints;
	unsigned n_endpoints;
	struct list asking; /* channels that are not admitted yet */
};

struct fabric_session {
	struct list link; /* in fake_sessions */
	struct fabric_server *server;
	void *cookie;
	bool closing;
	uint64_t until_ns; /* of session_extend(); 0: none yet */
	uint64_t refused;  /* accesses that wait to be told */
	unsigned n_mrs;
	struct list channels;
};

struct server_channel {
	struct list link;
	struct fabric_server *server;
	struct fabric_session *session; /* NULL: it is not admitted yet */
	unsigned endpoint;
	struct fabric_hello hello;
	void *client; /* a fabric_channel, or what the hooks have; NULL: it has left */
	uint32_t number;
	uint32_t qpn;    /* the client's; 0: connected by rdma_cm, or TCP */
	const char *why; /* of channel_down() */
};

enum fake_mr_state { FAKE_MR_PENDING, FAKE_MR_LIVE, FAKE_MR_DYING, FAKE_MR_DEAD };

struct fabric_mr {
	struct list link; /* in fake_mrs */
	struct fabric_session *session;
	void *cookie;
	char *addr;
	size_t bytes;
	unsigned rights;
	uint64_t rkey;
	enum fake_mr_state state;
	int err;          /* of its registration, to be told */
	bool event;       /* process() tells it */
	unsigned n_notes; /* notifications that wait to be told, and the last one */
	uint32_t note;
	/* for the test: when the state changes; where the range is in its lease, and the least
	 * length of its segment since the key is dying; whether a client has the key */
	uint64_t due_ns, lease, offset, used;
	bool known;
};

/* Of all servers, in the order in which they were opened and registered. */
extern struct list fake_sessions, fake_mrs;

/* What the test decides when the daemon calls; each may be NULL.  A negative result is the error
 * of the call. */
struct fake_server_hooks {
	void (*at_open)(struct fabric_server *server);
	int (*at_session_open)(void);
	void (*at_session_close)(void);
	/* 0: the key is live; 1: it is pending; with the err that the test gives it */
	int (*at_reg)(struct fabric_mr *mr);
	/* True: it dies later, or, if the test sets its state to FAKE_MR_DEAD, its event is
	 * outstanding. */
	bool (*at_dereg)(struct fabric_mr *mr);
	int (*at_channel_close)(void);
	/* A channel is connected directly.  1: the test reports it. */
	int (*at_channel_connect)(const struct fabric_qp_info *theirs);
	/* A client reaches memory. */
	void (*at_access)(const struct server_channel *channel,
			  const struct fabric_mr *mr, char *addr, uint64_t bytes);
	/* The client's end is admitted, or refused with err; the server's end is gone.  Both, or
	 * neither. */
	void (*admitted)(void *client, int err);
	void (*gone)(void *client);
};
extern struct fake_server_hooks fake_server_hooks;

/* ---- for clients that the hooks have ---- */

/* Ask the server of this endpoint to admit a channel; NULL: it is not open. */
struct server_channel *fake_server_ask(const struct fabric_endpoint *to,
				       const struct fabric_hello *hello, void *client);
/* The client's end has left, as the daemon will be told. */
void fake_server_leave(struct server_channel *channel, const char *why);
/* Whether the keys of the operation permit it. */
bool fake_server_allows(const struct server_channel *channel, const struct fake_wr *wr);
/* process() has work. */
void fake_server_wake(const struct fabric_server *server);

/* ---- for tests, on the daemon's thread ---- */

/* End all sessions without events. */
void fake_server_clear(struct fabric_server *server);
/* NULL: no mr has this key. */
struct fabric_mr *fake_mr_find(uint64_t rkey);
/* Whether a client can use it, if it has the key. */
bool fake_mr_works(const struct fabric_mr *mr);
/* Tell the daemon of the next event of an mr; it may be freed. */
void fake_mr_tell(struct fabric_mr *mr);
/* The session is closed, as the daemon can be told. */
bool fake_session_is_closed(const struct fabric_session *session);
void fake_session_tell(struct fabric_session *session);
/* Report a notification through this key to the daemon. */
void fake_server_notify(uint64_t rkey, uint32_t value, uint32_t lost);
/* Replace this key by another one, as if the daemon had registered the memory again, without an
 * event to clients. */
void fake_server_replace_key(uint64_t rkey);
/* End an RDMA channel and report it only to the daemon. */
void fake_server_end_channel(uint32_t number);

#endif
