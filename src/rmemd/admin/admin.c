/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/admin.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/admin/action.h"
#include "rmemd/admin/followers.h"
#include "rmemd/admin/http.h"
#include "rmemd/admin/peer.h"
#include "rmemd/admin/resource.h"
#include "rmemd/admin/visitor.h"
#include "rmemd/control/control.h"
#include "rmemd/loop/slices.h"

#define BACKLOG 16
#define MODE 0660
#define RUNTIME_DIRECTORY RUNSTATEDIR "/rmemd"

struct admin {
	const struct admin_sources *sources;
	struct http_server *http;
	int fd;
	/* the file of a socket that it made, so that only that one is removed */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": it made none */
	dev_t dev;
	ino_t ino;
	struct slice_queue slices;
	struct peer_groups groups;
	struct followers *followers;
};

/* ---- actions ---- */

/* The context of the lines that tell who acts. */
static const struct log_ctx of_act = { .act = true };

static void action_run(const struct admin *admin, struct evhttp_request *request,
		       const struct action *action, const struct evkeyvalq *parameters,
		       const char *who)
{
	json_t *answer = NULL;
	int err = action->act(admin->sources, parameters, &answer);

	if (!err) {
		reply_json(request, HTTP_OK, "OK", answer);
		return;
	}
	log_event(LOG_NOTICE, "admin-failed", &of_act, "%s: %s", who, err_text());
	switch (err) {
	case -EINVAL:
		reply_error(request, HTTP_BADREQUEST, "Bad Request", err_text());
		break;
	case -ENOENT:
		reply_error(request, HTTP_NOTFOUND, "Not Found", err_text());
		break;
	default:
		reply_error(request, HTTP_CONFLICT, "Conflict", err_text());
	}
}

/* ---- requests ---- */

static void refuse_method(struct evhttp_request *request, const char *allowed,
			  const char *text)
{
	/* a missing header only makes the answer less complete */
	(void)evhttp_add_header(evhttp_request_get_output_headers(request), "Allow",
				allowed);
	reply_error(request, HTTP_BADMETHOD, "Method Not Allowed", text);
}

/* who: the peer and the action, for the log; NULL: it wants to look, and what is not told, because
 * the path may be any text. */
static void refuse_peer(const struct admin *admin, struct evhttp_request *request,
			int fd, const char *who)
{
	struct control_counters *counters = &admin->sources->control->counters;
	char text[160], peer[PEER_BYTES];

	(void)snprintf(text, sizeof(text),
		       "user %u may %s: root, the daemon's user and the members of "
		       "[admin] %s may",
		       (unsigned)peer_user(fd),
		       who ? "not act" : "neither look nor act",
		       who ? "act_group" : "view_group");
	log_event(LOG_WARNING, "admin-refused", NULL, "%s: %s",
		  who ? who : peer_describe(fd, peer), text);
	if (who)
		counters->admin_acts_refused++;
	else
		counters->admin_views_refused++;
	reply_error(request, HTTP_FORBIDDEN, "Forbidden", text);
}

/* A page of whatever origin, where the socket was forwarded to a port that a browser reaches. */
static void refuse_page(struct evhttp_request *request, const char *who)
{
	log_event(LOG_WARNING, "admin-refused", NULL, "%s: a page in a browser asks",
		  who);
	reply_error(request, HTTP_FORBIDDEN, "Forbidden",
		    "no page in a browser may act; use rmemctl(1)");
}

static int request_fd(struct evhttp_request *request)
{
	struct evhttp_connection *connection = evhttp_request_get_connection(request);

	return bufferevent_getfd(evhttp_connection_get_bufferevent(connection));
}

/* Answer a request of a resource that acts. */
static void on_action(const struct admin *admin, struct evhttp_request *request,
		      const struct action *action)
{
	const char *query =
		evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
	int fd = request_fd(request), err;
	struct evkeyvalq parameters;
	char who[ACTION_BYTES];

	err = action_parse(action, query ? query : "", &parameters);
	action_describe(action, &parameters, peer_describe(fd, (char[PEER_BYTES]){ 0 }),
			who);
	if (!peer_may_act(fd, &admin->groups)) {
		refuse_peer(admin, request, fd, who);
	} else if (visitor_is_page(request)) {
		refuse_page(request, who);
	} else if (evhttp_request_get_command(request) != EVHTTP_REQ_POST) {
		refuse_method(request, "POST", "this resource acts, by POST alone");
	} else if (err) {
		reply_error(request, HTTP_BADREQUEST, "Bad Request", err_text());
	} else {
		log_event(LOG_NOTICE, "admin-acts", &of_act, "%s", who);
		action_run(admin, request, action, &parameters, who);
	}
	evhttp_clear_headers(&parameters);
}

