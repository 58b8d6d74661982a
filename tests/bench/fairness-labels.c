/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-labels ADDRESS CONTROL_PORT DATA_PORT LEASES: named leases, each of which a session has
 * made that had a label of its own, of the greatest length, and has ended.  Prints "ready" when
 * there are LEASES.  Then one after the other is removed and made again, in a session with another
 * label. */
#include <stdio.h>
#include <unistd.h>

#include "fairness-crowd.h"

static uint64_t refused;

/* Ask the daemon for what `msg` has. */
static void request(int fd)
{
	refused += !(ask(fd) && answer.type != WIRE_TYPE_error);
}

static void name_set(char name[WIRE_NAME_MAX + 1], unsigned lease)
{
	(void)snprintf(name, WIRE_NAME_MAX + 1, "labelled-%d-%u", (int)getpid(), lease);
}

static void lease_remove(int fd, unsigned lease)
{
	message(WIRE_TYPE_remove);
	name_set(msg.remove.name, lease);
	request(fd);
}

static void lease_make(int fd, unsigned lease)
{
	message(WIRE_TYPE_allocate);
	msg.allocate.bytes = 4096;
	msg.allocate.node = -1;
	name_set(msg.allocate.name, lease);
	request(fd);
}

/* Open a session; its label is the number. */
static int labelled_open(unsigned number)
{
	int fd = peer_connect(control_port);

	hello_make();
	(void)snprintf(msg.hello.client, sizeof(msg.hello.client), "%0*u",
		       WIRE_LABEL_MAX, number);
	request(fd);
	return fd;
}

static void labelled_end(int fd)
{
	message(WIRE_TYPE_bye);
	request(fd);
	crowd_hang_up(fd);
}

int main(int argc, char **argv)
{
	unsigned leases, made = 0;

	crowd_begin(argc, argv, "LEASES", 1, &leases);
	must(leases > 0, "LEASES is 0");
	for (; crowd_goes_on(); made++) {
		int fd = labelled_open(made);

		if (made >= leases)
			lease_remove(fd, made % leases);
		lease_make(fd, made % leases);
		labelled_end(fd);
		if (made + 1 == leases)
			crowd_ready();
	}
	crowd_report(made, refused);
	return 0;
}
