/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors of a library, in a program that may close those that it does not know, and open
 * others, which get their numbers.
 *
 * A socket is told from others by its inode.  Sets, eventfds and timers have none of their own:
 * they are told by a set that watches them, as the kernel finds what it watches by the file and the
 * number.  Threads: [any]. */
#ifndef BASE_OWN_FD_H
#define BASE_OWN_FD_H

#include <stdbool.h>
#include <sys/types.h>

/* Move a new descriptor, of the library alone, to a number that a program is seldom given, but
 * below FD_SETSIZE for select(2); it stays where it is if there is none.  < 0: that, and errno as
 * it was. */
int own_fd(int fd);

/* The inode of a socket, until it is closed everywhere; 0: it is none. */
ino_t own_fd_inode(int fd);
/* Whether the descriptor is of that socket; of 0: no. */
bool own_fd_is(int fd, ino_t inode);

/* Whether the set is the one to which this descriptor was added, and both are still the same, where
 * one of them is known to be. */
bool fd_is_watched(int epfd, int fd);
/* Close a descriptor that was added to the set, if it is still the same. */
void fd_watched_close(int epfd, int fd);

#endif
