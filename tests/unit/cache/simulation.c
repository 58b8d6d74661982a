/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/cache/simulation.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache/evict.h"
#include "cache/parts.h"
#include "cache/work.h"
#include "unit/cache/fake-memory.h"
#include "unit/cache/history.h"

#define CLIENTS_MAX 4
#define OUTSTANDING_MAX 3
#define KEYS_MAX 20
#define SAME_KEYS 3
#define STEP_MS 137 /* a claim lives for some 220 steps */
#define FENCE_MS (60 * STEP_MS)
#define GRACE_MS (240 * STEP_MS)
#define CLAIM_MS 30000u
#define REST_MS (FENCE_MS + GRACE_MS + 20 * STEP_MS)
#define VALUE_WORDS_MAX 24
#define PATIENCE \
	200000 /* steps in which everything ends when nothing goes wrong any more */

struct client;

struct asked {
	struct request request;
	struct client *client;
	size_t event;
	uint64_t value[VALUE_WORDS_MAX];
	bool busy;
};

struct client {
	struct simulation *simulation;
	struct server server;
	struct fake_queue queue;
	struct scratch *scratch;
	struct asked asked[OUTSTANDING_MAX];
	bool open, stopped, fenced;
	unsigned stop_left, stop_steps;
};

struct simulation {
	const struct mix *mix;
	struct totals *totals;
	struct fake_memory memory;
	struct geometry geometry;
	struct history history;
	struct client clients[CLIENTS_MAX];
	unsigned n_clients, n_keys, n_started;
	char keys[KEYS_MAX][12];
	uint64_t random, next_value, steps;
	unsigned lose_share, stop_share, kill_share; /* per 10,000 steps */
	unsigned words_a_step;
	bool late;
	bool calm; /* nothing goes wrong any more */
	const char *failure;
	char text[200];
};

static uint64_t now_ns;

static uint64_t simulated_now(void)
{
	return now_ns;
}

static uint64_t draw(struct simulation *s, uint64_t below)
{
	return random_next(&s->random) % below;
}

static bool chance(struct simulation *s, unsigned share)
{
	return draw(s, 10000) < share;
}

static void failed(struct simulation *s, const char *what)
{
	if (s->failure)
		return;
	(void)snprintf(s->text, sizeof(s->text), "step %llu: %s",
		       (unsigned long long)s->steps, what);
	s->failure = s->text;
}

/* ---- values ---- */

/* Each word has the key, the put, its place and their number. */
static uint64_t value_word(unsigned key, uint64_t value, unsigned i, unsigned n)
{
	return value << 24 | (uint64_t)key << 16 | i << 8 | n;
}

static unsigned value_words(const struct simulation *s, unsigned key, uint64_t value)
{
	static const unsigned words[] = { 1, 2, 2, 3, 8, 9, 20 };

	if (s->mix->immutable)
		return words[key % 7];
	return words[value % 7];
}

/* The value that the words are of; 0: they are wrong. */
static uint64_t value_of(struct simulation *s, unsigned key, const uint64_t *words,
			 uint64_t bytes)
{
	uint64_t value = words[0] >> 24;
	unsigned n = (unsigned)(bytes / 8);

	if (bytes != 8ull * value_words(s, key, value))
		return 0;
	for (unsigned i = 0; i < n; i++)
		if (words[i] != value_word(key, value, i, n))
			return 0;
	return value;
}

/* ---- the memory ---- */

static bool slot_at(const struct simulation *s, uint64_t offset)
{
	return offset >= s->geometry.buckets_at && offset < s->geometry.heap_at &&
	       (offset - s->geometry.buckets_at) % FORMAT_BUCKET_BYTES <
		       FORMAT_HINTS_AT;
}

