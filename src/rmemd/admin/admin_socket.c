/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/admin_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"

#define BACKLOG 16
#define MODE 0660
#define RUNTIME_DIRECTORY RUNSTATEDIR "/rmemd"

_Static_assert(sizeof(((struct admin_socket *)0)->path) ==
		       sizeof(((struct sockaddr_un *)0)->sun_path),
	       "the path of any socket fits");

/* The runtime directory, which systemd makes for the service, is made without systemd too.  Any
 * other one is the administrator's: one made here would belong to root, and hide a wrong path. */
static int directory_ensure(const char *path)
{
	char directory[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct stat st;

	(void)snprintf(directory, sizeof(directory), "%s", path);
	*strrchr(directory, '/') = '\0';
	if (strcmp(directory, RUNTIME_DIRECTORY) == 0) {
		if (mkdir(directory, 0755) && errno != EEXIST)
			return err_errno(-errno, "cannot make the directory %s",
					 directory);
		return 0;
	}
	if (*directory && stat(directory, &st) && errno == ENOENT)
		return err_set(
			-ENOENT,
			"[admin] socket = %s: there is no directory %s: make it; "
			"only " RUNTIME_DIRECTORY " is made by itself",
			path, directory);
	return 0;
}

/* The socket of a daemon that has died refuses connections, as no process listens on it. */
static int stale_remove(const struct sockaddr_un *address)
{
	const char *path = address->sun_path;
	struct stat st;
	int fd, err;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : err_errno(-errno, "%s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(-EEXIST, "%s is not a socket: move it out of the way",
			       path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(-errno, "socket");
	err = connect(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno
									      : 0;
	(void)close(fd);
	/* the daemon is alive too when its queue is full */
	if (err == 0 || err == -EAGAIN)
		return err_set(-EADDRINUSE, "another rmemd serves %s", path);
	if (err != -ECONNREFUSED)
		return err_errno(err, "%s", path);
	if (unlink(path) && errno != ENOENT)
		return err_errno(-errno, "cannot remove the stale socket %s", path);
	return 0;
}

static int socket_bind(int fd, const struct sockaddr_un *address)
{
	const char *path = address->sun_path;

	/* the file gets no more than the socket has, so it is never open to others; the
	 * umask may have taken too much */
	if (fchmod(fd, MODE))
		return err_errno(-errno, "mode of %s", path);
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)))
		return errno == EADDRINUSE
			       ? err_set(-EADDRINUSE, "another rmemd serves %s", path)
			       : err_errno(-errno, "cannot make the socket %s", path);
	if (chmod(path, MODE))
		return err_errno(-errno, "mode of %s", path);
	return 0;
}

int admin_socket_open(const char *path, struct admin_socket *ret_socket)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;
	int fd, err;

	if (strlen(path) >= sizeof(address.sun_path))
		return err_set(-ENAMETOOLONG,
			       "%s is longer than the %zu characters of a socket", path,
			       sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path) + 1);
	err = directory_ensure(path);
	if (!err)
		err = stale_remove(&address);
	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(-errno, "socket");
	err = socket_bind(fd, &address);
	if (err)
		goto err_close;
	if (listen(fd, BACKLOG) || lstat(path, &st)) {
		err = err_errno(-errno, "%s", path);
		(void)unlink(path);
		goto err_close;
	}
	*ret_socket =
		(struct admin_socket){ .fd = fd, .dev = st.st_dev, .ino = st.st_ino };
	memcpy(ret_socket->path, address.sun_path, sizeof(ret_socket->path));
	return 0;

err_close:
	(void)close(fd);
	return err;
}

void admin_socket_remove(const struct admin_socket *socket)
{
	struct stat st;

	/* a daemon that started later may have its own there */
	if (*socket->path && lstat(socket->path, &st) == 0 &&
	    st.st_dev == socket->dev && st.st_ino == socket->ino)
		(void)unlink(socket->path);
}
