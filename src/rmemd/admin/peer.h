/* SPDX-License-Identifier: BSD-3-Clause */
/* The program at the other end of the admin socket, as the kernel knows it, and what it may do.
 * Root and the daemon's own user may do everything, members of a group of the configuration look or
 * act.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_PEER_H
#define RMEMD_ADMIN_PEER_H

#include <stdbool.h>
#include <sys/types.h>

struct peer_groups {
	gid_t view, act;
	bool acts; /* whether there is a group whose members may act */
};

/* Find the groups of [admin] view_group and act_group; "": that of the daemon, and none.
 *   -ENOENT, ...  there is no such group, or it cannot be looked up */
int peer_groups_find(const char *view, const char *act, struct peer_groups *ret_groups);

/* The user at the other end, (uid_t)-1 if it is not known. */
uid_t peer_user(int fd);
#define PEER_BYTES 80
/* For the log: "user 1000 (alice), pid 4711".  The name is that in /etc/passwd: other sources of
 * names may have to wait for a server.  Returns buf. */
const char *peer_describe(int fd, char buf[PEER_BYTES]);
/* Whether the program that has connected this socket may look at the daemon's state; change it. */
bool peer_may_view(int fd, const struct peer_groups *groups);
bool peer_may_act(int fd, const struct peer_groups *groups);

#endif
