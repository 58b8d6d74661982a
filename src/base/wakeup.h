/* SPDX-License-Identifier: BSD-3-Clause */
/* An epoll set that can be made readable, and that is known from sets of the program, see own_fd.h.
 *
 * It watches a socket, which is always writable, while the wake-up is set.  So no byte is written
 * or read, which would be another file's.  Threads: [any]. */
#ifndef BASE_WAKEUP_H
#define BASE_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct wakeup {
	int epfd;    /* -1: closed */
	int fd;      /* the socket */
	ino_t inode; /* its */
	uint64_t tag;
};

#define WAKEUP_CLOSED { .epfd = -1, .fd = -1 }

/* Open one, which is not set.  -EMFILE, -ENOMEM, without text */
int wakeup_open(struct wakeup *wakeup, uint64_t tag);
/* Open a timer of clock_now_ns() that makes the set readable; close it by fd_watched_close().
 * Returns its descriptor, or -EMFILE, -ENOMEM ... without text */
int wakeup_timer(const struct wakeup *wakeup);
/* Close the set and the socket, if they are still the caller's. */
void wakeup_close(struct wakeup *wakeup);

/* Whether they are. */
bool wakeup_is_own(const struct wakeup *wakeup);
/* False: they are not. */
bool wakeup_set(const struct wakeup *wakeup);
bool wakeup_clear(const struct wakeup *wakeup);

#endif
