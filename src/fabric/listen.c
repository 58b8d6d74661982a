/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/address.h"

/* Connections that the kernel holds until they are accepted: the clients of a rack, or what arrives
 * during a turn of the loop.  Beyond it SYNs are lost, and their clients wait for a second. */
#define BACKLOG 1024
/* Accepted in a row before others get their turn. */
#define ACCEPTS_MAX 16

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

int fabric_listen(const struct fabric_address *address)
{
	struct sockaddr_storage at;
	socklen_t bytes = fabric_address_to_sockaddr(address, &at);
	int fd = socket_open(address, SOCK_STREAM), err;

	if (fd < 0)
		return -errno;
	if (!options_set(fd, address) && !bind(fd, (struct sockaddr *)&at, bytes) &&
	    !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	(void)close(fd);
	return err;
}

/* Family 0: no address of IP. */
static struct fabric_address address_of(const struct sockaddr_storage *at)
{
	struct fabric_address address = { .family = 0 };
	struct sockaddr_in in;

	/* the port, which both families have at one offset */
	memcpy(&in, at, sizeof(in));
	if (fabric_address_from_sockaddr((const struct sockaddr *)at, &address))
		address.port = ntohs(in.sin_port);
	return address;
}

int fabric_socket_address(int fd, struct fabric_address *ret_address)
{
	struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
	socklen_t bytes = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &bytes))
		return -errno;
	*ret_address = address_of(&at);
	return 0;
}

int fabric_accept(int fd,
		  void (*accepted)(void *ctx, int fd,
				   const struct fabric_address *from),
		  void *ctx)
{
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
		struct fabric_address from;
		socklen_t bytes = sizeof(at);
		int peer = accept4(fd, (struct sockaddr *)&at, &bytes,
				   SOCK_CLOEXEC | SOCK_NONBLOCK);
		int err = peer < 0 ? -errno : 0;

		if (err == -EAGAIN)
			return 0;
		if (err_is_lack(err))
			return err_set(err,
				       "connections cannot be accepted for now: %s%s",
				       strerrordesc_np(-err),
				       err == -EMFILE ? "; raise LimitNOFILE" : "");
		/* another error is one of that connection */
		if (err)
			continue;
		from = address_of(&at);
		accepted(ctx, peer, &from);
	}
	return 0;
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

int fabric_address_source(const struct fabric_address *to,
			  struct fabric_address *ret_source)
{
	struct sockaddr_storage at;
	socklen_t bytes = fabric_address_to_sockaddr(to, &at);
	int fd = socket_open(to, SOCK_DGRAM), err;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&at, bytes))
		err = -errno;
	else
		err = fabric_socket_address(fd, ret_source);
	(void)close(fd);
	return err;
}
