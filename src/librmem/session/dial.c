/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own_fd.h"

/* How long an address is tried alone: RFC 8305, section 5. */
#define NEXT_MS 250u
/* Limit of the wait for the epoll set, which has other descriptors. */
#define WAIT_MAX_MS 60000u

struct attempt {
	const struct addrinfo *at;
	int fd;      /* connecting; -1: not */
	bool failed; /* for good */
};

struct dial {
	int epfd;
	uint64_t begun_ns, next_ns;
	int err; /* of the last attempt that failed */
	char text[ERR_TEXT_BYTES];
	unsigned n, result;
	struct attempt attempts[];
};

static bool address_is(const struct addrinfo *at, const struct sockaddr *address)
{
	return address && at->ai_addr->sa_family == address->sa_family &&
	       memcmp(at->ai_addr, address, at->ai_addrlen) == 0;
}

/* The families take turns, as one of them may not get through at all: RFC 8305, section 4. */
static void attempts_interleave(struct dial *dial)
{
	struct attempt *attempts = dial->attempts, next;

	for (unsigned i = 1, k; i < dial->n; i++) {
		for (k = i; k < dial->n &&
			    attempts[k].at->ai_family == attempts[i - 1].at->ai_family;)
			k++;
		if (k == dial->n)
			return;
		next = attempts[k];
		memmove(&attempts[i + 1], &attempts[i], (k - i) * sizeof(next));
		attempts[i] = next;
	}
}

int dial_create(int epfd, const struct addrinfo *list, const struct sockaddr *first,
		struct dial **ret_dial)
{
	const struct addrinfo *at;
	struct dial *dial;
	unsigned n = 0;

	for (at = list; at; at = at->ai_next)
		n++;
	dial = calloc(1, sizeof(*dial) + n * sizeof(dial->attempts[0]));
	if (!dial)
		return err_set(-ENOMEM, "no memory for %u addresses", n);
	dial->epfd = epfd;
	dial->begun_ns = clock_now_ns();
	for (at = list; at; at = at->ai_next, dial->n++) {
		struct attempt *to = &dial->attempts[dial->n];

		if (address_is(at, first)) {
			*to = dial->attempts[0];
			to = &dial->attempts[0];
		}
		*to = (struct attempt){ .at = at, .fd = -1 };
	}
	attempts_interleave(dial);
	*ret_dial = dial;
	return 0;
}

static void attempt_stop(struct attempt *attempt)
{
	/* closing removes it from the epoll set, as it is never duplicated */
	if (attempt->fd >= 0)
		(void)close(attempt->fd);
	attempt->fd = -1;
}

static void attempts_stop(struct dial *dial)
{
	for (unsigned i = 0; i < dial->n; i++)
		attempt_stop(&dial->attempts[i]);
}

void dial_free(struct dial *dial)
{
	if (dial)
		attempts_stop(dial);
	free(dial);
}

void dial_address_text(const struct addrinfo *at, char ret_text[DIAL_TEXT_BYTES])
{
	char host[INET6_ADDRSTRLEN + 16] = "?", port[8] = "?";

	(void)getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof(host), port,
			  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	(void)snprintf(ret_text, DIAL_TEXT_BYTES,
		       at->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

/* Add the thread's error text to that of the dial. */
static void attempt_fail(struct dial *dial, struct attempt *attempt, int err)
{
	char address[DIAL_TEXT_BYTES];
	size_t bytes = strlen(dial->text);

	dial_address_text(attempt->at, address);
	(void)snprintf(dial->text + bytes, sizeof(dial->text) - bytes, "%s%s: %s",
		       bytes ? "; " : "", address, err_text());
	dial->err = err;
	attempt->failed = true;
	attempt_stop(attempt);
}

/* The kernel says only that an argument is invalid. */
static int check_scope(const struct addrinfo *at)
{
	struct sockaddr_in6 in6;
	char host[INET6_ADDRSTRLEN];

	if (at->ai_family != AF_INET6)
		return 0;
	memcpy(&in6, at->ai_addr, sizeof(in6));
	if (!IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) || in6.sin6_scope_id)
		return 0;
	return err_set(-EINVAL,
		       "a link-local address needs the interface that leads to it, as "
		       "in [%s%%eth0]",
		       inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host)));
}

