/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/iwarp.h"

#include <pthread.h>

#define DEVICES_MAX 8

/* With 32 bytes each more than 0x90000 in all; the kernel makes it a power of two. */
#define COVER_ENTRIES 20000

struct cover {
	const struct ibv_context *verbs; /* NULL: free */
	struct ibv_cq *cq;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cover covers[DEVICES_MAX]; /* [lock] */

/* The cover on that context; NULL: none. */
static struct cover *cover_find(const struct ibv_context *verbs)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (covers[i].verbs == verbs)
			return &covers[i];
	return NULL;
}

void verbs_siw_cover(struct ibv_context *verbs, uint32_t vendor)
{
	struct cover *cover;

	if (vendor != VERBS_SIW_VENDOR)
		return;
	(void)pthread_mutex_lock(&lock);
	cover = cover_find(verbs) ? NULL : cover_find(NULL);
	if (cover) {
		/* without it the first 140 pages of queues can be had all the same */
		cover->cq = ibv_create_cq(verbs, COVER_ENTRIES, NULL, NULL, 0);
		cover->verbs = cover->cq ? verbs : NULL;
	}
	(void)pthread_mutex_unlock(&lock);
}

void verbs_siw_uncover(const struct ibv_context *verbs)
{
	struct cover *cover;

	(void)pthread_mutex_lock(&lock);
	cover = cover_find(verbs);
	if (cover) {
		(void)ibv_destroy_cq(cover->cq);
		cover->verbs = NULL;
	}
	(void)pthread_mutex_unlock(&lock);
}
