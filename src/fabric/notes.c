/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/notes.h"

#include <string.h>

void fabric_notes_init(struct fabric_notes *notes)
{
	*notes = (struct fabric_notes){ .n = 0 };
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&notes->lock, NULL);
}

void fabric_notes_destroy(struct fabric_notes *notes)
{
	(void)pthread_mutex_destroy(&notes->lock);
}

bool fabric_notes_add(struct fabric_notes *notes, uint32_t value)
{
	bool tell;

	(void)pthread_mutex_lock(&notes->lock);
	/* behind a loss all are lost until the loop has come, so that their order holds */
	if (notes->n < FABRIC_NOTES_MAX)
		notes->values[notes->n++] = value;
	else
		notes->lost++;
	tell = !notes->told;
	notes->told = true;
	(void)pthread_mutex_unlock(&notes->lock);
	return tell;
}

void fabric_notes_take(struct fabric_notes *notes, struct fabric_notes_taken *ret_taken)
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

void fabric_notes_report(const struct fabric_notes_taken *taken,
			 const struct fabric_server_events *events, void *ctx,
			 void *session_cookie, void *exposure_cookie)
{
	for (unsigned i = 0; i < taken->n && events->notified; i++)
		events->notified(ctx, session_cookie, exposure_cookie,
				 taken->values[i]);
	if (taken->lost > 0 && events->notes_lost)
		events->notes_lost(ctx, session_cookie, exposure_cookie, taken->lost);
}