/* A slot was published: its block is whole, or its segment is another's already. */
static void published(struct fake_memory *memory, uint64_t offset, uint64_t word)
{
	struct simulation *s = memory->ctx;
	const struct geometry *g = &s->geometry;
	const unsigned char *at;
	struct segment segment;
	struct block block;

	if (!slot_at(s, offset) || !slot_is_final(word))
		return;
	segment = segment_decode(word_read(
		memory->bytes +
		geometry_word_at(geometry_place_segment(g, slot_place(word)))));
	if (slot_behind(word, segment.generation) != 0)
		return;
	at = memory->bytes + geometry_place_at(g, slot_place(word));
	if (block_decode(g, at, FORMAT_HEAD_MAX, word, &block) &&
	    block_value_crc(g, at + block_value_at(block.key_bytes),
			    block_part_bytes(g, &block)) == block.value_crc)
		return;
	s->totals->damaged++;
	if (s->mix->quiet)
		failed(s, "published before it was written");
}

static void memory_init(struct simulation *s)
{
	struct geometry g = {
		.immutable = s->mix->immutable,
		.segment_bits = 10 + (s->mix->turns ? 0 : (unsigned)draw(s, 2)),
		.bucket_bits = (unsigned)draw(s, 2),
		.table_bits = 3,
		.unit_bits = 6,
		.random = (uint32_t)draw(s, FORMAT_CLIENTS),
	};
	uint64_t word = geometry_encode(&g);

	/* enough for any heap, to learn where it begins */
	(void)geometry_decode(word, 7, 1 << 20, &g);
	s->memory.n_bytes =
		g.heap_at + ((4 + (s->mix->turns ? 0 : draw(s, 5))) << g.segment_bits);
	assert(geometry_decode(word, 7, s->memory.n_bytes, &s->geometry) == 0);
	/* a header may be read beyond the last block */
	s->memory.bytes = calloc(1, s->memory.n_bytes + FORMAT_HEAD_MAX);
	assert(s->memory.bytes);
	s->memory.random = random_next(&s->random);
	s->memory.swapped = published;
	s->memory.ctx = s;
	list_init(&s->memory.flights);
	s->memory.deadline = 40; /* steps: far below a claim */
}

static uint64_t key_hash(const char *key)
{
	return format_hash(key, strlen(key), 0);
}

/* The first names have one fingerprint, and one bucket. */
static void keys_find(char keys[KEYS_MAX][12])
{
	unsigned number = 0;

	for (unsigned i = 0; i < KEYS_MAX; i++)
		do
			(void)snprintf(keys[i], sizeof(keys[i]), "k%07u", number++);
		while (i > 0 && i < SAME_KEYS &&
		       (print_of_hash(key_hash(keys[i])) !=
				print_of_hash(key_hash(keys[0])) ||
			(key_hash(keys[i]) ^ key_hash(keys[0])) & 1));
}

static void keys_init(struct simulation *s)
{
	static char keys[KEYS_MAX][12];

	if (!keys[0][0])
		keys_find(keys);
	memcpy(s->keys, keys, sizeof(keys));
	s->n_keys = s->mix->one_key || s->mix->turns
			    ? 1
			    : (unsigned[]){ 2, 5, KEYS_MAX }[draw(s, 3)];
}

/* ---- clients ---- */

static void client_open(struct simulation *s, struct client *c)
{
	struct opened opened = {
		.queue = (rmem_queue *)(void *)&c->queue,
		.lease = (rmem_lease *)(void *)&c->queue,
		.geometry = s->geometry,
		.client = s->n_started++,
		.claim_ms = CLAIM_MS,
		.rest_ms = REST_MS,
	};

	fake_queue_init(&c->queue, &s->memory);
	c->queue.stops = &c->stopped;
	c->queue.stop_share =
		s->stop_share && !s->calm ? 10000 / (8 * s->stop_share) : 0;
	opened.scratch = c->scratch;
	assert(server_begin(&c->server, &opened) == 0);
	c->server.hint_share = 1;
}

static void client_start(struct simulation *s, struct client *c)
{
	c->simulation = s;
	c->stopped = c->fenced = false;
	memset(c->asked, 0, sizeof(c->asked));
	c->scratch = calloc(1, scratch_bytes(&s->geometry));
	assert(c->scratch && server_init(&c->server, 16) == 0);
	c->server.random = random_next(&s->random);
	c->open = true;
	client_open(s, c);
}

/* It is gone, with what is outstanding. */
static void client_kill(struct client *c)
{
	fake_queue_kill(&c->queue);
	for (unsigned i = 0; i < OUTSTANDING_MAX; i++)
		if (c->asked[i].busy)
			parts_forget(&c->asked[i].request);
	server_free(&c->server);
	free(c->scratch);
	c->open = false;
}

