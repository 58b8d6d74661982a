/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/notifications.h"

#include <stdlib.h>
#include <string.h>

void fabric_notifications_init(struct fabric_notifications *notes)
{
	*notes = (struct fabric_notifications){ .n = 0 };
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&notes->lock, NULL);
}

void fabric_notifications_destroy(struct fabric_notifications *notes)
{
	if (notes->values != &notes->only)
		free(notes->values);
	(void)pthread_mutex_destroy(&notes->lock);
}

/* Most exposures never have any. */
static void room_make(struct fabric_notifications *notes)
{
	notes->room = FABRIC_NOTIFICATIONS_MAX;
	notes->values = calloc(notes->room, sizeof(notes->values[0]));
	if (notes->values)
		return;
	notes->room = 1;
	notes->values = &notes->only;
}

bool fabric_notifications_add(struct fabric_notifications *notes, uint32_t value)
{
	bool tell;

	(void)pthread_mutex_lock(&notes->lock);
	if (!notes->values)
		room_make(notes);
	if (notes->n < notes->room)
		notes->n++;
	else if (notes->lost < UINT32_MAX)
		notes->lost++;
	notes->values[notes->n - 1] = value;
	tell = !notes->told;
	notes->told = true;
	(void)pthread_mutex_unlock(&notes->lock);
	return tell;
}

void fabric_notifications_take(struct fabric_notifications *notes,
			       struct fabric_notifications_taken *ret_taken)
{
	(void)pthread_mutex_lock(&notes->lock);
	ret_taken->n = notes->n;
	ret_taken->lost = notes->lost;
	memcpy(ret_taken->values, notes->values, notes->n * sizeof(notes->values[0]));
	notes->n = 0;
	notes->lost = 0;
	notes->told = false;
	(void)pthread_mutex_unlock(&notes->lock);
}

bool fabric_notifications_told(struct fabric_notifications *notes)
{
	bool told;

	(void)pthread_mutex_lock(&notes->lock);
	told = notes->told;
	(void)pthread_mutex_unlock(&notes->lock);
	return told;
}

void fabric_notifications_report(const struct fabric_notifications_taken *taken,
				 const struct fabric_server_events *events, void *ctx,
				 void *session_cookie, void *mr_cookie)
{
	for (unsigned i = 0; i < taken->n && events->notified; i++)
		events->notified(ctx, session_cookie, mr_cookie, taken->values[i],
				 i + 1 == taken->n ? taken->lost : 0);
}
