/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/own_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

/* Few programs have so many. */
#define FIRST 256

int own_fd(int fd)
{
	int high;

	if (fd < 0 || fd >= FIRST)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST);
	if (high < 0)
		return fd;
#ifdef __SANITIZE_THREAD__
	/* it does not see that fcntl() makes a second number of one socket, and what the messages
	 * of the socket put into order would be races */
	(void)dup3(fd, high, O_CLOEXEC);
#endif
	(void)close(high < FD_SETSIZE ? fd : high);
	return high < FD_SETSIZE ? high : fd;
}

ino_t own_fd_inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) || !S_ISSOCK(st.st_mode) ? 0 : st.st_ino;
}

bool own_fd_is(int fd, ino_t inode)
{
	return inode && own_fd_inode(fd) == inode;
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

void fd_watched_close(int epfd, int fd)
{
	if (fd_is_watched(epfd, fd))
		(void)close(fd);
}