static void client_stop(struct simulation *s, struct client *c)
{
	static const unsigned times[] = { 50, 150, 250, 280, 295, 400, 800, 1500 };

	c->stopped = c->queue.stopped = true;
	c->fenced = false;
	c->stop_steps = 0;
	c->stop_left = times[draw(s, 8)];
	s->totals->stops++;
}

/* A step of a client that is stopped. */
static void client_sleep(struct simulation *s, struct client *c)
{
	if (c->stop_left == 0) /* by a submission */
		client_stop(s, c);
	c->stop_steps++;
	if (!c->fenced && c->stop_steps > FENCE_MS / STEP_MS) {
		c->fenced = true;
		fake_queue_fence(&c->queue, s->late);
	}
	if (--c->stop_left && !s->calm)
		return;
	c->stopped = false;
	c->stop_left = 0;
	if (c->stop_steps > (FENCE_MS + GRACE_MS) / STEP_MS && !s->mix->turns) {
		s->totals->ends++;
		fake_queue_end(&c->queue);
	}
	fake_queue_go_on(&c->queue);
}

/* ---- what they do ---- */

static enum event_kind kind_of(enum rmem_cache_opcode opcode)
{
	return opcode == RMEM_CACHE_PUT      ? EVENT_PUT
	       : opcode == RMEM_CACHE_DELETE ? EVENT_DELETE
					     : EVENT_GET;
}

static void client_ask(struct simulation *s, struct client *c, struct asked *asked,
		       enum rmem_cache_opcode opcode, unsigned key)
{
	struct request *r = &asked->request;
	unsigned n = VALUE_WORDS_MAX;
	uint64_t value = 0;

	memset(asked, 0, sizeof(*asked));
	asked->client = c;
	asked->busy = true;
	list_init(&r->link);
	r->opcode = opcode;
	r->key_bytes = (uint8_t)strlen(s->keys[key]);
	memcpy(r->key, s->keys[key], r->key_bytes);
	r->hash = format_hash(r->key, r->key_bytes, 0);
	r->cookie = key;
	if (opcode == RMEM_CACHE_PUT) {
		value = s->mix->immutable ? 1 : ++s->next_value;
		n = value_words(s, key, value);
		for (unsigned i = 0; i < n; i++)
			asked->value[i] = value_word(key, value, i, n);
	}
	if (opcode == RMEM_CACHE_PUT || opcode == RMEM_CACHE_GET) {
		r->value = asked->value;
		r->bytes = 8ull * n;
	}
	asked->event = history_add(&s->history, (struct event){ .kind = kind_of(opcode),
								.key = key,
								.value = value,
								.start = s->steps,
								.end = HISTORY_NEVER });
	server_request(&c->server, r);
}

static void client_answered(struct simulation *s, struct asked *asked)
{
	struct request *r = &asked->request;
	struct event *event = &s->history.events[asked->event];
	unsigned key = (unsigned)r->cookie;

	switch (r->outcome) {
	case RMEM_CACHE_HIT:
		s->totals->hits++;
		event->end = s->steps;
		event->value = value_of(s, key, asked->value, r->result_bytes);
		if (event->value == 0)
			failed(s, "wrong bytes");
		break;
	case RMEM_CACHE_MISSING:
		s->totals->misses += r->opcode == RMEM_CACHE_GET;
		event->end = s->steps;
		break;
	case RMEM_CACHE_STORED:
	case RMEM_CACHE_DELETED:
		s->totals->stored += r->outcome == RMEM_CACHE_STORED;
		s->totals->deleted += r->outcome == RMEM_CACHE_DELETED;
		event->end = s->steps;
		break;
	case RMEM_CACHE_FAILED:
		s->totals->refused++;
		if (r->opcode == RMEM_CACHE_GET)
			failed(s, r->text);
		break;
	}
	parts_forget(r);
	asked->busy = false;
}

static void evicted(struct server *server, int)
{
	server->room.busy = false;
}