static void on_request(struct evhttp_request *request, void *ctx)
{
	const char *path = http_path(request);
	const struct resource *resource = resource_find(path);
	const struct action *action = action_find(path);
	bool reads = http_reads(request);
	int fd = request_fd(request);
	struct admin *admin = ctx;

	if (action && !(resource && reads)) {
		on_action(admin, request, action);
	} else if (!peer_may_view(fd, &admin->groups)) {
		refuse_peer(admin, request, fd, NULL);
	} else if (!resource) {
		reply_error(request, HTTP_NOTFOUND, "Not Found",
			    "no such resource; rmemctl(1) has those that there are");
	} else if (!reads) {
		refuse_method(request, "GET, HEAD", "this resource can only be read");
	} else if (!visitor_names_host(request, admin->sources->control->config)) {
		admin->sources->control->counters.http_refused++;
		reply_error(request, HTTP_FORBIDDEN, "Forbidden",
			    "this name is not one of this host: ask by a name without "
			    "a dot, such as localhost");
	} else {
		resource_send(resource, request, admin->sources, admin->followers,
			      &admin->slices);
	}
}

/* ---- the socket ---- */

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

static int serves_already(const char *path)
{
	return err_set(-EADDRINUSE,
		       "another rmemd serves %s: stop that, or set [admin] socket",
		       path);
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
		return serves_already(path);
	if (err != -ECONNREFUSED)
		return err_errno(err, "%s", path);
	if (unlink(path) && errno != ENOENT)
		return err_errno(-errno, "cannot remove the stale socket %s", path);
	return 0;
}

/* Members of the group of the file may connect. */
static int socket_set_group(const struct admin *admin, const char *path)
{
	if (admin->groups.view == getegid() ||
	    !lchown(path, (uid_t)-1, admin->groups.view))
		return 0;
	return err_errno(-errno,
			 "%s cannot belong to the group of [admin] view_group: run "
			 "rmemd as root or as a member of it",
			 path);
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
			       ? serves_already(path)
			       : err_errno(-errno, "cannot make the socket %s", path);
	if (chmod(path, MODE))
		return err_errno(-errno, "mode of %s", path);
	return 0;
}

/* Make the socket and listen on it; one left by a daemon that has died is replaced. */
static int socket_open(struct admin *admin, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;
	int err;

	if (strlen(path) >= sizeof(address.sun_path))
		return err_set(-ENAMETOOLONG,
			       "%s is longer than the %zu characters of a socket", path,
			       sizeof(address.sun_path) - 1);
	(void)strcpy(address.sun_path, path);
	err = directory_ensure(path);
	if (!err)
		err = stale_remove(&address);
	if (err)
		return err;
	admin->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (admin->fd < 0)
		return err_errno(-errno, "socket");
	err = socket_bind(admin->fd, &address);
	if (err)
		return err;
	err = socket_set_group(admin, path);
	if (!err && (listen(admin->fd, BACKLOG) || lstat(path, &st)))
		err = err_errno(-errno, "%s", path);
	if (err) {
		(void)unlink(path);
		return err;
	}
	(void)strcpy(admin->path, path);
	admin->dev = st.st_dev;
	admin->ino = st.st_ino;
	return 0;
}

static void socket_remove(const struct admin *admin)
{
	struct stat st;

	/* a daemon that started later may have its own there */
	if (*admin->path && lstat(admin->path, &st) == 0 && st.st_dev == admin->dev &&
	    st.st_ino == admin->ino)
		(void)unlink(admin->path);
}

/* ---- opening ---- */

int admin_open(struct event_base *base, const struct admin_sources *sources,
	       const char *path, int fd, struct admin **ret_admin)
{
	const struct config *config = sources->control->config;
	struct admin *admin = calloc(1, sizeof(*admin));
	int err;

	if (!admin)
		return err_errno(-ENOMEM, "admin socket");
	admin->sources = sources;
	admin->fd = fd;
	slice_queue_init(&admin->slices, SLICE_TENANT);
	err = peer_groups_find(config->admin_view_group, config->admin_act_group,
			       &admin->groups);
	if (!err && fd < 0)
		err = socket_open(admin, path);
	if (!err)
		err = followers_open(base, &sources->control->slices, &admin->slices,
				     &admin->followers);
	if (!err)
		err = http_open(base, admin->fd, on_request, admin,
				&sources->control->counters.http_refused, &admin->http);
	if (err) {
		/* a socket that was passed stays the caller's */
		if (fd >= 0)
			admin->fd = -1;
		admin_close(admin);
		return err;
	}
	*ret_admin = admin;
	return 0;
}

void admin_close(struct admin *admin)
{
	if (!admin)
		return;
	http_close(admin->http);
	followers_close(admin->followers);
	if (admin->fd >= 0)
		(void)close(admin->fd);
	socket_remove(admin);
	free(admin);
}
