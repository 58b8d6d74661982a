/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/delays.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

static const unsigned delay_ms[VERBS_N_DELAYS] = {
	/* Enough for two losses of the client's last message: InfiniBand's CM repeats its own
	 * message, which asks for it, after 4.3 s.  It would do so for a minute. */
	[VERBS_DELAY_ESTABLISH] = 10000,
	/* enough for the NAK of a refused request to reach the client, with retransmissions, and
	 * for the client to disconnect */
	[VERBS_DELAY_PEER_DISCONNECT] = 1000,
	/* the driver siw ends the connection, and reports the refused access right after that */
	[VERBS_DELAY_CAUSE] = 100,
	[VERBS_DELAY_DISCONNECT_REPLY] = 100,
	/* Addresses often change several at a time, and the device's GID table follows a little
	 * later.  This is also the shortest time between two scans. */
	[VERBS_DELAY_RESCAN] = 500,
};

int verbs_delays_init(struct verbs_delays *delays)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return err_errno(-errno, "timerfd_create");
	delays->fd = fd;
	delays->armed = false;
	for (unsigned i = 0; i < VERBS_N_DELAYS; i++)
		list_init(&delays->queues[i]);
	return 0;
}

void verbs_delays_destroy(struct verbs_delays *delays)
{
	(void)close(delays->fd);
}

/* Set the timer to the first action that is due; stop it if there is none. */
static void delays_arm(struct verbs_delays *delays)
{
	uint64_t now_ms = clock_now_ms(), due_ms = UINT64_MAX, wait_ms;
	struct itimerspec when = { 0 };

	for (unsigned i = 0; i < VERBS_N_DELAYS; i++) {
		const struct verbs_delayed *first =
			list_first(&delays->queues[i], struct verbs_delayed, link);

		if (first && first->due_ms < due_ms)
			due_ms = first->due_ms;
	}
	delays->armed = due_ms != UINT64_MAX;
	if (delays->armed) {
		wait_ms = due_ms > now_ms ? due_ms - now_ms : 1;
		when.it_value.tv_sec = (time_t)(wait_ms / 1000);
		when.it_value.tv_nsec = (long)(wait_ms % 1000) * 1000000;
	}
	/* cannot fail with a descriptor and a time that are good */
	(void)timerfd_settime(delays->fd, 0, &when, NULL);
}

void verbs_delays_add(struct verbs_delays *delays, enum verbs_delay delay,
		      struct verbs_delayed *delayed)
{
	bool first = list_empty(&delays->queues[delay]);

	delayed->due_ms = clock_now_ms() + delay_ms[delay];
	list_append(&delays->queues[delay], &delayed->link);
	if (first)
		delays_arm(delays);
}

static void queue_process(struct list *queue, uint64_t until_ns)
{
	struct verbs_delayed *delayed;

	while ((delayed = list_first(queue, struct verbs_delayed, link)) &&
	       delayed->due_ms <= clock_now_ms() && clock_now_ns() < until_ns) {
		list_remove(&delayed->link);
		delayed->due(delayed);
	}
}

void verbs_delays_process(struct verbs_delays *delays)
{
	uint64_t until_ns = clock_now_ns() + VERBS_TURN_NS, expirations;

	/* most of the time the timer is not what woke the loop */
	if (!delays->armed || read(delays->fd, &expirations, sizeof(expirations)) < 0)
		return;
	for (unsigned i = 0; i < VERBS_N_DELAYS; i++)
		queue_process(&delays->queues[i], until_ns);
	delays_arm(delays);
}
