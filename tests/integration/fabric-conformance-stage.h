/* SPDX-License-Identifier: BSD-3-Clause */
/* A fabric's server and its clients in one process, for the conformance suite: the server
 * on a loop thread of its own, sessions and exposures with what is reported of them, and
 * the few steps of a client that every case takes.  Everything that goes wrong here fails
 * the running case.
 * Threads: the case's own ones; stage_* may be called by any of them. */
#ifndef TESTS_FABRIC_CONFORMANCE_STAGE_H
#define TESTS_FABRIC_CONFORMANCE_STAGE_H

#include "unit/fabric/wr.h"
#include "fabric/fabric.h"

#define RW (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)

#define STAGE_DEPTH 64u /* of a channel, unless the case says otherwise */
#define PARTY_CHANNELS_MAX 8
#define STAGE_WAIT_MS 30000 /* for anything that has to happen */

/* Which fabric is on the stage; set by main() before the cases run. */
struct stage_setting {
	const struct fabric_server_ops *server;
	const struct fabric_client_ops *client;
	struct fabric_address address; /* to listen on and to connect to */
	/* channels are set up without rdma_cm, and the stage is the control connection: it
	 * carries the ends, and tells of their end */
	bool direct;
};
extern struct stage_setting stage_setting;

#define SERVER (stage_setting.server)
#define CLIENT (stage_setting.client)

/* A session, on both sides. */
struct party {
	uint64_t id;
	uint8_t token[FABRIC_TOKEN_BYTES];
	uint32_t next_channel;
	struct fabric_session *session;
	struct fabric_domain *domain;
	struct fabric_cq *cq;
	struct fabric_channel *channels[PARTY_CHANNELS_MAX];
	uint32_t numbers[PARTY_CHANNELS_MAX]; /* theirs; 0: ended at the server */
	/* what the server reported */
	unsigned ups, downs;
	bool closed;
};

/* The server's memory, exposed to one party: bytes in the middle of a larger mapping. */
struct lent {
	struct party *party;
	char *map; /* NULL: it is another's */
	size_t map_bytes;
	char *addr; /* in map, with as much room before and behind it */
	size_t bytes;
	struct fabric_mr *exposure;
	struct fabric_key key;
	/* what the server reported */
	bool exposed, withdrawn;
	int err;
	unsigned notes; /* notifications */
	uint64_t lost;
	uint32_t note;              /* the last one's value, */
	char note_first, note_last; /* and the memory's bytes at that time */
};

/* The client's memory. */
struct local {
	char *addr;
	size_t bytes;
	struct fabric_local_mr *region;
};

/* Start the server / end it without any ceremony.  The fixture of every case. */
void stage_open(void);
void stage_close(void);
/* End the server, early. */
void stage_server_close(void);
const struct fabric_endpoint *stage_endpoint(void);
/* The fabric reports refused writes as done; a read behind them tells. */
bool stage_confirms(void);
struct fabric_endpoint_stats stage_stats(void);
/* Run fn on the loop thread and wait for its return. */
void stage_call(void (*fn)(void *arg), void *arg);

/* A session, its domain and cq; free closes the session and waits for that. */
struct party *party_new(void);
void party_free(struct party *party);
void party_close_session(struct party *party); /* starts it; party->closed follows */
void party_await_closed(struct party *party);
void party_await_ups(struct party *party, unsigned ups);
void party_await_downs(struct party *party, unsigned downs);
/* Connect one more channel; the number is chosen here. */
struct fabric_channel *party_connect(struct party *party, unsigned depth);
int party_try_connect(struct party *party, const struct fabric_hello *hello,
		      struct fabric_channel **ret_channel);
struct fabric_hello party_hello(struct party *party);
/* Every channel ends here. */
void channel_free(struct fabric_channel *channel);

/* Map, fill at random and expose; free withdraws first if that is still to be done. */
struct lent *lent_new(struct party *party, size_t bytes, unsigned rights);
/* Expose the memory of one to another party, too. */
struct lent *lent_share(struct party *party, const struct lent *of);
void lent_withdraw_start(struct lent *lent);
void lent_await_withdrawn(struct lent *lent);
void lent_free(struct lent *lent);
/* Until so many notifications have come, or were lost. */
void lent_await_notes(struct lent *lent, uint64_t n);
/* A copy of the whole mapping, and whether it is still the same. */
char *lent_snapshot(const struct lent *lent);
bool lent_unchanged(const struct lent *lent, const char *snapshot);

struct local *local_new(struct party *party, size_t bytes);
void local_free(struct local *local);

/* An operation between local + from and lent + offset; offset may leave the range. */
struct wr op_make(enum fabric_opcode opcode, const struct local *local, size_t from,
		  const struct lent *lent, int64_t offset, uint32_t bytes);
/* Post all, however often that takes; none may be lost. */
void op_post(struct fabric_channel *channel, const struct wr *wrs, unsigned n);
/* The next completion, sleeping on the descriptors until it comes: as a program does that
 * also looks after its channels. */
struct wc op_await(struct party *party);
/* Post one and return its status. */
int op_run(struct party *party, struct fabric_channel *channel, struct wr wr);
/* Run one that must be refused, and make the channel anew if that has cost it.  With
 * memory that must not change.  Returns the channel to go on with. */
struct fabric_channel *op_run_refused(struct party *party,
				      struct fabric_channel *channel, struct wr wr);

/* Random bytes that depend on the seed alone. */
uint64_t stage_random(uint64_t *seed);
void stage_fill(void *dst, size_t bytes, uint64_t seed);
/* The seed of this run: RMEM_SEED, or a new one, printed. */
uint64_t stage_seed(void);
/* Whether all bytes have this value.  One assertion for each byte costs a system call for
 * each. */
bool stage_all(const char *addr, size_t bytes, char value);
/* How often a case repeats what it repeats @n times by default: RMEM_PERCENT of it. */
unsigned stage_rounds(unsigned n);

#endif
