/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/notices.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

void notice_source_init(struct notice_source *source)
{
	list_init(&source->late);
}

void notices_init(struct notices *notices)
{
	*notices = (struct notices){ 0 };
	list_init(&notices->late);
}

int notices_open(struct notices *notices, unsigned room)
{
	notices_init(notices);
	notices->ring = calloc(room, sizeof(*notices->ring));
	if (!notices->ring)
		return err_set(-ENOMEM, "no memory for notifications");
	notices->room = room;
	return 0;
}

void notices_close(struct notices *notices)
{
	free(notices->ring);
	notices_init(notices);
}

static uint32_t lost_add(uint32_t a, uint32_t b)
{
	return a > NOTICES_LOST_MAX - b ? NOTICES_LOST_MAX : a + b;
}

static void push(struct notices *notices, const struct notice *notice)
{
	notices->ring[(notices->first + notices->n++) % notices->room] = *notice;
}

/* Take the last notice of a source that has one outside the ring. */
static bool late_pop(struct notices *notices, struct notice *ret_notice)
{
	struct notice_source *source =
		list_first(&notices->late, struct notice_source, late);

	if (!source)
		return false;
	list_remove(&source->late);
	*ret_notice = source->last;
	return true;
}

/* The ring has room again. */
static void catch_up(struct notices *notices)
{
	struct notice notice;

	while (!notices_full(notices) && late_pop(notices, &notice))
		push(notices, &notice);
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

unsigned notices_read(struct notices *notices, struct notice *ret_notices, unsigned n)
{
	unsigned taken = 0;

	while (taken < n && notices->n > 0) {
		ret_notices[taken++] = notices->ring[notices->first];
		notices->first = (notices->first + 1) % notices->room;
		notices->n--;
		catch_up(notices);
	}
	while (taken < n && notices->room == 0 &&
	       late_pop(notices, &ret_notices[taken]))
		taken++;
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
