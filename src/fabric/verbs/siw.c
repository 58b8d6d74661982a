/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/siw.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "fabric/fabric.h"

#define DEVICES_MAX 8

/* With 32 bytes each more than 0x90000 in all; the kernel makes it a power of two. */
#define COVER_ENTRIES 20000

struct cover {
	char device[FABRIC_DEVICE_MAX];
	const struct ibv_context *verbs;
	struct ibv_cq *cq;
};

/* The device's cover, or a new place for one; NULL: there is no more room.  A device that
 * has come back has a new context, and lost what was made on the old one. */
static struct cover *cover_find(const char *device)
{
	static struct cover covers[DEVICES_MAX];

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		if (!covers[i].device[0])
			(void)snprintf(covers[i].device, sizeof(covers[i].device), "%s",
				       device);
		if (strcmp(covers[i].device, device) == 0)
			return &covers[i];
	}
	return NULL;
}

void verbs_siw_cover(struct ibv_context *verbs, uint32_t vendor)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct cover *cover;

	if (vendor != VERBS_SIW_VENDOR)
		return;
	(void)pthread_mutex_lock(&lock);
	cover = cover_find(ibv_get_device_name(verbs->device));
	if (cover && cover->verbs != verbs) {
		cover->verbs = verbs;
		/* without it the first 140 pages of queues can be had all the same */
		cover->cq = ibv_create_cq(verbs, COVER_ENTRIES, NULL, NULL, 0);
	}
	(void)pthread_mutex_unlock(&lock);
}
