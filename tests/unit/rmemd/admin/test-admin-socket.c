/* SPDX-License-Identifier: BSD-3-Clause */
/* The admin socket: how it is opened, and refused requests. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/rmemd/admin/admin-stage.h"
#include "base/err.h"
#include "rmemd/admin/http.h"
#include "rmemd/control/control.h"

static const struct {
	const char *method, *resource;
	int status;
} refused[] = {
	{ "GET", "/v1", 404 },         { "GET", "/v1/status/", 404 },
	{ "GET", "/v2/status", 404 },  { "POST", "/nothing", 404 },
	{ "POST", "/v1/status", 405 }, { "DELETE", "/v1/pools", 405 },
	{ "PUT", "/v1/leases", 405 },
};

START_TEST(refusal__is_in_json)
{
	json_t *json;
	int status;
	const char *text;

	open_admin();
	ck_assert_int_eq(request(refused[_i].method, refused[_i].resource),
			 refused[_i].status);
	json = body();
	ck_assert_int_eq(
		json_unpack(json, "{s:i, s:s}", "status", &status, "error", &text), 0);
	ck_assert_int_eq(status, refused[_i].status);
	ck_assert(refused[_i].status != 405 || strstr(reply, "Allow: GET, HEAD\r\n"));
}
END_TEST

START_TEST(malformed_request__closes_the_connection)
{
	static char garbage[1 << 16];
	int fd;

	open_admin();
	memset(garbage, 'x', sizeof(garbage));
	fd = connect_client();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(send(fd, garbage, sizeof(garbage), MSG_DONTWAIT), 0);
	/* until the connection is closed */
	for (;;) {
		struct pollfd pollfd = { .fd = fd, .events = POLLRDHUP };

		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		if (poll(&pollfd, 1, 0) == 1)
			break;
	}
	ck_assert_int_eq(close(fd), 0);
	(void)get("/v1/status");
	/* a connection that is open when the daemon stops */
	fd = connect_client();
	ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	close_admin();
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

