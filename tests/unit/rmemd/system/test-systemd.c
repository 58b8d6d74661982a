/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to the service manager, and passed sockets. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/system/systemd.h"
#include "unit/suspended.h"
#include "unit/unit.h"

static char directory[sizeof("/tmp/rmem-notify-XXXXXX")];
static char path[64];
static int service_manager;

/* Passed descriptors begin at 3, which Check uses itself.  These cases run in a process of their
 * own, which does not use Check and reports by its exit status. */
#define REQUIRE(condition)                                                        \
	do {                                                                      \
		if (!(condition)) {                                               \
			printf("# line %d: %s is false\n", __LINE__, #condition); \
			(void)fflush(stdout);                                     \
			_exit(EXIT_FAILURE);                                      \
		}                                                                 \
	} while (0)

static int socket_at(const char *where, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type, 0);

	REQUIRE(fd >= 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", where);
	REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

static void setup(void)
{
	memcpy(directory, "/tmp/rmem-notify-XXXXXX", sizeof(directory));
	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(path, sizeof(path), "%s/notify", directory);
	service_manager = socket_at(path, SOCK_DGRAM);
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", path, 1), 0);
}

static void teardown(void)
{
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}

static const char *received(int fd)
{
	static char buf[4096];
	ssize_t got = recv(fd, buf, sizeof(buf) - 1, 0);

	ck_assert_int_ge((int)got, 0);
	buf[got] = '\0';
	return buf;
}

START_TEST(state__reaches_the_service_manager)
{
	systemd_ready("lending 2 pools");
	ck_assert_str_eq(received(service_manager), "READY=1\nSTATUS=lending 2 pools");
	systemd_status("all well");
	ck_assert_str_eq(received(service_manager), "STATUS=all well");
	systemd_reloading();
	ck_assert_int_eq(
		strncmp(received(service_manager), "RELOADING=1\nMONOTONIC_USEC=", 27),
		0);
	systemd_stopping();
	ck_assert_int_eq(strncmp(received(service_manager), "STOPPING=1\n", 11), 0);
}
END_TEST

/* The service manager compares the time with CLOCK_MONOTONIC. */
START_TEST(reloading__has_the_time_of_the_service_manager)
{
	struct timespec now;
	const char *text;

	if (!unit_suspended())
		return;
	systemd_reloading();
	text = strchr(received(service_manager), '\n');
	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	ck_assert_uint_le(strtoull(text + strlen("\nMONOTONIC_USEC="), NULL, 10),
			  (unsigned long long)(now.tv_sec + 1) * 1000000);
}
END_TEST

START_TEST(state__without_a_service_manager_does_nothing)
{
	ck_assert_int_eq(unsetenv("NOTIFY_SOCKET"), 0);
	systemd_ready("here");
	ck_assert_int_eq(recv(service_manager, directory, 1, MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
}
END_TEST

START_TEST(watchdog__is_served_by_the_loop)
{
	struct event_base *base = event_base_new();

	/* the service has no watchdog */
	ck_assert_int_eq(systemd_watchdog_start(base), 0);
	ck_assert_int_eq(event_base_dispatch(base), 1);
	ck_assert_int_eq(setenv("WATCHDOG_USEC", "20000", 1), 0);
	ck_assert_int_eq(systemd_watchdog_start(base), 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		ck_assert_str_eq(received(service_manager), "WATCHDOG=1");
	}
	systemd_watchdog_stop();
	ck_assert_int_eq(event_base_dispatch(base), 1);
	event_base_free(base);
}
END_TEST

/* ---- socket activation ---- */

static void set_listen_fds(int n)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", n);
	REQUIRE(setenv("LISTEN_FDS", text, 1) == 0);
	(void)snprintf(text, sizeof(text), "%d", getpid());
	REQUIRE(setenv("LISTEN_PID", text, 1) == 0);
}

static void in_child(void (*run)(void))
{
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		run();
		_exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void move_fd(int fd, int at)
{
	if (fd == at)
		return;
	REQUIRE(dup2(fd, at) == at);
	REQUIRE(close(fd) == 0);
}

static int tcp_listener(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE(fd >= 0);
	REQUIRE(listen(fd, 1) == 0);
	return fd;
}

static int unix_listener(const char *name)
{
	char where[128];
	int fd;

	(void)snprintf(where, sizeof(where), "%s/%s", directory, name);
	fd = socket_at(where, SOCK_STREAM);
	REQUIRE(unlink(where) == 0);
	REQUIRE(listen(fd, 1) == 0);
	return fd;
}

static void check_kinds(void)
{
	struct systemd_fds fds;

	move_fd(unix_listener("a"), 3);
	move_fd(tcp_listener(), 4);
	move_fd(tcp_listener(), 5);
	set_listen_fds(3);
	REQUIRE(systemd_listen_fds(&fds) == 0);
	REQUIRE(fds.admin == 3);
	REQUIRE(fds.n_control == 2);
	REQUIRE(fds.control[0] == 4 && fds.control[1] == 5);
	REQUIRE(fcntl(3, F_GETFL) & O_NONBLOCK);
	REQUIRE(fcntl(5, F_GETFD) & FD_CLOEXEC);
	/* child processes do not get them */
	REQUIRE(!getenv("LISTEN_FDS"));
	REQUIRE(systemd_listen_fds(&fds) == 0);
	REQUIRE(fds.n_control == 0 && fds.admin == -1);
}

START_TEST(listen_fds__are_sorted_by_kind)
{
	in_child(check_kinds);
}
END_TEST

static void check_refused(void)
{
	struct systemd_fds fds = { .n_control = 77 };

	move_fd(tcp_listener(), 3);
	move_fd(socket(AF_INET, SOCK_DGRAM, 0), 4);
	set_listen_fds(2);
	REQUIRE(systemd_listen_fds(&fds) == -EINVAL);
	REQUIRE(strstr(err_text(), "neither a listening TCP"));
	REQUIRE(fds.n_control == 77);
	REQUIRE(fcntl(3, F_GETFD) == -1 && fcntl(4, F_GETFD) == -1);

	move_fd(unix_listener("a"), 3);
	move_fd(unix_listener("b"), 4);
	set_listen_fds(2);
	REQUIRE(systemd_listen_fds(&fds) == -EINVAL);
	REQUIRE(strstr(err_text(), "two UNIX sockets were passed; rmemd serves one"));
}

START_TEST(listen_fds__of_other_kinds_are_refused)
{
	in_child(check_refused);
}
END_TEST

/* ---- journal ---- */

int main(void)
{
	TCase *tc = unit_case("notify", setup, teardown);

	tcase_add_test(tc, state__reaches_the_service_manager);
	tcase_add_test(tc, reloading__has_the_time_of_the_service_manager);
	tcase_add_test(tc, state__without_a_service_manager_does_nothing);
	tcase_add_test(tc, watchdog__is_served_by_the_loop);
	tcase_add_test(tc, listen_fds__are_sorted_by_kind);
	tcase_add_test(tc, listen_fds__of_other_kinds_are_refused);
	return unit_main();
}
