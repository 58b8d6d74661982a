/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric-conformance-traffic.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static bool is_poisoned(const char *addr, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if ((unsigned char)addr[i] == POISON)
			return true;
	return false;
}

/* Writes come from the first half of local, reads go to their own places behind. */
static void *traffic_main(void *arg)
{
	enum { DEPTH = 8 };
	struct traffic *t = arg;
	unsigned posted = 0, outstanding = 0;
	size_t half = t->local->bytes / 2;

	while ((t->status == 0 && !atomic_load(&t->stop)) || outstanding > 0) {
		struct wc wc;

		while (t->status == 0 && !atomic_load(&t->stop) &&
		       outstanding < DEPTH) {
			bool read = posted % 2;
			struct wr wr =
				op_make(read ? FABRIC_READ : FABRIC_WRITE, t->local,
					read ? half + posted % DEPTH * t->bytes : 0,
					t->lent, 0, t->bytes);
			int taken;

			wr.cookie = posted;
			taken = wr_post(CLIENT, t->channel, &wr, 1);
			if (taken < 0)
				t->status = taken;
			if (taken <= 0)
				break;
			posted++;
			outstanding++;
		}
		if (outstanding == 0)
			break;
		wc = op_await(t->party);
		outstanding--;
		if (wc.status) {
			if (!t->status)
				t->status = wc.status;
			continue;
		}
		if (wc.cookie % 2 &&
		    is_poisoned(t->local->addr + half + wc.cookie % DEPTH * t->bytes,
				t->bytes))
			t->poisoned = true;
		atomic_fetch_add(&t->done, 1);
	}
	return NULL;
}

void traffic_start(struct traffic *t, uint32_t bytes)
{
	t->bytes = bytes;
	t->party = party_new();
	t->channel = party_connect(t->party, STAGE_DEPTH);
	t->lent = lent_new(t->party, bytes, RW);
	t->local = local_new(t->party, 16 * (size_t)bytes);
	memset(t->local->addr, 0x11, t->local->bytes);
	memset(t->lent->addr, 0x11, t->lent->bytes);
	ck_assert_int_eq(pthread_create(&t->thread, NULL, traffic_main, t), 0);
}

void traffic_await(struct traffic *t, unsigned more)
{
	unsigned from = atomic_load(&t->done);
	struct timespec nap = { .tv_nsec = 200000 };

	while (atomic_load(&t->done) - from < more)
		(void)nanosleep(&nap, NULL);
}

void traffic_join(struct traffic *t)
{
	ck_assert_int_eq(pthread_join(t->thread, NULL), 0);
}

void traffic_free(struct traffic *t)
{
	channel_free(t->channel);
	local_free(t->local);
	lent_free(t->lent);
	party_free(t->party);
}
