/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes an epoll set readable, and tells whether descriptors are still the caller's, where a program
 * may have closed those that it does not know, and opened others with their numbers.
 *
 * The descriptor of a wake-up is always readable, and watched while the wake-up is set.  So no byte is
 * written or read, which would be another file's.
 * Threads: [any]. */
#ifndef BASE_WAKEUP_H
#define BASE_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

struct wakeup {
	int epfd; /* borrowed */
	int fd;   /* -1: closed */
	uint64_t tag;
};

/* Add one, which is not set, to a set.  -EMFILE, -ENOMEM, without text */
int wakeup_open(struct wakeup *wakeup, int epfd, uint64_t tag);
/* False: the set or the descriptor is not the caller's any more, or it is closed. */
bool wakeup_set(const struct wakeup *wakeup);
bool wakeup_clear(const struct wakeup *wakeup);

/* Whether the set is the one to which this descriptor was added, and both are still the same. */
bool fd_is_watched(int epfd, int fd);
/* Close a descriptor that was added to the set, if it is still the same.  The result is that of
 * fd_is_watched(). */
bool fd_watched_close(int epfd, int fd);

#endif
