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

/* Writes use the start of local as their source; each read has its own part of the second half. */
static void *traffic_main(void *arg)
{
	enum { DEPTH = 8 };
	struct traffic *t = arg;
	unsigned posted = 0, outstanding = 0;
	size_t half = t->scene.local->bytes / 2;

	while ((t->status == 0 && !atomic_load(&t->stop)) || outstanding > 0) {
		struct wc wc;

		while (t->status == 0 && !atomic_load(&t->stop) &&
		       outstanding < DEPTH) {
			bool read = posted % 2;
			struct wr wr = op_make(
				read ? FABRIC_READ : FABRIC_WRITE, t->scene.local,
				read ? half + posted % DEPTH * t->bytes : 0,
				t->scene.remote, 0, t->bytes);
			int taken;

			wr.cookie = posted;
			taken = wr_post(CLIENT, t->scene.channel, &wr, 1);
			if (taken < 0)
				t->status = taken;
			if (taken <= 0)
				break;
			posted++;
			outstanding++;
		}
		if (outstanding == 0)
			break;
		wc = op_await(t->scene.party);
		outstanding--;
		if (wc.status) {
			if (!t->status)
				t->status = wc.status;
			continue;
		}
		if (wc.cookie % 2 && is_poisoned(t->scene.local->addr + half +
							 wc.cookie % DEPTH * t->bytes,
						 t->bytes))
			t->poisoned = true;
		atomic_fetch_add(&t->done, 1);
	}
	return NULL;
}

void traffic_start(struct traffic *t, uint32_t bytes)
{
	t->bytes = bytes;
	t->scene = scene_open(bytes, RW, 16 * (size_t)bytes);
	memset(t->scene.local->addr, 0x11, t->scene.local->bytes);
	memset(t->scene.remote->addr, 0x11, bytes);
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
	scene_close(&t->scene);
}
