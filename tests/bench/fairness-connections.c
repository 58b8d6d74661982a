/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-connections ADDRESS CONTROL_PORT DATA_PORT PORT KEPT: connects to PORT as fast as it
 * can, and keeps the last KEPT connections.  Every second connection sends the first bytes of a
 * frame. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fairness-crowd.h"

struct connector {
	struct addrinfo *to;
	unsigned kept;
	int *fds; /* a ring; -1: none */
	uint64_t started, failed;
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
static int connect_start(struct connector *connector)
{
	static const char start[] = { 100, 0, 0, 0, 1 };
	int fd = socket(connector->to->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	must(fd >= 0, "socket");
	if (connect(fd, connector->to->ai_addr, connector->to->ai_addrlen) &&
	    errno != EINPROGRESS) {
		connector->failed++;
		(void)close(fd);
		return -1;
	}
	if (connector->started++ % 2)
		(void)send(fd, start, sizeof(start), MSG_NOSIGNAL);
	return fd;
}

int main(int argc, char **argv)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	static struct connector connector;
	unsigned numbers[2];
	char port[16];

	crowd_begin(argc, argv, "PORT KEPT", 2, numbers);
	connector.kept = numbers[1];
	(void)snprintf(port, sizeof(port), "%u", numbers[0]);
	must(getaddrinfo(address, port, &hints, &connector.to) == 0, "getaddrinfo");
	connector.fds = malloc(connector.kept * sizeof(*connector.fds));
	must(connector.fds != NULL, "malloc");
	for (unsigned i = 0; i < connector.kept; i++)
		connector.fds[i] = -1;
	for (unsigned i = 0; crowd_goes_on(); i = (i + 1) % connector.kept) {
		hang_up(connector.fds[i]);
		connector.fds[i] = connect_start(&connector);
	}
	crowd_report(connector.started, connector.failed);
	return 0;
}
