/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/err.h"

#define IDLE_S 10             /* silence before the first probe */
#define PROBE_S 3             /* between probes */
#define PROBES 5              /* without an answer, then the peer is gone */
#define USER_TIMEOUT_MS 20000 /* data not acknowledged, or not received by the peer */

struct socket_option {
	int level, name, value;
};

static int options_set(int fd, const struct socket_option *options, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			       sizeof(options[i].value)) != 0)
			return err_errno(-errno, "socket option %d of a data stream",
					 options[i].name);
	return 0;
}

int tcp_socket_tune(int fd)
{
	static const struct socket_option options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, PROBES },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS },
	};

	return options_set(fd, options, sizeof(options) / sizeof(options[0]));
}

int tcp_socket_limit_silence(int fd, unsigned ms)
{
	/* the first probe leaves time for others */
	int probe_s = ms < 4000 ? 1 : (int)(ms / 4000);
	const struct socket_option options[] = {
		{ IPPROTO_TCP, TCP_KEEPIDLE, probe_s },
		{ IPPROTO_TCP, TCP_KEEPINTVL, probe_s },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, (int)ms },
	};

	return options_set(fd, options, sizeof(options) / sizeof(options[0]));
}
