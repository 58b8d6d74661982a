/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-names ADDRESS CONTROL_PORT DATA_PORT SESSIONS LEASES: LEASES leases with names of the
 * greatest length, which SESSIONS sessions all attach and watch; each session has a port for
 * channels, so that each attachment has a key.  Prints "ready" when they do.  Then one lease after
 * the other is removed and made again, and all attach and watch it again. */
#include <stdio.h>

#include "fairness-crowd.h"

#define TURN_MS 100

static struct crowd crowd;

static void name_set(char name[WIRE_NAME_MAX + 1], unsigned lease)
{
	(void)snprintf(name, WIRE_NAME_MAX + 1, "%0*u", WIRE_NAME_MAX, lease);
}

static void ports_open(void)
{
	for (unsigned i = 0; i < crowd.n; i++) {
		message(WIRE_TYPE_open_channel);
		(void)crowd_post(&crowd, i);
	}
	crowd_await_all(&crowd, NULL, NULL);
}

/* The lease is attached: watch it. */
static void on_reply(void *, unsigned member)
{
	uint64_t lease = answer.lease.lease;

	if (answer.type != WIRE_TYPE_lease)
		return;
	message(WIRE_TYPE_watch);
	msg.watch.lease = lease;
	(void)crowd_post(&crowd, member);
}

/* On a busy machine the daemon may have fenced the first session: it is opened again. */
static void first_await(void)
{
	while (crowd.polls[0].fd < 0 && crowd_goes_on())
		crowd_turn(&crowd, TURN_MS, NULL, NULL);
}

/* The first session makes the lease, and the others attach it. */
static void lease_make(unsigned lease)
{
	first_await();
	message(WIRE_TYPE_allocate);
	msg.allocate.bytes = 4096;
	msg.allocate.node = -1;
	name_set(msg.allocate.name, lease);
	(void)crowd_ask(&crowd, 0);
	for (unsigned i = 1; i < crowd.n; i++) {
		message(WIRE_TYPE_attach);
		msg.attach.rights = WIRE_RIGHT_READ | WIRE_RIGHT_WRITE;
		name_set(msg.attach.name, lease);
		(void)crowd_post(&crowd, i);
	}
	crowd_await_all(&crowd, on_reply, NULL);
}

static void lease_remove(unsigned lease)
{
	first_await();
	message(WIRE_TYPE_remove);
	name_set(msg.remove.name, lease);
	(void)crowd_ask(&crowd, 0);
}

int main(int argc, char **argv)
{
	unsigned numbers[2], leases, made = 0;

	crowd_begin(argc, argv, "SESSIONS LEASES", 2, numbers);
	leases = numbers[1];
	must(leases > 0, "LEASES is 0");
	crowd_open(&crowd, numbers[0]);
	ports_open();
	while (made < leases && crowd_goes_on())
		lease_make(made++);
	crowd_ready();
	while (crowd_goes_on()) {
		lease_remove(made % leases);
		lease_make(made++ % leases);
	}
	crowd_report(made, crowd.refused);
	return 0;
}
