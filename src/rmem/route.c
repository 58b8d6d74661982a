/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/route.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int route_parse(const char *server, struct route_end *ret_end)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
					.ai_socktype = SOCK_DGRAM };
	const char *colon = strrchr(server, ':');
	size_t skip = *server == '[';
	struct addrinfo *list;
	char host[96];

	if (!colon || (size_t)(colon - server) < 2 * skip)
		return -EINVAL;
	(void)snprintf(host, sizeof(host), "%.*s",
		       (int)((size_t)(colon - server) - 2 * skip), server + skip);
	if (getaddrinfo(host, colon + 1, &hints, &list))
		return -EINVAL;
	memcpy(&ret_end->address, list->ai_addr, list->ai_addrlen);
	ret_end->bytes = list->ai_addrlen;
	freeaddrinfo(list);
	return 0;
}

/* A datagram socket is connected without a packet; the kernel chooses its address by the route. */
static int local_find(const struct route_end *server, char ret_local[INET6_ADDRSTRLEN])
{
	int fd = socket(server->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0),
	    err = 0;
	struct sockaddr_storage local = { 0 };
	socklen_t bytes = sizeof(local);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&server->address, server->bytes) ||
	    getsockname(fd, (struct sockaddr *)&local, &bytes))
		err = -errno;
	(void)close(fd);
	if (!err && getnameinfo((struct sockaddr *)&local, bytes, ret_local,
				INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST))
		err = -EINVAL;
	return err;
}

int route_local(const char *server, char ret_local[INET6_ADDRSTRLEN])
{
	struct route_end end;
	int err = route_parse(server, &end);

	return err ? err : local_find(&end, ret_local);
}
