/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/hotplug.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"

/* A change of addresses is often several, and the device's own table follows a little later.
 * It is the shortest time from one look to the next, too. */
#define LOOK_MS 500

static int route_open(void)
{
	const struct sockaddr_nl groups = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return err_errno(-errno, "a netlink socket");
	if (bind(fd, (const struct sockaddr *)&groups, sizeof(groups))) {
		err = err_errno(-errno, "a netlink socket");
		(void)close(fd);
		return err;
	}
	return fd;
}

int verbs_hotplug_init(struct verbs_hotplug *hotplug)
{
	struct verbs_hotplug made = { .timer_fd = -1 };
	int err;

	made.route_fd = route_open();
	if (made.route_fd < 0)
		return made.route_fd;
	made.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (made.timer_fd < 0) {
		err = err_errno(-errno, "timerfd_create");
		(void)close(made.route_fd);
		return err;
	}
	*hotplug = made;
	return 0;
}

void verbs_hotplug_destroy(struct verbs_hotplug *hotplug)
{
	(void)close(hotplug->timer_fd);
	(void)close(hotplug->route_fd);
}

void verbs_hotplug_schedule(struct verbs_hotplug *hotplug)
{
	const struct itimerspec when = {
		.it_value = { .tv_sec = LOOK_MS / 1000,
			      .tv_nsec = LOOK_MS % 1000 * 1000000L },
	};

	if (hotplug->due)
		return;
	/* cannot fail with a descriptor and a time that are good */
	(void)timerfd_settime(hotplug->timer_fd, 0, &when, NULL);
	hotplug->due = true;
}

/* What exactly has changed is looked up; also when so much did that some was dropped. */
static void route_read(struct verbs_hotplug *hotplug)
{
	char message[4096];
	ssize_t got;

	while ((got = recv(hotplug->route_fd, message, sizeof(message), 0)) > 0 ||
	       (got < 0 && errno == ENOBUFS))
		verbs_hotplug_schedule(hotplug);
}

bool verbs_hotplug_due(struct verbs_hotplug *hotplug)
{
	uint64_t expirations;

	route_read(hotplug);
	if (!hotplug->due ||
	    read(hotplug->timer_fd, &expirations, sizeof(expirations)) < 0)
		return false;
	hotplug->due = false;
	return true;
}
