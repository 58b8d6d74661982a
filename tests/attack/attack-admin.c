/* SPDX-License-Identifier: BSD-3-Clause */
/* The admin socket, by users who may not look or act. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"

#define VIEWS "status counters admin_views_refused"
#define ACTS "status counters admin_acts_refused"
#define STRANGER 65534
/* [admin] view_group of the daemon: "daemon" */
#define VIEWER 1

/* The status of HTTP that a user gets. */
static int request_as(gid_t group, const char *method, const char *resource)
{
	pid_t pid = fork();
	int status;

	must(pid >= 0, "fork");
	if (pid == 0) {
		if (setgroups(0, NULL) || setgid(group) || setuid(STRANGER))
			_exit(255);
		/* the status does not fit an exit status */
		status = admin_request(method, resource);
		_exit(status == 200 ? 0 : status == 403 ? 1 : status < 0 ? 2 : 3);
	}
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		     WEXITSTATUS(status) != 255,
	     "a process of another user");
	return WEXITSTATUS(status);
}

static void request_try(const char *what, gid_t group, const char *counter,
			const char *method, const char *resource)
{
	int result;

	attempt(what, counter, 1);
	result = request_as(group, method, resource);
	attempt_result(result == 1 ? -EACCES : 0, "the server: HTTP 403");
}

void attack_admin(void)
{
	char path[300];

	if (geteuid() != 0) {
		attempt_void("the admin socket by other users",
			     "root alone can be them");
		return;
	}
	(void)snprintf(path, sizeof(path), "%s/admin.sock", attack_options.folder);
	/* the mode of the file is the first defence; try the second one */
	must(!chmod(path, 0666) && !chmod(attack_options.folder, 0711), "chmod");
	request_try("a user of no group looks", STRANGER, VIEWS, "GET", "/v1/status");
	request_try("a user of no group lists the leases", STRANGER, VIEWS, "GET",
		    "/v1/leases");
	request_try("a user of no group revokes", STRANGER, ACTS, "POST",
		    "/v1/revoke?lease=1");
	request_try("a user of no group reloads", STRANGER, ACTS, "POST", "/v1/reload");
	must(request_as(VIEWER, "GET", "/v1/status") == 0,
	     "the group that may look is refused");
	request_try("a user who may look revokes", VIEWER, ACTS, "POST",
		    "/v1/revoke?lease=1");
	request_try("a user who may look reloads", VIEWER, ACTS, "POST", "/v1/reload");
	must(!chmod(path, 0660) && !chmod(attack_options.folder, 0700), "chmod");
}
