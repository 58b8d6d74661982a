/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/path.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd_wait.h"
#include "rmem/route.h"

/* In this time TCP sends three times what is lost near by. */
#define WAIT_MS 1000u
#define LOOK_MS 5
/* Every link carries packets of this length, in most networks of IPv4. */
#define LEAST_V4 576u
#define LEAST_V6 1280u
#define TIMESTAMPS_BYTES 12u

/* A connection whose packets have a limit. */
struct flow {
	int fd;
	unsigned packet; /* the longest */
	unsigned payload;
	unsigned wait_ms;
};

static unsigned headers_bytes(int family)
{
	return family == AF_INET ? 40 : 60;
}

static int flow_measure(struct flow *flow, int family)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);

	if (getsockopt(flow->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes))
		return err_errno(-errno, "TCP_INFO");
	flow->payload = info.tcpi_snd_mss;
	flow->packet = info.tcpi_snd_mss + headers_bytes(family);
	if (info.tcpi_options & TCPI_OPT_TIMESTAMPS)
		flow->packet += TIMESTAMPS_BYTES;
	flow->wait_ms = WAIT_MS + 4 * info.tcpi_rtt / 1000;
	return 0;
}

/* packet: the limit; 0: what TCP makes */
static int flow_connect(int fd, const struct route_end *to, unsigned packet,
			unsigned timeout_ms)
{
	int segment = (int)(packet - headers_bytes(to->address.ss_family)), err;
	socklen_t bytes = sizeof(err);

	/* TCP announces it, and keeps within it */
	if (packet &&
	    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)))
		return -errno;
	if (connect(fd, (const struct sockaddr *)&to->address, to->bytes) &&
	    errno != EINPROGRESS)
		return -errno;
	err = fd_wait(fd, POLLOUT, clock_now_ms() + timeout_ms, NULL);
	if (err)
		return err;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes))
		return -errno;
	return -err;
}

static int flow_open(const struct route_end *to, unsigned packet, unsigned timeout_ms,
		     struct flow *ret_flow)
{
	struct flow flow = { .fd = socket(to->address.ss_family,
					  SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
					  0) };
	int err;

	if (flow.fd < 0)
		return err_errno(-errno, "socket");
	err = flow_connect(flow.fd, to, packet, timeout_ms);
	if (err)
		err = err_errno(err, "connecting");
	else
		err = flow_measure(&flow, to->address.ss_family);
	if (err) {
		(void)close(flow.fd);
		return err;
	}
	*ret_flow = flow;
	return 0;
}

/* Whether a packet of the greatest length arrives: it is acknowledged, or answered. */
static bool flow_carries(const struct flow *flow)
{
	/* the beginning of a record of TLS, which a server without TLS refuses */
	static const char begin[65536] = { 22, 3, 1, 0x40, 0 };
	struct pollfd answer = { .fd = flow->fd, .events = POLLIN };
	uint64_t end_ms = clock_now_ms() + flow->wait_ms;
	size_t bytes = flow->payload < sizeof(begin) ? flow->payload : sizeof(begin);
	int unacked = 0;

	if (send(flow->fd, begin, bytes, MSG_NOSIGNAL) < 0)
		return false;
	do {
		if (poll(&answer, 1, LOOK_MS) > 0)
			return true;
		if (ioctl(flow->fd, SIOCOUTQ, &unacked) == 0 && unacked == 0)
			return true;
	} while (clock_now_ms() < end_ms);
	return false;
}

/* A connection of its own for each length, as TCP keeps sending what is lost. */
static int path_try(const struct route_end *to, unsigned packet, unsigned timeout_ms,
		    struct flow *ret_flow, bool *ret_arrives)
{
	int err = flow_open(to, packet, timeout_ms, ret_flow);

	if (err)
		return err;
	*ret_arrives = flow_carries(ret_flow);
	(void)close(ret_flow->fd);
	return 0;
}

/* Find the longest packet that arrives, between one that does and one that does not. */
static int path_narrow(const struct route_end *to, unsigned timeout_ms,
		       unsigned arrives, unsigned lost, unsigned *ret_arrives)
{
	struct flow flow;
	bool good;

	while (lost - arrives > 1) {
		unsigned packet = arrives + (lost - arrives) / 2;
		int err = path_try(to, packet, timeout_ms, &flow, &good);

		if (err)
			return err;
		if (good)
			arrives = packet;
		else
			lost = packet;
	}
	*ret_arrives = arrives;
	return 0;
}

int path_examine(const char *server, unsigned timeout_ms, struct path *ret_path)
{
	struct path path = { 0 };
	struct route_end to;
	unsigned least;
	struct flow flow;
	bool good;
	int err = route_parse(server, &to);

	if (!err)
		err = path_try(&to, 0, timeout_ms, &flow, &good);
	if (err)
		return err;
	least = to.address.ss_family == AF_INET ? LEAST_V4 : LEAST_V6;
	path.sent = flow.packet;
	path.wait_ms = flow.wait_ms;
	if (good)
		path.arrives = path.sent;
	else if (path.sent > least)
		err = path_try(&to, least, timeout_ms, &flow, &good);
	if (!err && good && path.arrives == 0)
		err = path_narrow(&to, timeout_ms, least, path.sent, &path.arrives);
	if (!err)
		*ret_path = path;
	return err;
}
