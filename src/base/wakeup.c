/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/wakeup.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int wakeup_open(struct wakeup *wakeup, int epfd, uint64_t tag)
{
	struct epoll_event event = { .events = 0, .data.u64 = tag };
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), err;

	if (fd < 0)
		return -errno;
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) < 0) {
		err = -errno;
		(void)close(fd);
		return err;
	}
	*wakeup = (struct wakeup){ .epfd = epfd, .fd = fd, .tag = tag };
	return 0;
}

/* The kernel finds what a set watches by the file and the number: this fails for any other. */
static bool watch(const struct wakeup *wakeup, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = wakeup->tag };

	return epoll_ctl(wakeup->epfd, EPOLL_CTL_MOD, wakeup->fd, &event) == 0;
}

bool wakeup_set(const struct wakeup *wakeup)
{
	return watch(wakeup, EPOLLIN);
}

bool wakeup_clear(const struct wakeup *wakeup)
{
	return watch(wakeup, 0);
}

/* Asking for it again changes nothing, also not for another process that has the set. */
bool fd_is_watched(int epfd, int fd)
{
	struct epoll_event event = { .events = 0 };

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0) {
		(void)epoll_ctl(epfd, EPOLL_CTL_DEL, fd, &event);
		return false;
	}
	return errno == EEXIST;
}

bool fd_watched_close(int epfd, int fd)
{
	bool own = fd_is_watched(epfd, fd);

	if (own)
		(void)close(fd);
	return own;
}
