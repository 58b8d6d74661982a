/* SPDX-License-Identifier: BSD-3-Clause */
/* A fabric's server and its clients in one process, for the conformance suite: the server with
 * its loop thread, sessions and memory regions with the events that the server reports, and the
 * steps of a client.  Any error fails the running case.
 * Threads: those of the case; stage_* [any]. */
#ifndef TESTS_FABRIC_CONFORMANCE_STAGE_H
#define TESTS_FABRIC_CONFORMANCE_STAGE_H

#include "unit/fabric/wr.h"
#include "fabric/client.h"
#include "fabric/server.h"

#define RW (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)

#define STAGE_DEPTH 64u /* of a channel, unless the case says otherwise */
#define PARTY_CHANNELS_MAX 8
#define STAGE_WAIT_MS 30000 /* for anything that has to happen */

/* The fabric under test; set by main() before the cases run. */
struct stage_setting {
	const struct fabric_server_ops *server;
	const struct fabric_client_ops *client;
	struct fabric_address address; /* to listen on and to connect to */
	/* channels are set up without rdma_cm; the stage does what the control connection does:
	 * it exchanges the queue pairs, and reports that one end was closed */
	bool direct;
	bool tls; /* channels are under TLS */
};
extern struct stage_setting stage_setting;

#define SERVER (stage_setting.server)
#define CLIENT (stage_setting.client)

/* A session, with its objects at both ends. */
struct party {
	uint64_t id;
	uint8_t token[FABRIC_TOKEN_BYTES];
	uint32_t next_channel;
	struct fabric_session *session;
	struct fabric_domain *domain;
	struct fabric_cq *cq;
	struct fabric_channel *channels[PARTY_CHANNELS_MAX];
	/* numbers of the channels; 0: the server closed it */
	uint32_t numbers[PARTY_CHANNELS_MAX];
	/* reported by the server */
	unsigned ups, downs;
	bool closed;
};

/* Memory of the server, registered for one party: bytes in the middle of a larger mapping. */
struct remote {
	struct party *party;
	char *map; /* NULL: the mapping of another struct remote */
	size_t map_bytes;
	char *addr; /* the middle third of map */
	size_t bytes;
	struct fabric_mr *mr;
	struct fabric_key key;
	/* reported by the server */
	bool registered, deregistered;
	int err;
	unsigned notes; /* notifications */
	uint64_t lost;
	uint32_t note;              /* value of the last notification */
	char note_first, note_last; /* first and last byte of the memory at that time */
};

/* Memory of the client. */
struct local {
	char *addr;
	size_t bytes;
	struct fabric_local_mr *region;
};

/* Start and stop the server; the fixture of every case. */
void stage_open(void);
void stage_close(void);
/* Close the server before the end of the case. */
void stage_server_close(void);
const struct fabric_endpoint *stage_endpoint(void);
/* The device completes refused writes as successful, so the client confirms them by a read. */
bool stage_confirms(void);
struct fabric_endpoint_stats stage_stats(void);
/* Run fn on the loop thread and wait until it returns. */
void stage_call(void (*fn)(void *arg), void *arg);

/* Open a session, its domain and cq.  party_free() closes the session and waits for that. */
struct party *party_new(void);
void party_free(struct party *party);
/* Start to close the session; the server then sets party->closed. */
void party_close_session(struct party *party);
void party_await_closed(struct party *party);
void party_await_ups(struct party *party, unsigned ups);
void party_await_downs(struct party *party, unsigned downs);
/* Connect one more channel, with the next number. */
struct fabric_channel *party_connect(struct party *party, unsigned depth);
int party_try_connect(struct party *party, const struct fabric_hello *hello,
		      struct fabric_channel **ret_channel);
struct fabric_hello party_hello(struct party *party);
/* Free a channel; direct channels are closed at the server, too. */
void channel_free(struct fabric_channel *channel);

/* Map memory, fill it at random and register it.  remote_free() deregisters it if needed. */
struct remote *remote_new(struct party *party, size_t bytes, unsigned rights);
/* Register the memory of `of` for another party. */
struct remote *remote_share(struct party *party, const struct remote *of);
void remote_deregister(struct remote *remote);
void remote_await_deregistered(struct remote *remote);
void remote_free(struct remote *remote);
/* Wait until n notifications have come or were lost. */
void remote_await_notes(struct remote *remote, uint64_t n);
/* A copy of the whole mapping; whether the mapping still equals it. */
char *remote_snapshot(const struct remote *remote);
bool remote_unchanged(const struct remote *remote, const char *snapshot);

struct local *local_new(struct party *party, size_t bytes);
void local_free(struct local *local);

/* An operation between local + from and remote + offset; offset may leave the range. */
struct wr op_make(enum fabric_opcode opcode, const struct local *local, size_t from,
		  const struct remote *remote, int64_t offset, uint32_t bytes);
/* Post all requests; each call must take at least one. */
void op_post(struct fabric_channel *channel, const struct wr *wrs, unsigned n);
/* The next completion.  Sleeps on the descriptors of the cq and of the channels, as librmem
 * does. */
struct wc op_await(struct party *party);
/* Post one request and return its status. */
int op_run(struct party *party, struct fabric_channel *channel, struct wr wr);
/* Run a request that must be refused; returns a channel to go on with, a new one if the refusal
 * broke the old one. */
struct fabric_channel *op_run_refused(struct party *party,
				      struct fabric_channel *channel, struct wr wr);

/* What most cases need: a party with one channel and memory at both ends. */
struct scene {
	struct party *party;
	struct fabric_channel *channel;
	struct remote *remote;
	struct local *local;
};

struct scene scene_open(size_t remote_bytes, unsigned rights, size_t local_bytes);
void scene_close(struct scene *scene);
/* op_make(), op_run() and op_run_refused() with the objects of a scene. */
struct wr scene_op(const struct scene *scene, enum fabric_opcode opcode, size_t from,
		   int64_t offset, uint32_t bytes);
int scene_run(struct scene *scene, struct wr wr);
void scene_run_refused(struct scene *scene, struct wr wr);

/* Random bytes that depend only on the seed. */
uint64_t stage_random(uint64_t *seed);
void stage_fill(void *dst, size_t bytes, uint64_t seed);
/* The seed of this run: RMEM_SEED, or a new one; printed. */
uint64_t stage_seed(void);
/* Whether all bytes have this value.  An assertion for each byte would cost a system call each. */
bool stage_all(const char *addr, size_t bytes, char value);
/* The number of repetitions: RMEM_PERCENT per cent of n. */
unsigned stage_rounds(unsigned n);

#endif
