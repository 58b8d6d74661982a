/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/linger.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/verbs/server/channel.h"

/* Far longer than a refusal takes on a wire that loses packets now and then. */
#define LINGER_MS 1000u

int verbs_linger_init(struct verbs_linger *linger)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return err_errno(-errno, "timerfd_create");
	linger->fd = fd;
	linger->armed = false;
	list_init(&linger->channels);
	return 0;
}

void verbs_linger_destroy(struct verbs_linger *linger)
{
	(void)close(linger->fd);
}

/* Wake when the first is due; without any, not again. */
static void linger_arm(struct verbs_linger *linger)
{
	const struct verbs_channel *first =
		list_first(&linger->channels, struct verbs_channel, lingering);
	uint64_t now_ms = clock_now_ms(), wait_ms = 0;
	struct itimerspec when = { 0 };

	if (first)
		wait_ms = first->due_ms > now_ms ? first->due_ms - now_ms : 1;
	when.it_value.tv_sec = (time_t)(wait_ms / 1000);
	when.it_value.tv_nsec = (long)(wait_ms % 1000) * 1000000;
	/* cannot fail with a descriptor and a time that are good */
	(void)timerfd_settime(linger->fd, 0, &when, NULL);
	linger->armed = first != NULL;
}

void verbs_linger_add(struct verbs_linger *linger, struct verbs_channel *channel)
{
	channel->due_ms = clock_now_ms() + LINGER_MS;
	list_append(&linger->channels, &channel->lingering);
	linger_arm(linger);
}

void verbs_linger_process(struct verbs_linger *linger,
			  void (*fail)(struct verbs_channel *channel, const char *why))
{
	struct verbs_channel *channel;
	uint64_t expirations;

	/* most of the time the timer is not what woke the loop */
	if (!linger->armed || read(linger->fd, &expirations, sizeof(expirations)) < 0)
		return;
	while ((channel = list_first(&linger->channels, struct verbs_channel,
				     lingering)) &&
	       channel->due_ms <= clock_now_ms())
		fail(channel, channel->why);
	linger_arm(linger);
}
