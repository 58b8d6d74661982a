/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/virtual-time.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"

#define BEGIN_MS 1000
#define READ_NS 1000 /* each look at the clock takes this time, so that loops end */
#define ENDLESS_S 1000000
#define ENDLESS_WAIT_MS 1000 /* of a wait without a limit */

int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __real_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms);
int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *mask);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *before);

static uint64_t now_ns;

static uint64_t source(void)
{
	now_ns += READ_NS;
	return now_ns;
}

void virtual_time_reset(void)
{
	now_ns = BEGIN_MS * NS_PER_MS;
	clock_set_source(source);
}

uint64_t virtual_time_ms(void)
{
	return now_ns / NS_PER_MS;
}

void virtual_time_pass(uint64_t ms)
{
	now_ns += ms * NS_PER_MS;
}

static int waited(int n, int timeout_ms)
{
	if (n == 0)
		virtual_time_pass(timeout_ms < 0 ? ENDLESS_WAIT_MS
						 : (uint64_t)timeout_ms);
	return n;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	return waited(__real_poll(fds, n, 0), timeout_ms);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *mask)
{
	static const struct timespec none;
	int timeout_ms = -1;

	if (timeout)
		timeout_ms =
			(int)(timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000) + 1;
	return waited(__real_ppoll(fds, n, &none, mask), timeout_ms);
}

int __wrap_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms)
{
	return waited(__real_epoll_wait(epfd, events, max, 0), timeout_ms);
}

int __wrap_timerfd_settime(int, int, const struct itimerspec *, struct itimerspec *)
{
	return 0;
}
