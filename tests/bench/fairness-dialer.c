/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-dialer ADDRESS CONTROL_PORT DATA_PORT PORT KEPT: connects to PORT as fast as it can and
 * keeps the last KEPT connections.  Every second connection sends the first bytes of a frame. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fairness-crowd.h"

struct dialer {
	struct addrinfo *to;
	unsigned kept;
	int *fds; /* a ring; -1: none */
	uint64_t dialled, failed;
};

/* Close with RST, so that no port of this host stays in TIME_WAIT. */
static void hang_up(int fd)
{
	const struct linger none = { .l_onoff = 1 };

	if (fd < 0)
		return;
	must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) == 0,
	     "SO_LINGER");
	(void)close(fd);
}

/* Connect without waiting: the daemon's queue of connections may be full. */
static int dial_start(struct dialer *dialer)
{
	static const char start[] = { 100, 0, 0, 0, 1 };
	int fd = socket(dialer->to->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	must(fd >= 0, "socket");
	if (connect(fd, dialer->to->ai_addr, dialer->to->ai_addrlen) &&
	    errno != EINPROGRESS) {
		dialer->failed++;
		(void)close(fd);
		return -1;
	}
	if (dialer->dialled++ % 2)
		(void)send(fd, start, sizeof(start), MSG_NOSIGNAL);
	return fd;
}

int main(int argc, char **argv)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	static struct dialer dialer;
	unsigned numbers[2];
	char port[16];

	crowd_begin(argc, argv, "PORT KEPT", 2, numbers);
	dialer.kept = numbers[1];
	(void)snprintf(port, sizeof(port), "%u", numbers[0]);
	must(getaddrinfo(address, port, &hints, &dialer.to) == 0, "getaddrinfo");
	dialer.fds = malloc(dialer.kept * sizeof(*dialer.fds));
	must(dialer.fds != NULL, "malloc");
	for (unsigned i = 0; i < dialer.kept; i++)
		dialer.fds[i] = -1;
	for (unsigned i = 0; crowd_goes_on(); i = (i + 1) % dialer.kept) {
		hang_up(dialer.fds[i]);
		dialer.fds[i] = dial_start(&dialer);
	}
	crowd_report(dialer.dialled, dialer.failed);
	return 0;
}
