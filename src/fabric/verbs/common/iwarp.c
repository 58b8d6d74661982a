/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/iwarp.h"

#include <pthread.h>

#define DEVICES_MAX 8

/* With 32 bytes each more than 0x90000 in all; the kernel makes it a power of two. */
#define COVER_ENTRIES 20000

struct reservation {
	const struct ibv_context *verbs; /* NULL: free */
	struct ibv_cq *cq;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation reservations[DEVICES_MAX]; /* [lock] */

/* The cover on that context; NULL: none. */
static struct reservation *reservation_find(const struct ibv_context *verbs)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (reservations[i].verbs == verbs)
			return &reservations[i];
	return NULL;
}

void verbs_siw_reserve(struct ibv_context *verbs, uint32_t vendor)
{
	struct reservation *reservation;

	if (vendor != VERBS_SIW_VENDOR)
		return;
	(void)pthread_mutex_lock(&lock);
	reservation = reservation_find(verbs) ? NULL : reservation_find(NULL);
	if (reservation) {
		/* without it the first 140 pages of queues can be had all the same */
		reservation->cq = ibv_create_cq(verbs, COVER_ENTRIES, NULL, NULL, 0);
		reservation->verbs = reservation->cq ? verbs : NULL;
	}
	(void)pthread_mutex_unlock(&lock);
}

void verbs_siw_unreserve(const struct ibv_context *verbs)
{
	struct reservation *reservation;

	(void)pthread_mutex_lock(&lock);
	reservation = reservation_find(verbs);
	if (reservation) {
		(void)ibv_destroy_cq(reservation->cq);
		reservation->verbs = NULL;
	}
	(void)pthread_mutex_unlock(&lock);
}
