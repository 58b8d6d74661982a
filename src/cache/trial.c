/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/trial.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TRIALS 4
#define KEYS 16384u        /* of the sample that are remembered */
#define HEADS (2 * KEYS)   /* of chains of keys with one hash */
#define SAMPLE_BITS_MIN 2u /* one of 4 keys is looked at, of a small cache */
#define SAMPLE_BITS_MAX 24u
#define ROUND 1024 /* gets of the sample between two decisions */
/* open and free segments, and their ends that no block fits, hold nothing */
#define USABLE(bytes) ((bytes) / 8 * 7)
#define FADE(score) ((score) * 7 / 10)
#define BETTER(score, than) ((score) * 100 > (than) * 101)

enum { NOWHERE, NEW, MAIN };

static const unsigned shares[TRIALS] = { 10, 30, 60, 100 };

/* A key in one of the caches. */
struct state {
	uint8_t where, count;
	uint64_t left; /* the clock when it was evicted, and 1; 0: it was not */
};

struct key {
	uint64_t hash;
	uint64_t bytes; /* 0: the entry is free */
	uint32_t next;  /* of its chain, and 1 */
	struct state state[TRIALS];
};

/* First in, first out. */
struct fifo {
	uint32_t keys[KEYS];
	unsigned head, n;
};

struct cache {
	struct fifo fifo[2];
	uint64_t used[2];
	uint64_t clock; /* bytes that came in */
	uint64_t score;
};

struct trial {
	unsigned sample_bits, best, n_gets;
	uint32_t hand; /* where a key is looked for that may be forgotten */
	uint32_t heads[HEADS];
	struct key keys[KEYS];
	struct cache caches[TRIALS];
};

struct trial *trial_create(void)
{
	struct trial *trial = calloc(1, sizeof(*trial));

	if (trial)
		trial->sample_bits = SAMPLE_BITS_MIN;
	return trial;
}

void trial_free(struct trial *trial)
{
	free(trial);
}

/* ---- keys ---- */

static uint32_t *head_of(struct trial *trial, uint64_t hash)
{
	return &trial->heads[hash % HEADS];
}

static struct key *key_find(struct trial *trial, uint64_t hash)
{
	for (uint32_t i = *head_of(trial, hash); i; i = trial->keys[i - 1].next)
		if (trial->keys[i - 1].hash == hash)
			return &trial->keys[i - 1];
	return NULL;
}

static void key_forget(struct trial *trial, struct key *key)
{
	uint32_t *at = head_of(trial, key->hash), i = (uint32_t)(key - trial->keys) + 1;

	while (*at != i)
		at = &trial->keys[*at - 1].next;
	*at = key->next;
	key->bytes = 0;
}

static bool key_is_anywhere(const struct key *key)
{
	for (unsigned t = 0; t < TRIALS; t++)
		if (key->state[t].where != NOWHERE)
			return true;
	return false;
}

/* Begin again with half of the keys: there were too many. */
static void trial_restart(struct trial *trial)
{
	unsigned bits = trial->sample_bits, best = trial->best;

	memset(trial, 0, sizeof(*trial));
	trial->sample_bits = bits < SAMPLE_BITS_MAX ? bits + 1 : bits;
	trial->best = best;
}

/* An entry for a new key, or NULL: the trial has begun again. */
static struct key *key_take(struct trial *trial)
{
	for (unsigned i = 0; i < KEYS; i++) {
		struct key *key = &trial->keys[trial->hand];

		trial->hand = (trial->hand + 1) % KEYS;
		if (key->bytes == 0)
			return key;
		if (key_is_anywhere(key))
			continue;
		key_forget(trial, key);
		return key;
	}
	trial_restart(trial);
	return NULL;
}

static struct key *key_get(struct trial *trial, uint64_t hash, uint64_t bytes)
{
	struct key *key = key_find(trial, hash);
	uint32_t *head = head_of(trial, hash);

	if (key)
		return key;
	key = key_take(trial);
	if (!key)
		return NULL;
	*key = (struct key){ .hash = hash, .bytes = bytes + 1, .next = *head };
	*head = (uint32_t)(key - trial->keys) + 1;
	return key;
}

/* ---- one cache ---- */

static void cache_push(struct cache *cache, struct trial *trial, struct key *key,
		       unsigned t, unsigned where)
{
	struct fifo *fifo = &cache->fifo[where - NEW];

	fifo->keys[(fifo->head + fifo->n++) % KEYS] = (uint32_t)(key - trial->keys);
	cache->used[where - NEW] += key->bytes;
	key->state[t].where = (uint8_t)where;
}

/* Take one key out; it comes in again if it was asked for. */
static void cache_evict(struct cache *cache, struct trial *trial, unsigned t,
			uint64_t capacity)
{
	bool classes = shares[t] < 100;
	unsigned from = classes && cache->used[0] > capacity * shares[t] / 100 ? 0 : 1;
	struct fifo *fifo;
	struct state *state;
	struct key *key;

	if (cache->fifo[from].n == 0)
		from = !from;
	fifo = &cache->fifo[from];
	key = &trial->keys[fifo->keys[fifo->head]];
	fifo->head = (fifo->head + 1) % KEYS;
	fifo->n--;
	cache->used[from] -= key->bytes;
	state = &key->state[t];
	if (state->count) {
		state->count = from == 0 || !classes ? 0 : (uint8_t)(state->count - 1);
		cache_push(cache, trial, key, t, MAIN);
	} else {
		state->where = NOWHERE;
		state->left = cache->clock + 1;
	}
}

static void cache_get(struct trial *trial, unsigned t, struct key *key,
		      uint64_t capacity)
{
	struct cache *cache = &trial->caches[t];
	struct state *state = &key->state[t];
	bool ghost;

	if (state->where != NOWHERE) {
		cache->score += 100;
		if (state->count < 3)
			state->count++;
		return;
	}
	ghost = state->left && cache->clock - state->left < capacity * shares[t] / 100;
	state->count = 0;
	cache_push(cache, trial, key, t, ghost || shares[t] == 100 ? MAIN : NEW);
	cache->clock += key->bytes;
	while (cache->used[0] + cache->used[1] > capacity &&
	       cache->fifo[0].n + cache->fifo[1].n > 1)
		cache_evict(cache, trial, t, capacity);
}

/* ---- */

static void trial_decide(struct trial *trial)
{
	for (unsigned t = 0; t < TRIALS; t++)
		if (BETTER(trial->caches[t].score, trial->caches[trial->best].score))
			trial->best = t;
	for (unsigned t = 0; t < TRIALS; t++)
		trial->caches[t].score = FADE(trial->caches[t].score);
}

unsigned trial_get(struct trial *trial, uint64_t hash, uint64_t bytes,
		   uint64_t capacity)
{
	struct key *key;

	/* bits that neither buckets nor fingerprints are made of alone */
	if ((hash >> 20 & ((UINT64_C(1) << trial->sample_bits) - 1)) == 0) {
		key = key_get(trial, hash, bytes);
		for (unsigned t = 0; key && t < TRIALS; t++)
			cache_get(trial, t, key,
				  USABLE(capacity) >> trial->sample_bits);
		if (++trial->n_gets % ROUND == 0)
			trial_decide(trial);
	}
	return shares[trial->best];
}
