/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/notices.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

void notice_source_init(struct notice_source *source)
{
	list_init(&source->late);
}

int notices_open(struct notices *notices, unsigned room)
{
	struct notice *ring = calloc(room, sizeof(*ring));

	if (!ring)
		return err_set(-ENOMEM, "no memory for notifications");
	*notices = (struct notices){ .ring = ring, .room = room };
	list_init(&notices->late);
	return 0;
}

void notices_close(struct notices *notices)
{
	free(notices->ring);
	*notices = (struct notices){ 0 };
}

static uint32_t lost_add(uint32_t a, uint32_t b)
{
	return a > NOTICES_LOST_MAX - b ? NOTICES_LOST_MAX : a + b;
}

static void push(struct notices *notices, const struct notice *notice)
{
	notices->ring[(notices->first + notices->n++) % notices->room] = *notice;
}

/* Those that were late have room now. */
static void catch_up(struct notices *notices)
{
	struct notice_source *source;

	while (!notices_full(notices) &&
	       (source = list_first(&notices->late, struct notice_source, late))) {
		list_remove(&source->late);
		push(notices, &source->last);
	}
}

void notices_put(struct notices *notices, const struct notice *notice)
{
	struct notice_source *source = notice->source;
	const struct notice *last = &source->last;
	uint32_t lost = notice->lost;

	if (!notices_full(notices)) {
		push(notices, notice);
		return;
	}
	if (list_empty(&source->late))
		list_append(&notices->late, &source->late);
	else
		lost = lost_add(lost, lost_add(last->lost, 1));
	source->last = *notice;
	source->last.lost = lost;
}

unsigned notices_take(struct notices *notices, struct notice *ret_notices, unsigned n)
{
	unsigned taken = 0;

	while (taken < n && notices->n > 0) {
		ret_notices[taken++] = notices->ring[notices->first];
		notices->first = (notices->first + 1) % notices->room;
		notices->n--;
		catch_up(notices);
	}
	return taken;
}

void notices_drop(struct notices *notices, struct notice_source *source)
{
	unsigned kept = 0;

	list_remove(&source->late);
	for (unsigned i = 0; i < notices->n; i++) {
		const struct notice *notice =
			&notices->ring[(notices->first + i) % notices->room];

		if (notice->source != source)
			notices->ring[(notices->first + kept++) % notices->room] =
				*notice;
	}
	notices->n = kept;
	catch_up(notices);
}
