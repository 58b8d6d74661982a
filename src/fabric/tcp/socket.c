/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define IDLE_S 10             /* silence before the first probe */
#define PROBE_S 3             /* between probes */
#define PROBES 5              /* without an answer, then the peer is gone */
#define USER_TIMEOUT_MS 20000 /* data not acknowledged, or not received by the peer */

socklen_t tcp_socket_address(const struct fabric_address *address,
			     struct sockaddr_storage *ret_addr)
{
	struct sockaddr_storage addr = { 0 };
	socklen_t len;

	if (address->family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)(void *)&addr;

		in->sin_family = AF_INET;
		in->sin_port = htons(address->port);
		memcpy(&in->sin_addr, address->bytes, sizeof(in->sin_addr));
		len = sizeof(*in);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&addr;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(address->port);
		memcpy(&in6->sin6_addr, address->bytes, sizeof(in6->sin6_addr));
		len = sizeof(*in6);
	}
	*ret_addr = addr;
	return len;
}

const char *tcp_socket_text(const struct fabric_address *address,
			    char buf[TCP_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "";

	if (address->family == 0) {
		(void)snprintf(buf, TCP_ADDRESS_TEXT, "*:%u", address->port);
		return buf;
	}
	/* the buffer suffices and the family is known, so this cannot fail */
	(void)inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, host,
			sizeof(host));
	(void)snprintf(buf, TCP_ADDRESS_TEXT,
		       address->family == 4 ? "%s:%u" : "[%s]:%u", host, address->port);
	return buf;
}

int tcp_socket_tune(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, PROBES },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			       sizeof(options[i].value)) != 0)
			return err_errno(-errno, "socket option %d of a data stream",
					 options[i].name);
	return 0;
}
