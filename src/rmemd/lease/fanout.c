/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/fanout.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/tenant.h"

/* Watchers told in one slice; one whose notifications are full is sent to at once. */
#define WATCHERS_PER_SLICE 64

struct fanout {
	struct lease *lease;
	struct notice_source source;
	struct notices waiting; /* room is reserved while there are any */
	struct notice now;      /* notice of this round */
	bool round;             /* the watchers with this value were told */
	struct slice_work work;
};

static void tell(const struct fanout *fanout, struct attachment *watcher)
{
	const struct leases *leases = fanout->lease->leases;

	notices_put(&watcher->client->notices,
		    &(struct notice){ .source = &watcher->notices,
				      .value = fanout->now.value,
				      .lost = fanout->now.lost });
	leases->events->client_notified(leases->ctx, watcher->client);
}

/* The next watcher to be told, which goes behind those that were; NULL: there is none. */
static struct attachment *next_watcher(const struct fanout *fanout)
{
	struct list *watchers = &fanout->lease->watchers;
	struct attachment *watcher = list_first(watchers, struct attachment, watching);

	if (!watcher || watcher->told == fanout->round)
		return NULL;
	watcher->told = fanout->round;
	list_move(watchers, &watcher->watching);
	return watcher;
}

/* Take the next notification.  False: there is none. */
static bool begin_round(struct fanout *fanout)
{
	if (notices_read(&fanout->waiting, &fanout->now, 1) == 0) {
		notices_close(&fanout->waiting);
		return false;
	}
	fanout->round = !fanout->round;
	return true;
}

static bool fanout_work(struct slice_work *work)
{
	struct fanout *fanout = container_of(work, struct fanout, work);
	struct turn *turn = fanout->lease->leases->slices->turn;
	unsigned n = 0;

	do {
		struct attachment *watcher = next_watcher(fanout);

		if (watcher) {
			tell(fanout, watcher);
			n++;
		} else if (!begin_round(fanout)) {
			return false;
		}
	} while (n < WATCHERS_PER_SLICE && !turn_over(turn));
	return true;
}

static int fanout_new(struct lease *lease)
{
	struct fanout *fanout = malloc(sizeof(*fanout));

	if (!fanout)
		return err_set(-ENOMEM, "no memory for notifications");
	*fanout = (struct fanout){ .lease = lease };
	notice_source_init(&fanout->source);
	notices_init(&fanout->waiting);
	slice_work_init(&fanout->work, fanout_work);
	lease->fanout = fanout;
	return 0;
}

int fanout_watch(struct attachment *attachment)
{
	struct lease *lease = attachment->lease;
	int err = lease->fanout ? 0 : fanout_new(lease);

	if (err)
		return err;
	attachment->told = lease->fanout->round;
	list_append(&lease->watchers, &attachment->watching);
	return 0;
}

void fanout_notify(const struct lease *lease, uint32_t value, uint32_t lost)
{
	struct fanout *fanout = lease->fanout;

	if (list_empty(&lease->watchers))
		return;
	/* without memory the last one is kept */
	if (!fanout->waiting.ring && list_empty(&fanout->source.late))
		(void)notices_open(&fanout->waiting, FABRIC_NOTIFICATIONS_MAX);
	notices_put(&fanout->waiting, &(struct notice){ .source = &fanout->source,
							.value = value,
							.lost = lost });
	/* in the next turn: those that come meanwhile go in one message */
	slices_add(lease->leases->slices, &lease->tenant->slices, &fanout->work);
}

void fanout_free(struct fanout *fanout)
{
	if (!fanout)
		return;
	slices_remove(&fanout->work);
	notices_drop(&fanout->waiting, &fanout->source);
	notices_close(&fanout->waiting);
	free(fanout);
}
