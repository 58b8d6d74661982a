/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/loop/events.h"

/* The prefix of the names of stored files. */
#define KEPT_PREFIX "rmem-"
#define DRAINED_PATH_BYTES 256

/* ---- sockets ---- */

static int fd_sort(int fd, const char *name, struct systemd_fds *fds)
{
	const size_t prefix = strlen(KEPT_PREFIX);

	if (strncmp(name, KEPT_PREFIX, prefix) == 0) {
		struct systemd_file *kept = &fds->kept[fds->n_kept];

		if (fds->n_kept == SYSTEMD_FILES_MAX ||
		    strlen(name + prefix) >= sizeof(kept->name))
			return err_set(
				-EINVAL,
				"the file '%s' that was passed is not one of rmemd",
				name);
		(void)snprintf(kept->name, sizeof(kept->name), "%s", name + prefix);
		kept->fd = fd;
		fds->n_kept++;
		return 0;
	}
	if (sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0) {
		if (fds->admin >= 0)
			return err_set(
				-EINVAL,
				"two UNIX sockets were passed; rmemd serves one");
		fds->admin = fd;
	} else if (sd_is_socket_inet(fd, AF_UNSPEC, SOCK_STREAM, 1, 0) > 0) {
		if (fds->n_control == SYSTEMD_CONTROL_MAX)
			return err_set(-EINVAL, "more than %d TCP sockets were passed",
				       SYSTEMD_CONTROL_MAX);
		fds->control[fds->n_control++] = fd;
	} else {
		return err_set(
			-EINVAL,
			"the descriptor '%s' that was passed is neither a listening "
			"TCP nor a listening UNIX stream socket",
			name);
	}
	if (evutil_make_socket_nonblocking(fd))
		return err_errno(-errno, "passed socket '%s'", name);
	return 0;
}

int systemd_listen_fds(struct systemd_fds *ret_fds)
{
	struct systemd_fds fds = { .admin = -1 };
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names), err = 0;

	if (n < 0)
		return err_errno(n, "passed sockets");
	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		if (!err)
			err = fd_sort(fd, names[i], &fds);
		free(names[i]);
	}
	free(names);
	if (err) {
		for (int i = 0; i < n; i++)
			(void)close(SD_LISTEN_FDS_START + i);
		return err;
	}
	*ret_fds = fds;
	return 0;
}

/* ---- stored files ---- */

bool systemd_passed_ledger(void)
{
	const char *names = getenv("LISTEN_FDNAMES");

	return names && strstr(names, KEPT_PREFIX "ledger");
}

/* FDPOLL=0, as polling would drop a memfd at once, which is always ready. */
bool systemd_store_fd(const char *name, int fd)
{
	char state[SYSTEMD_FILE_NAME_BYTES + 64];

	(void)snprintf(state, sizeof(state),
		       "FDSTORE=1\nFDNAME=" KEPT_PREFIX "%s\nFDPOLL=0", name);
	return sd_pid_notify_with_fds(0, 0, state, &fd, 1) > 0;
}

void systemd_remove_fd(const char *name)
{
	(void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=" KEPT_PREFIX "%s", name);
}

int systemd_barrier(int *ret_fd)
{
	int ends[2], sent;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return err_errno(-errno, "a pipe for the service manager");
	sent = sd_pid_notify_with_fds(0, 0, "BARRIER=1", &ends[1], 1);
	(void)close(ends[1]);
	if (sent > 0) {
		*ret_fd = ends[0];
		return 0;
	}
	(void)close(ends[0]);
	return err_errno(sent < 0 ? sent : -ENOTCONN,
			 "a message to the service manager");
}

/* ---- state ---- */

/* An error is ignored: the daemon works without the service manager too. */
void systemd_ready(const char *status)
{
	(void)sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void systemd_status(const char *status)
{
	(void)sd_notifyf(0, "STATUS=%s", status);
}

void systemd_reloading(void)
{
	struct timespec now;

	/* cannot fail on Linux */
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
			 (uint64_t)now.tv_sec * 1000000u +
				 (uint64_t)now.tv_nsec / 1000u);
}

void systemd_stopping(void)
{
	(void)sd_notify(0, "STOPPING=1\nSTATUS=stopping");
}

#define DRAINED_FILE "drained" /* rmemd.service removes it */

/* The runtime directory of the service.  False: there is no service manager. */
static bool drained_path(char path[DRAINED_PATH_BYTES])
{
	const char *directory = getenv("RUNTIME_DIRECTORY");

	if (!directory || !getenv("NOTIFY_SOCKET"))
		return false;
	return (size_t)snprintf(path, DRAINED_PATH_BYTES, "%s/" DRAINED_FILE,
				directory) < DRAINED_PATH_BYTES;
}

int systemd_stay_stopped(void)
{
	char path[DRAINED_PATH_BYTES];
	int fd;

	if (!drained_path(path))
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(-errno,
				 "%s, so systemd starts the daemon again; stop it with "
				 "systemctl stop rmemd.socket rmemd",
				 path);
	(void)close(fd);
	return 0;
}

int systemd_stay_started(void)
{
	char path[DRAINED_PATH_BYTES];

	if (!drained_path(path) || !unlink(path) || errno == ENOENT)
		return 0;
	return err_errno(-errno, "cannot remove %s", path);
}

/* ---- watchdog ---- */

static struct event *watchdog;

static void watchdog_fire(evutil_socket_t, short, void *)
{
	(void)sd_notify(0, "WATCHDOG=1");
}

int systemd_watchdog_start(struct event_base *base)
{
	struct timeval interval;
	uint64_t usec;

	if (sd_watchdog_enabled(0, &usec) <= 0)
		return 0;
	interval = timeval_of_ms(usec / 2 / 1000);
	watchdog = event_make(base, -1, EV_PERSIST, watchdog_fire, NULL);
	if (!watchdog || event_add(watchdog, &interval)) {
		systemd_watchdog_stop();
		return err_errno(-ENOMEM, "watchdog timer");
	}
	return 0;
}

void systemd_watchdog_stop(void)
{
	event_drop(&watchdog);
}
