/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"

#define CHANNELS 4
#define WINDOW 16u                /* operations of a channel in flight */
#define AREA (1u << 19)           /* of one channel */
#define BLOCK_MAX (AREA / WINDOW) /* of one operation: each has its own place */

struct mixer {
	uint64_t seed;
	unsigned ops;
	struct party *party;
	struct fabric_channel *channels[CHANNELS];
	struct remote *remote;
	struct local *local;
	char *model; /* the expected bytes of remote */
	struct {
		struct wr wr;
		size_t at; /* in local, remote and model */
		bool busy;
	} slots[CHANNELS * WINDOW];
	unsigned long long bytes;
	pthread_t thread;
};

static void mixer_post(struct mixer *m, unsigned slot)
{
	uint64_t r = stage_random(&m->seed);
	uint32_t bytes = (uint32_t)(r >> 8) % ((r & 4) ? 256 : BLOCK_MAX) + 1;
	size_t at = (size_t)slot * BLOCK_MAX +
		    (size_t)(stage_random(&m->seed) % (BLOCK_MAX - bytes + 1));
	struct wr *wr = &m->slots[slot].wr;

	m->slots[slot].at = at;
	m->slots[slot].busy = true;
	if (r & 1) {
		stage_fill(m->model + at, bytes, r);
		memcpy(m->local->addr + at, m->model + at, bytes);
	} else {
		memset(m->local->addr + at, 0, bytes);
	}
	*wr = op_make((r & 1) ? FABRIC_WRITE : FABRIC_READ, m->local, at, m->remote,
		      (int64_t)at, bytes);
	wr->cookie = slot;
	m->bytes += bytes;
	op_post(m->channels[slot / WINDOW], wr, 1);
}

static void mixer_await(struct mixer *m)
{
	struct wc wc = op_await(m->party);
	unsigned slot = (unsigned)wc.cookie;

	ck_assert_msg(wc.status == 0, "status %d: %s", wc.status,
		      wc.text ? wc.text : "");
	ck_assert_uint_lt(slot, CHANNELS * WINDOW);
	ck_assert(m->slots[slot].busy);
	ck_assert_ptr_eq(wc.channel, m->channels[slot / WINDOW]);
	m->slots[slot].busy = false;
	ck_assert_msg(
		memcmp(m->local->addr + m->slots[slot].at, m->model + m->slots[slot].at,
		       m->slots[slot].wr.bytes) == 0,
		"%u bytes at %zu differ", m->slots[slot].wr.bytes, m->slots[slot].at);
}

static void *mixer_main(void *arg)
{
	struct mixer *m = arg;
	unsigned outstanding = 0;

	for (unsigned i = 0; i < m->ops || outstanding > 0;) {
		for (unsigned slot = 0; slot < CHANNELS * WINDOW && i < m->ops;
		     slot++) {
			if (m->slots[slot].busy)
				continue;
			mixer_post(m, slot);
			i++;
			outstanding++;
		}
		mixer_await(m);
		outstanding--;
	}
	return NULL;
}

START_TEST(traffic__of_three_sessions_with_four_channels_is_exact)
{
	enum { SESSIONS = 3 };
	const unsigned ops = stage_rounds(4000);
	struct mixer *mixers = calloc(SESSIONS, sizeof(*mixers));
	uint64_t seed = stage_seed();
	unsigned long long bytes = 0;

	ck_assert_ptr_nonnull(mixers);
	for (unsigned s = 0; s < SESSIONS; s++) {
		struct mixer *m = &mixers[s];

		m->seed = stage_random(&seed);
		m->ops = ops;
		m->party = party_new();
		for (unsigned c = 0; c < CHANNELS; c++)
			m->channels[c] = party_connect(m->party, STAGE_DEPTH);
		m->remote = remote_new(m->party, CHANNELS * AREA, RW);
		m->local = local_new(m->party, CHANNELS * AREA);
		m->model = malloc(CHANNELS * AREA);
		ck_assert_ptr_nonnull(m->model);
		memcpy(m->model, m->remote->addr, CHANNELS * AREA);
	}
	for (unsigned s = 0; s < SESSIONS; s++)
		ck_assert_int_eq(
			pthread_create(&mixers[s].thread, NULL, mixer_main, &mixers[s]),
			0);
	for (unsigned s = 0; s < SESSIONS; s++) {
		struct mixer *m = &mixers[s];

		ck_assert_int_eq(pthread_join(m->thread, NULL), 0);
		ck_assert(memcmp(m->model, m->remote->addr, CHANNELS * AREA) == 0);
		bytes += m->bytes;
	}
	fprintf(stderr, "# %u operations, %llu bytes\n", SESSIONS * ops, bytes);
	for (unsigned s = 0; s < SESSIONS; s++) {
		struct mixer *m = &mixers[s];

		for (unsigned c = 0; c < CHANNELS; c++)
			channel_free(m->channels[c]);
		party_await_downs(m->party, CHANNELS);
		local_free(m->local);
		remote_free(m->remote);
		party_free(m->party);
		free(m->model);
	}
	free(mixers);
	ck_assert_uint_eq(stage_stats().channels, 0);
	ck_assert_uint_eq(stage_stats().exposures, 0);
	ck_assert_uint_eq(stage_stats().errors, 0);
}
END_TEST

void mixer_cases(TCase *tcase)
{
	tcase_add_test(tcase, traffic__of_three_sessions_with_four_channels_is_exact);
}