/* Without free descriptors it accepts later. */
START_TEST(accept__later_without_descriptors)
{
	struct rlimit limit, none;
	int fd;

	open_admin();
	fd = connect_client();
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	(void)get("/v1/status");
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Clients that only connect take no slot of others for long, and few descriptors; nor does one
 * whose answer has no end. */
START_TEST(connections__are_limited_and_the_oldest_closed)
{
	static const char endless[] = "GET /v1/events?follow=yes HTTP/1.1\r\n\r\n";
	int fds[3 * HTTP_CONNECTIONS_MAX];
	const unsigned n = sizeof(fds) / sizeof(fds[0]);
	char byte, text[4096];
	unsigned before;

	open_admin();
	before = open_descriptors();
	for (unsigned i = 0; i < n; i++) {
		fds[i] = connect_client();
		ck_assert_int_ge(fds[i], 0);
		if (i == 1)
			ck_assert_int_gt(send(fds[i], endless, strlen(endless), 0), 0);
		/* which is served after it */
		(void)get("/v1/status");
		ck_assert_uint_le(open_descriptors(),
				  before + i + 1 + HTTP_CONNECTIONS_MAX);
	}
	/* the first one is closed, the last one is not */
	ck_assert_int_eq(recv(fds[0], &byte, 1, MSG_DONTWAIT), 0);
	ck_assert_int_gt(recv(fds[1], text, sizeof(text), MSG_DONTWAIT), 0);
	ck_assert_int_eq(recv(fds[1], text, sizeof(text), MSG_DONTWAIT), 0);
	ck_assert_int_eq(recv(fds[n - 1], &byte, 1, MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(close(fds[i]), 0);
	close_admin();
	ck_assert_uint_le(open_descriptors(), before);
}
END_TEST

static void on_readable(evutil_socket_t, short, void *arg)
{
	++*(unsigned *)arg;
}

/* The loop watches a socket that gets the number of a connection's. */
START_TEST(connections__leave_their_descriptors)
{
	struct event *events[2];
	unsigned n_readable = 0;
	int fds[2];

	open_admin();
	(void)get("/v1/status");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	for (unsigned i = 0; i < 2; i++) {
		events[i] = event_new(base, fds[i], EV_READ, on_readable, &n_readable);
		ck_assert_ptr_nonnull(events[i]);
		ck_assert_int_eq(event_add(events[i], NULL), 0);
		ck_assert_int_eq(send(fds[1 - i], "", 1, 0), 1);
	}
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
	ck_assert_uint_eq(n_readable, 2);
	for (unsigned i = 0; i < 2; i++) {
		event_free(events[i]);
		ck_assert_int_eq(close(fds[i]), 0);
	}
}
END_TEST

/* What is kept of a client that goes on; sockets beside. */
#define KEPT_BYTES (128 << 10)

/* What is sent before the flood; whether the daemon's limit ends that, or HTTP's own. */
static const struct {
	const char *head;
	bool counted;
} floods[] = {
	{ "", false },
	{ "GET /v1/status HTTP/1.1\r\n", false },
	{ "POST /v1/reload HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", false },
	{ "POST /v1/reload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", true },
	/* which has no end */
	{ "GET /v1/events?follow=yes HTTP/1.1\r\n\r\n", true },
	/* which it does not read */
	{ "GET /v1/leases HTTP/1.1\r\n\r\n", true },
};

static void turns(unsigned n)
{
	for (; n > 0; n--)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
}

/* Send until the daemon closes the connection; the most memory that it had meanwhile. */
static size_t flood(int fd)
{
	static char text[1 << 16];
	size_t most = 0, now;

	memset(text, '1', sizeof(text));
	for (unsigned i = 0; i < 1024; i++) {
		ssize_t n = send(fd, text, sizeof(text), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return most;
		turns(4);
		now = mallinfo2().uordblks;
		if (now > most)
			most = now;
	}
	ck_abort_msg("64 MiB were taken");
}

START_TEST(flood__is_cut_off)
{
	const uint64_t *n_refused = &sources.control->counters.http_refused;
	uint64_t before = *n_refused;
	size_t memory;
	int fd;

	open_admin();
	n_ephemeral = 20000;
	(void)get("/v1/status");
	memory = mallinfo2().uordblks;
	fd = connect_client();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, floods[_i].head, strlen(floods[_i].head)),
			 (ssize_t)strlen(floods[_i].head));
	turns(20);
	ck_assert_uint_le(flood(fd), memory + KEPT_BYTES);
	ck_assert_uint_eq(*n_refused - before, floods[_i].counted);
	ck_assert_int_eq(close(fd), 0);
	n_ephemeral = 1;
	(void)get("/v1/status");
}
END_TEST

START_TEST(open__sets_the_mode)
{
	mode_t before = umask(077);
	struct stat st;

	open_admin();
	(void)umask(before);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert(S_ISSOCK(st.st_mode));
	ck_assert_int_eq(st.st_mode & 0777, 0660);
	close_admin();
	ck_assert_int_eq(lstat(path, &st), -1);
	admin_close(NULL);
}
END_TEST

START_TEST(open__makes_no_directory)
{
	char missing[128], parent[96], text[512];
	struct stat st;

	(void)snprintf(parent, sizeof(parent), "%s/run", directory);
	(void)snprintf(missing, sizeof(missing), "%s/admin.sock", parent);
	ck_assert_int_eq(admin_open(base, &sources, missing, -1, &admin), -ENOENT);
	(void)snprintf(text, sizeof(text),
		       "[admin] socket = %s: there is no directory %s: make it; ",
		       missing, parent);
	ck_assert_int_eq(strncmp(err_text(), text, strlen(text)), 0);
	ck_assert_int_eq(lstat(parent, &st), -1);
}
END_TEST

START_TEST(open__refuses_beside_another_daemon)
{
	struct admin *other = NULL;
	char text[192];

	open_admin();
	ck_assert_int_eq(admin_open(base, &sources, path, -1, &other), -EADDRINUSE);
	ck_assert_ptr_null(other);
	(void)snprintf(text, sizeof(text),
		       "another rmemd serves %s: stop that, or set [admin] socket",
		       path);
	ck_assert_str_eq(err_text(), text);
	/* the other daemon still serves */
	(void)get("/v1/status");
}
END_TEST

START_TEST(open__replaces_the_socket_of_a_dead_daemon)
{
	struct stat st;
	int fd;

	ck_assert_int_eq(close(bind_socket()), 0);
	open_admin();
	(void)get("/v1/pools");
	/* a socket of another process is not removed at the end */
	ck_assert_int_eq(unlink(path), 0);
	fd = bind_socket();
	close_admin();
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(open__does_not_replace_other_files)
{
	char blocked[256];
	struct stat st;
	FILE *file;

	open_admin();
	close_admin();
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_int_eq(admin_open(base, &sources, path, -1, &admin), -EEXIST);
	ck_assert_int_eq(lstat(path, &st), 0);
	(void)snprintf(blocked, sizeof(blocked), "%s/x", path);
	ck_assert_int_eq(admin_open(base, &sources, blocked, -1, &admin), -ENOTDIR);
	memset(blocked, '/', 200);
	blocked[200] = '\0';
	ck_assert_int_eq(admin_open(base, &sources, blocked, -1, &admin),
			 -ENAMETOOLONG);
}
END_TEST

START_TEST(open__serves_a_passed_socket)
{
	struct stat st;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/passed", directory);
	fd = bind_socket();
	ck_assert_int_eq(listen(fd, 4), 0);
	ck_assert_int_eq(admin_open(base, &sources, "/nonexistent/path", fd, &admin),
			 0);
	(void)get("/v1/leases");
	close_admin();
	/* the service manager removes the file; the descriptor was passed to the daemon */
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("admin-socket", admin_setup, admin_teardown);

	tcase_add_loop_test(tc, refusal__is_in_json, 0,
			    sizeof(refused) / sizeof(refused[0]));
	tcase_add_test(tc, malformed_request__closes_the_connection);
	tcase_add_test(tc, accept__later_without_descriptors);
	tcase_add_test(tc, connections__are_limited_and_the_oldest_closed);
	tcase_add_test(tc, connections__leave_their_descriptors);
	tcase_add_loop_test(tc, flood__is_cut_off, 0,
			    sizeof(floods) / sizeof(floods[0]));
	tcase_add_test(tc, open__sets_the_mode);
	tcase_add_test(tc, open__makes_no_directory);
	tcase_add_test(tc, open__refuses_beside_another_daemon);
	tcase_add_test(tc, open__replaces_the_socket_of_a_dead_daemon);
	tcase_add_test(tc, open__does_not_replace_other_files);
	tcase_add_test(tc, open__serves_a_passed_socket);
	return unit_main();
}