static void client_new(struct simulation *s, struct client *c, struct asked *asked)
{
	unsigned x = (unsigned)draw(s, 100), key = (unsigned)draw(s, s->n_keys);

	if (x < 45)
		client_ask(s, c, asked, RMEM_CACHE_GET, key);
	else if (x < 84)
		client_ask(s, c, asked, RMEM_CACHE_PUT, key);
	else if (x < 92)
		client_ask(s, c, asked, RMEM_CACHE_DELETE, key);
	else if (x < 97) {
		if (c->server.up && !c->server.room.busy && !c->server.evict.busy &&
		    c->server.table.n) {
			c->server.room.busy = true; /* which evicts alone */
			evict_start(&c->server, -1, 0, evicted);
		}
	} else
		for (unsigned class = 0; class < SEGMENT_CLASSES; class ++)
			if (c->server.up && c->server.claims[class])
				claim_leave(c->server.claims[class], true);
}

/* A segment that is open is written to, or given up. */
static void claims_check(struct simulation *s, const struct server *server)
{
	list_for_each_entry(const struct claim, claim, &server->all_claims, link)
		if (!claim->leaving && server->claims[claim->state.class] != claim)
			failed(s, "an open segment was forgotten");
}

static void client_step(struct simulation *s, struct client *c)
{
	if (draw(s, 10) < 3)
		return;
	(void)server_poll(&c->server);
	if (server_is_over(&c->server)) {
		server_end(&c->server, "lost");
		fake_queue_kill(&c->queue);
		client_open(s, c);
	}
	list_for_each_safe(node, &c->server.finished) {
		struct request *r = container_of(node, struct request, link);

		list_remove(&r->link);
		client_answered(s, container_of(r, struct asked, request));
	}
	for (unsigned i = 0; i < OUTSTANDING_MAX && !s->calm; i++)
		if (!c->asked[i].busy && draw(s, 4) == 0)
			client_new(s, c, &c->asked[i]);
	server_flush(&c->server);
	claims_check(s, &c->server);
	/* as if nothing had been heard of a server that did not answer */
	c->server.silent = false;
}

/* ---- a history ---- */

static void faults_step(struct simulation *s)
{
	struct client *c = &s->clients[draw(s, s->n_clients)];

	if (chance(s, s->lose_share))
		fake_queue_lose_channel(&c->queue);
	c = &s->clients[draw(s, s->n_clients)];
	if (chance(s, s->stop_share) && !c->stopped)
		client_stop(s, c);
	c = &s->clients[draw(s, s->n_clients)];
	if (chance(s, s->kill_share)) {
		s->totals->kills++;
		client_kill(c);
		client_start(s, c);
	}
}

/* Blocks seem to be asked for. */
static void hints_step(struct simulation *s)
{
	uint64_t bucket = geometry_bucket_at(&s->geometry, draw(s, 2));
	unsigned i = (unsigned)draw(s, FORMAT_SLOTS);
	uint64_t slot = word_read(s->memory.bytes + bucket + 8 * (uint64_t)i);

	s->memory.bytes[bucket + FORMAT_HINTS_AT + i] =
		hint_encode(slot, (unsigned)draw(s, HINT_MAX + 1));
}

static void step(struct simulation *s)
{
	s->memory.now = ++s->steps;
	now_ns += STEP_MS * NS_PER_MS;
	if (!s->calm)
		faults_step(s);
	for (unsigned i = 0; i < s->n_clients; i++) {
		if (s->clients[i].stopped)
			client_sleep(s, &s->clients[i]);
		else
			client_step(s, &s->clients[i]);
	}
	if (draw(s, 4) == 0)
		hints_step(s);
	for (unsigned i = 0; i < s->words_a_step; i++)
		fake_memory_step(&s->memory);
}

static bool is_busy(const struct simulation *s)
{
	for (unsigned i = 0; i < s->n_clients; i++)
		for (unsigned j = 0; j < OUTSTANDING_MAX; j++)
			if (s->clients[i].asked[j].busy)
				return true;
	return false;
}

