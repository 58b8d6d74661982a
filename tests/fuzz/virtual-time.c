/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/virtual-time.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"

#define BEGIN_MS 1000
#define READ_NS 1000 /* each look at the clock takes this time, so that loops end */
#define ENDLESS_S 1000000
#define TIMERS 16
#define ENDLESS_WAIT_MS 1000 /* of a wait without a limit */

int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __real_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *before);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *mask);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *before);

static uint64_t now_ns;

/* A timer of the kernel, which is started when its time has come. */
static struct timer {
	int fd;
	uint64_t due_ns; /* UINT64_MAX: disarmed, or it has expired */
} timers[TIMERS];
static unsigned n_timers;

static uint64_t source(void)
{
	now_ns += READ_NS;
	return now_ns;
}

void virtual_time_reset(void)
{
	now_ns = BEGIN_MS * NS_PER_MS;
	n_timers = 0;
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

/* ---- timers ---- */

static struct timer *timer_of(int fd)
{
	unsigned i = 0;

	while (i < n_timers && timers[i].fd != fd)
		i++;
	if (i == TIMERS)
		abort();
	if (i == n_timers)
		timers[n_timers++] = (struct timer){ fd, UINT64_MAX };
	return &timers[i];
}

static struct timer *timer_next(void)
{
	struct timer *next = NULL;

	for (unsigned i = 0; i < n_timers; i++)
		if (!next || timers[i].due_ns < next->due_ns)
			next = &timers[i];
	return next;
}

/* Let a timer expire that is due until until_ns.  False: there is none. */
static bool timer_run(uint64_t until_ns)
{
	static const struct itimerspec at_once = { .it_value = { .tv_nsec = 1 } };
	struct timer *timer = timer_next();
	struct pollfd pollfd = { .events = POLLIN };

	if (!timer || timer->due_ns > until_ns)
		return false;
	if (now_ns < timer->due_ns)
		now_ns = timer->due_ns;
	timer->due_ns = UINT64_MAX;
	pollfd.fd = timer->fd;
	/* it may be closed meanwhile */
	if (__real_timerfd_settime(timer->fd, 0, &at_once, NULL) == 0)
		(void)__real_poll(&pollfd, 1, -1);
	return true;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *before)
{
	static const struct itimerspec never;
	uint64_t ns = (uint64_t)when->it_value.tv_sec * 1000000000 +
		      (uint64_t)when->it_value.tv_nsec;

	if (!(flags & TFD_TIMER_ABSTIME) && ns)
		ns += now_ns;
	timer_of(fd)->due_ns = ns ? ns : UINT64_MAX;
	return __real_timerfd_settime(fd, 0, &never, before);
}

/* ---- waiting ---- */

/* Advance the clock until a timer is due, or the wait is over.  True: look again. */
static bool wait_more(uint64_t *left_ns)
{
	uint64_t before_ns = now_ns, until_ns = now_ns + *left_ns;

	if (*left_ns == 0)
		return false;
	if (!timer_run(until_ns)) {
		now_ns = until_ns;
		return false;
	}
	*left_ns -= now_ns - before_ns;
	return true;
}

static uint64_t wait_ns(int timeout_ms)
{
	return (timeout_ms < 0 ? ENDLESS_WAIT_MS : (uint64_t)timeout_ms) * NS_PER_MS;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	uint64_t left_ns = wait_ns(timeout_ms);
	int got;

	(void)timer_run(now_ns);
	while ((got = __real_poll(fds, n, 0)) == 0 && wait_more(&left_ns))
		;
	return got;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *)
{
	int timeout_ms = -1;

	if (timeout && timeout->tv_sec < ENDLESS_S)
		timeout_ms =
			(int)(timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000) + 1;
	return __wrap_poll(fds, n, timeout_ms);
}

int __wrap_epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms)
{
	uint64_t left_ns = wait_ns(timeout_ms);
	int got;

	(void)timer_run(now_ns);
	while ((got = __real_epoll_wait(epfd, events, max, 0)) == 0 &&
	       wait_more(&left_ns))
		;
	return got;
}
