/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/wakeup.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own_fd.h"

/* Of a family that connections to servers need, too: a sandbox may allow one alone. */
static int socket_new(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* another family has no more descriptors or memory */
	if (fd < 0 && !err_is_lack(-errno))
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return own_fd(fd);
}

/* In a set. */
static int socket_open(struct wakeup *wakeup)
{
	struct epoll_event event = { .events = 0, .data.u64 = wakeup->tag };
	int fd = socket_new(), err;

	if (fd < 0)
		return -errno;
	if (epoll_ctl(wakeup->epfd, EPOLL_CTL_ADD, fd, &event) < 0) {
		err = -errno;
		(void)close(fd);
		return err;
	}
	wakeup->fd = fd;
	wakeup->inode = own_fd_inode(fd);
	return 0;
}

int wakeup_open(struct wakeup *wakeup, uint64_t tag)
{
	struct wakeup opened = { .tag = tag };
	int err;

	opened.epfd = own_fd(epoll_create1(EPOLL_CLOEXEC));
	if (opened.epfd < 0)
		return -errno;
	err = socket_open(&opened);
	if (err) {
		(void)close(opened.epfd);
		return err;
	}
	*wakeup = opened;
	return 0;
}

int wakeup_timer(const struct wakeup *wakeup)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = own_fd(timerfd_create(CLOCK_TIMER_ID, TFD_CLOEXEC | TFD_NONBLOCK));
	int err;

	if (fd < 0)
		return -errno;
	if (epoll_ctl(wakeup->epfd, EPOLL_CTL_ADD, fd, &event) == 0)
		return fd;
	err = -errno;
	(void)close(fd);
	return err;
}

static bool has_socket(const struct wakeup *wakeup)
{
	return own_fd_is(wakeup->fd, wakeup->inode);
}

bool wakeup_is_own(const struct wakeup *wakeup)
{
	return has_socket(wakeup) && fd_is_watched(wakeup->epfd, wakeup->fd);
}

void wakeup_close(struct wakeup *wakeup)
{
	if (has_socket(wakeup)) {
		if (fd_is_watched(wakeup->epfd, wakeup->fd))
			(void)close(wakeup->epfd);
		(void)close(wakeup->fd);
	}
	*wakeup = (struct wakeup)WAKEUP_CLOSED;
}

/* This fails for any set that does not watch the socket. */
static bool watch(const struct wakeup *wakeup, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = wakeup->tag };

	return has_socket(wakeup) &&
	       epoll_ctl(wakeup->epfd, EPOLL_CTL_MOD, wakeup->fd, &event) == 0;
}

bool wakeup_set(const struct wakeup *wakeup)
{
	return watch(wakeup, EPOLLOUT);
}

bool wakeup_clear(const struct wakeup *wakeup)
{
	return watch(wakeup, 0);
}