static void count(struct simulation *s)
{
	struct totals *totals = s->totals;

	totals->histories++;
	totals->steps += s->steps;
	for (unsigned i = 0; i < s->n_clients; i++) {
		const struct counters *counters = &s->clients[i].server.counters;

		totals->evictions += counters->evictions;
		totals->moved += counters->moved;
		totals->seals += counters->seals;
		totals->torn += counters->torn;
	}
}

/* Do one operation of a client alone, with nothing going wrong. */
static enum rmem_cache_outcome alone(struct simulation *s, struct client *c,
				     enum rmem_cache_opcode opcode, unsigned key)
{
	struct asked *asked = &c->asked[0];

	client_ask(s, c, asked, opcode, key);
	for (unsigned i = 0; i < PATIENCE && asked->busy; i++)
		step(s);
	if (asked->busy)
		failed(s, "an operation does not end");
	return asked->request.outcome;
}

/* All others are dead: one client stores and finds more than fits. */
static void ending(struct simulation *s)
{
	struct client *c = &s->clients[0];
	unsigned room = s->geometry.segments * 2;

	for (unsigned i = 0; i < s->n_clients; i++)
		client_kill(&s->clients[i]);
	s->n_clients = 1;
	now_ns += (CLAIM_MS + REST_MS + 2000) * NS_PER_MS;
	client_start(s, c);
	for (unsigned i = 0; i < 3 * room && !s->failure; i++) {
		unsigned key = (unsigned)draw(s, s->n_keys);
		bool stored = false;

		/* a value in parts may be too much for so few segments */
		while (value_words(s, key, s->next_value + 1) > 16) {
			s->next_value++;
			key = (unsigned)draw(s, s->n_keys);
		}

		for (unsigned attempt = 0; attempt < 3 && !stored && !s->failure;
		     attempt++) {
			stored = alone(s, c, RMEM_CACHE_PUT, key) == RMEM_CACHE_STORED;
			/* what the first attempt has sealed rests */
			now_ns += stored ? 0 : (REST_MS / 2 + 1000) * NS_PER_MS;
		}
		if (!stored)
			failed(s, "space is not found again");
		else if (alone(s, c, RMEM_CACHE_GET, key) != RMEM_CACHE_HIT)
			failed(s, "a value that was just stored is missing");
	}
	client_kill(c);
}

const char *simulation_run(uint64_t seed, const struct mix *mix, struct totals *totals)
{
	static const unsigned loses[] = { 0, 20, 100, 400 }, stops[] = { 0, 30, 100 },
			      kills[] = { 0, 0, 10, 30 };
	static struct simulation simulation;
	struct simulation *s = &simulation;
	const char *failure = NULL;
	static char text[300];

	*s = (struct simulation){ .mix = mix, .totals = totals, .random = seed };
	now_ns = UINT64_C(3600000000000);
	clock_set_source(simulated_now);
	s->lose_share = mix->one_key ? 800 : loses[draw(s, 4)];
	s->stop_share = mix->quiet ? 0 : mix->one_key ? 10 : stops[draw(s, 3)];
	s->kill_share = mix->quiet ? 0 : kills[draw(s, 4)];
	s->late = draw(s, 2);
	s->words_a_step = mix->turns ? 64 : 8u << draw(s, 3);
	if (mix->turns)
		s->stop_share = 8;
	memory_init(s);
	keys_init(s);
	s->n_clients = 2 + (unsigned)draw(s, CLIENTS_MAX - 1);
	for (unsigned i = 0; i < s->n_clients; i++)
		client_start(s, &s->clients[i]);
	while (s->steps < mix->steps && !s->failure)
		step(s);
	s->calm = true;
	for (unsigned i = 0; i < PATIENCE && is_busy(s) && !s->failure; i++)
		step(s);
	if (is_busy(s))
		failed(s, "an operation does not end");
	count(s);
	if (!s->failure)
		ending(s);
	else
		for (unsigned i = 0; i < s->n_clients; i++)
			client_kill(&s->clients[i]);
	if (s->failure)
		failure = s->failure;
	else if (!mix->immutable)
		failure = history_check(&s->history);
	if (failure)
		(void)snprintf(text, sizeof(text), "seed %llu: %s",
			       (unsigned long long)seed, failure);
	history_free(&s->history);
	free(s->memory.bytes);
	return failure ? text : NULL;
}