static int socket_begin(const struct addrinfo *at, int *ret_fd)
{
	int fd = own_fd(
		socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	int on = 1, off = 0, err;

	if (fd < 0)
		return err_errno(-errno, "a socket");
	/* failures cost only speed: requests are sent at once, and carry the acknowledgement of
	 * earlier packets, from the connection's first packets on */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
	if (connect(fd, at->ai_addr, at->ai_addrlen) < 0 && errno != EINPROGRESS) {
		err = err_errno(-errno, "connecting");
		(void)close(fd);
		return err;
	}
	*ret_fd = fd;
	return 0;
}

static void attempt_begin(struct dial *dial, struct attempt *attempt)
{
	struct epoll_event event = { .events = EPOLLOUT };
	int err = check_scope(attempt->at);

	if (!err)
		err = socket_begin(attempt->at, &attempt->fd);
	if (!err && epoll_ctl(dial->epfd, EPOLL_CTL_ADD, attempt->fd, &event) < 0)
		err = err_errno(-errno, "watching a connection");
	if (err)
		attempt_fail(dial, attempt, err);
}

/* Whether it is connected. */
static bool attempt_look(struct dial *dial, struct attempt *attempt)
{
	struct pollfd pollfd = { .fd = attempt->fd, .events = POLLOUT };
	int err = 0;
	socklen_t bytes = sizeof(err);

	if (attempt->fd < 0 || poll(&pollfd, 1, 0) <= 0)
		return false;
	if (!(pollfd.revents & (POLLERR | POLLHUP)))
		return true;
	if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &err, &bytes) < 0)
		err = errno;
	if (err == 0)
		err = ECONNRESET;
	attempt_fail(dial, attempt, err_errno(-err, "connecting"));
	return false;
}

/* The connected one; -1: none.  *ret_pending: some are connecting. */
static int attempts_look(struct dial *dial, bool *ret_pending)
{
	*ret_pending = false;
	for (unsigned i = 0; i < dial->n; i++) {
		if (attempt_look(dial, &dial->attempts[i]))
			return (int)i;
		*ret_pending |= dial->attempts[i].fd >= 0;
	}
	return -1;
}

static struct attempt *attempt_next(struct dial *dial)
{
	for (unsigned i = 0; i < dial->n; i++)
		if (dial->attempts[i].fd < 0 && !dial->attempts[i].failed)
			return &dial->attempts[i];
	return NULL;
}

static int result_take(struct dial *dial, unsigned number)
{
	int fd = dial->attempts[number].fd;

	(void)epoll_ctl(dial->epfd, EPOLL_CTL_DEL, fd, NULL);
	dial->attempts[number].fd = -1;
	dial->result = number;
	dial->next_ns = 0;
	attempts_stop(dial);
	return fd;
}

int dial_work(struct dial *dial, uint64_t now_ns, int *ret_fd)
{
	for (;;) {
		bool pending;
		int result = attempts_look(dial, &pending);
		struct attempt *next = attempt_next(dial);

		if (result >= 0) {
			*ret_fd = result_take(dial, (unsigned)result);
			return 0;
		}
		if (!pending && !next)
			return err_set(dial->err, "%s", dial->text);
		if (!next || (pending && now_ns < dial->next_ns))
			return -EAGAIN;
		dial->next_ns = now_ns + NEXT_MS * NS_PER_MS;
		attempt_begin(dial, next);
	}
}

uint64_t dial_due(const struct dial *dial)
{
	for (unsigned i = 0; i < dial->n; i++)
		if (dial->attempts[i].fd < 0 && !dial->attempts[i].failed)
			return dial->next_ns;
	return UINT64_MAX;
}

/* The time is over: what is connecting has failed. */
static int dial_expire(struct dial *dial)
{
	uint64_t ms = (clock_now_ns() - dial->begun_ns) / NS_PER_MS;

	for (unsigned i = 0; i < dial->n; i++)
		if (dial->attempts[i].fd >= 0)
			attempt_fail(dial, &dial->attempts[i],
				     err_set(-ETIMEDOUT,
					     "no answer within %" PRIu64 " ms", ms));
	return err_set(dial->err ? dial->err : -ETIMEDOUT, "%s",
		       dial->err ? dial->text : "no time is left to connect");
}

int dial_wait(struct dial *dial, uint64_t deadline_ns, int *ret_fd)
{
	for (;;) {
		struct pollfd pollfd = { .fd = dial->epfd, .events = POLLIN };
		uint64_t now_ns = clock_now_ns(), until_ns, ms;
		int err = dial_work(dial, now_ns, ret_fd);

		if (err != -EAGAIN)
			return err;
		if (now_ns >= deadline_ns)
			return dial_expire(dial);
		until_ns = dial_due(dial) < deadline_ns ? dial_due(dial) : deadline_ns;
		ms = until_ns > now_ns ? (until_ns - now_ns) / NS_PER_MS + 1 : 0;
		if (poll(&pollfd, 1, (int)(ms < WAIT_MAX_MS ? ms : WAIT_MAX_MS)) < 0 &&
		    errno != EINTR)
			return err_errno(-errno, "poll");
	}
}

const struct addrinfo *dial_address(const struct dial *dial)
{
	return dial->attempts[dial->result].at;
}

unsigned dial_left(const struct dial *dial)
{
	unsigned n = 0;

	for (unsigned i = 0; i < dial->n; i++)
		n += !dial->attempts[i].failed;
	return n;
}

void dial_reject(struct dial *dial, int err)
{
	attempt_fail(dial, &dial->attempts[dial->result], err);
}
