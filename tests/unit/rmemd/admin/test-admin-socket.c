/* SPDX-License-Identifier: BSD-3-Clause */
/* The admin socket: where it is made, and what becomes of requests that are none. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/rmemd/admin/admin-stage.h"
#include "base/err.h"

static const struct {
	const char *method, *resource;
	int status;
} refused[] = {
	{ "GET", "/", 404 },
	{ "GET", "/v1", 404 },
	{ "GET", "/v1/status/", 404 },
	{ "GET", "/v2/status", 404 },
	{ "POST", "/nothing", 404 },
	{ "POST", "/v1/status", 405 },
	{ "DELETE", "/v1/pools", 405 },
	{ "PUT", "/v1/leases", 405 },
};

START_TEST(request__is_refused_in_json)
{
	json_t *json;
	int status;
	const char *text;

	open_admin();
	ck_assert_int_eq(
		ask(refused[_i].method, refused[_i].resource, answer, sizeof(answer)),
		refused[_i].status);
	json = body();
	ck_assert_int_eq(
		json_unpack(json, "{s:i, s:s}", "status", &status, "error", &text), 0);
	ck_assert_int_eq(status, refused[_i].status);
	ck_assert(refused[_i].status != 405 || strstr(answer, "Allow: GET, HEAD\r\n"));
	json_decref(json);
	admin_close(admin);
}
END_TEST

START_TEST(request__of_garbage_does_no_harm)
{
	static char garbage[1 << 16];
	int fd;

	open_admin();
	memset(garbage, 'x', sizeof(garbage));
	fd = dial();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(send(fd, garbage, sizeof(garbage), MSG_DONTWAIT), 0);
	/* until it has been refused and closed */
	for (;;) {
		struct pollfd pollfd = { .fd = fd, .events = POLLRDHUP };

		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		if (poll(&pollfd, 1, 0) == 1)
			break;
	}
	ck_assert_int_eq(close(fd), 0);
	json_decref(get("/v1/status"));
	/* a connection that is open when the daemon stops */
	fd = dial();
	ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	admin_close(admin);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(open__makes_directory_and_mode)
{
	mode_t before = umask(077);
	struct stat st;

	open_admin();
	(void)umask(before);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert(S_ISSOCK(st.st_mode));
	ck_assert_int_eq(st.st_mode & 0777, 0660);
	admin_close(admin);
	ck_assert_int_eq(lstat(path, &st), -1);
	admin_close(NULL);
}
END_TEST

START_TEST(open__refuses_beside_a_living_daemon)
{
	struct admin *other = NULL;
	char said[128];

	open_admin();
	ck_assert_int_eq(admin_open(base, &sources, path, -1, &other), -EADDRINUSE);
	ck_assert_ptr_null(other);
	(void)snprintf(said, sizeof(said), "another rmemd serves %s", path);
	ck_assert_str_eq(err_text(), said);
	/* which has lost nothing by it */
	json_decref(get("/v1/status"));
	admin_close(admin);
}
END_TEST

START_TEST(open__replaces_the_socket_of_a_dead_daemon)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	/* makes the directory */
	open_admin();
	admin_close(admin);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(close(fd), 0);
	open_admin();
	json_decref(get("/v1/pools"));
	/* somebody else's is left alone at the end */
	ck_assert_int_eq(unlink(path), 0);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	admin_close(admin);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(open__leaves_other_files_alone)
{
	char blocked[256];
	struct stat st;
	FILE *file;

	open_admin();
	admin_close(admin);
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

START_TEST(open__serves_a_socket_that_was_passed)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/passed", directory);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fd, 4), 0);
	ck_assert_int_eq(admin_open(base, &sources, "/nonexistent/path", fd, &admin),
			 0);
	json_decref(get("/v1/leases"));
	admin_close(admin);
	/* the file is the service manager's, the descriptor was handed over */
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("admin-socket");
	TCase *tc = tcase_create("admin-socket");

	tcase_add_checked_fixture(tc, base_make, base_unmake);
	tcase_add_loop_test(tc, request__is_refused_in_json, 0,
			    sizeof(refused) / sizeof(refused[0]));
	tcase_add_test(tc, request__of_garbage_does_no_harm);
	tcase_add_test(tc, open__makes_directory_and_mode);
	tcase_add_test(tc, open__refuses_beside_a_living_daemon);
	tcase_add_test(tc, open__replaces_the_socket_of_a_dead_daemon);
	tcase_add_test(tc, open__leaves_other_files_alone);
	tcase_add_test(tc, open__serves_a_socket_that_was_passed);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
