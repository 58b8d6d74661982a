/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/peer.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/utf8.h"

#define NAME_BYTES 33
/* Lines of /etc/passwd that one turn of the loop has time for. */
#define USERS_MAX 1000

static int group_find(const char *key, const char *name, gid_t *ret_gid)
{
	const struct group *group;

	errno = 0;
	group = getgrnam(name);
	if (!group && errno && errno != ENOENT)
		return err_errno(-errno, "[admin] %s = %s", key, name);
	if (!group)
		return err_set(-ENOENT, "[admin] %s = %s: there is no such group", key,
			       name);
	*ret_gid = group->gr_gid;
	return 0;
}

int peer_groups_find(const char *view, const char *act, struct peer_groups *ret_groups)
{
	struct peer_groups groups = { .view = getegid(), .acts = *act != '\0' };
	int err = 0;

	if (*view)
		err = group_find("view_group", view, &groups.view);
	if (!err && *act)
		err = group_find("act_group", act, &groups.act);
	if (!err)
		*ret_groups = groups;
	return err;
}

static struct ucred peer_credentials(int fd)
{
	struct ucred credentials = { .uid = (uid_t)-1, .gid = (gid_t)-1 };
	socklen_t bytes = sizeof(credentials);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes))
		return (struct ucred){ .uid = (uid_t)-1, .gid = (gid_t)-1 };
	return credentials;
}

uid_t peer_user(int fd)
{
	return peer_credentials(fd).uid;
}

/* The name of a user that /etc/passwd has in its first lines; "" otherwise. */
static void user_name(uid_t user, char name[NAME_BYTES])
{
	FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *entry;

	*name = '\0';
	if (!file)
		return;
	for (unsigned i = 0; i < USERS_MAX && (entry = fgetpwent(file)); i++) {
		if (entry->pw_uid != user)
			continue;
		if (utf8_clean(entry->pw_name, strlen(entry->pw_name)))
			(void)snprintf(name, NAME_BYTES, "%s", entry->pw_name);
		break;
	}
	(void)fclose(file);
}

const char *peer_describe(int fd, char buf[PEER_BYTES])
{
	const struct ucred peer = peer_credentials(fd);
	char name[NAME_BYTES];

	if (peer.uid == (uid_t)-1) {
		(void)snprintf(buf, PEER_BYTES, "an unknown user");
		return buf;
	}
	user_name(peer.uid, name);
	(void)snprintf(buf, PEER_BYTES, "user %u%s%s%s, pid %d", (unsigned)peer.uid,
		       *name ? " (" : "", name, *name ? ")" : "", (int)peer.pid);
	return buf;
}

/* Whether the group is among the further groups that the program had when it connected. */
static bool has_group(int fd, gid_t gid)
{
	socklen_t bytes = 0;
	bool found = false;
	gid_t *groups;

	/* the length is wrong, and the right one is returned */
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) || errno != ERANGE)
		return false;
	groups = malloc(bytes);
	if (!groups)
		return false;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes))
		for (size_t i = 0; i < bytes / sizeof(*groups); i++)
			found |= groups[i] == gid;
	free(groups);
	return found;
}

/* gid NULL: no group. */
static bool peer_is_allowed(int fd, const gid_t *gid)
{
	const struct ucred peer = peer_credentials(fd);

	if (peer.uid == (uid_t)-1)
		return false;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	return gid && (peer.gid == *gid || has_group(fd, *gid));
}

bool peer_may_view(int fd, const struct peer_groups *groups)
{
	return peer_is_allowed(fd, &groups->view);
}

bool peer_may_act(int fd, const struct peer_groups *groups)
{
	return peer_is_allowed(fd, groups->acts ? &groups->act : NULL);
}
