/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that were removed and come back, and addresses that move: the server's endpoints
 * follow them.  The kernel tells of addresses, so they are looked at soon after; of a device
 * that comes back it does not tell in a way that all kernels have, so while an endpoint serves
 * nobody it is looked for, slowly.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_HOTPLUG_H
#define FABRIC_VERBS_SERVER_HOTPLUG_H

#include <stdbool.h>

struct verbs_hotplug {
	int timer_fd; /* polls readable when it is time to look */
	int route_fd; /* rtnetlink: polls readable when an address came or went */
	bool due;     /* the timer is set */
};

/* -EMFILE, -ENFILE, -ENOMEM ... with text. */
int verbs_hotplug_init(struct verbs_hotplug *hotplug);
void verbs_hotplug_destroy(struct verbs_hotplug *hotplug);

/* An endpoint serves nobody any more, or might have to move: look in a while. */
void verbs_hotplug_schedule(struct verbs_hotplug *hotplug);
/* Whether it is time to rescan devices and addresses. */
bool verbs_hotplug_due(struct verbs_hotplug *hotplug);

#endif
