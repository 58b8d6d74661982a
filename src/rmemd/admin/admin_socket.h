/* SPDX-License-Identifier: BSD-3-Clause */
/* The UNIX socket an admin interface listens on.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_SOCKET_H
#define RMEMD_ADMIN_SOCKET_H

#include <sys/types.h>

/* A socket in the file system, and which file it is, so that only that one is removed. */
struct admin_socket {
	int fd;         /* listening, non-blocking */
	char path[108]; /* as long as that of struct sockaddr_un; "": none was made */
	dev_t dev;
	ino_t ino;
};

/* Make it, mode 0660.  One left by a daemon that has died is replaced.  The path is absolute; of
 * its directories only RUNSTATEDIR/rmemd is made.
 *   -EADDRINUSE    somebody listens there
 *   -EEXIST        something else is there
 *   -ENOENT        the directory is not there
 *   -ENAMETOOLONG, -EACCES ...  with text */
int admin_socket_open(const char *path, struct admin_socket *ret_socket);
/* Remove the file, if it is still the one that was made; the descriptor stays open. */
void admin_socket_remove(const struct admin_socket *socket);

#endif
