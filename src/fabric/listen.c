/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/address.h"

/* An address of IPv6, the wildcard too, is of IPv6 alone, whatever net.ipv6.bindv6only says: that
 * of IPv4 is an address of its own. */
static int options_set(int fd, const struct fabric_address *address)
{
	const int on = 1, freely = !fabric_address_is_loopback(address);

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		return -1;
	if (address->family == 4)
		return setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &freely, sizeof(freely));
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &freely, sizeof(freely)))
		return -1;
	return setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
}

static int socket_open(const struct fabric_address *address, int type)
{
	return socket(address->family == 4 ? AF_INET : AF_INET6,
		      type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int fabric_listen(const struct fabric_address *address, int backlog)
{
	struct sockaddr_storage at;
	socklen_t bytes = fabric_address_to_sockaddr(address, &at);
	int fd = socket_open(address, SOCK_STREAM), err;

	if (fd < 0)
		return -errno;
	if (!options_set(fd, address) && !bind(fd, (struct sockaddr *)&at, bytes) &&
	    !listen(fd, backlog))
		return fd;
	err = -errno;
	(void)close(fd);
	return err;
}

bool fabric_address_is_here(const struct fabric_address *address)
{
	struct fabric_address any_port = *address;
	struct sockaddr_storage at;
	socklen_t bytes;
	int fd = socket_open(address, SOCK_DGRAM);
	bool here;

	if (fd < 0)
		return true;
	any_port.port = 0;
	bytes = fabric_address_to_sockaddr(&any_port, &at);
	here = !bind(fd, (struct sockaddr *)&at, bytes) || errno != EADDRNOTAVAIL;
	(void)close(fd);
	return here;
}
