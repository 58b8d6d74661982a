/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

#define TAG 5

static struct wakeup wakeup;
static int only_family = -1, other_error;
static unsigned refused;

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
	if (only_family < 0 || domain == only_family)
		return __real_socket(domain, type, protocol);
	errno = refused++ == 0 ? other_error : EAFNOSUPPORT;
	return -1;
}

static void setup(void)
{
	only_family = -1;
	refused = 0;
	ck_assert_int_eq(wakeup_open(&wakeup, TAG), 0);
}

static void teardown(void)
{
	wakeup_close(&wakeup);
}

static bool is_readable(void)
{
	struct pollfd pollfd = { .fd = wakeup.epfd, .events = POLLIN };

	return poll(&pollfd, 1, 0) == 1;
}

START_TEST(set__makes_the_set_readable_until_it_is_cleared)
{
	struct epoll_event event;

	ck_assert(!is_readable());
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(wakeup_set(&wakeup) && wakeup_set(&wakeup));
		ck_assert(is_readable());
		ck_assert_int_eq(epoll_wait(wakeup.epfd, &event, 1, 0), 1);
		ck_assert_uint_eq(event.data.u64, TAG);
		ck_assert(wakeup_clear(&wakeup));
		ck_assert(!is_readable());
	}
}
END_TEST

/* As in a sandbox. */
START_TEST(open__needs_one_family_of_addresses_alone)
{
	static const int errors[] = { EAFNOSUPPORT, EPERM };

	wakeup_close(&wakeup);
	only_family = _i % 2 == 0 ? AF_INET : AF_INET6;
	other_error = errors[_i / 2];
	ck_assert_int_eq(wakeup_open(&wakeup, TAG), 0);
	ck_assert(!is_readable());
	ck_assert(wakeup_set(&wakeup) && is_readable());
}
END_TEST

/* Not that of the other family, which the kernel may not have. */
START_TEST(open__tells_what_failed)
{
	static const int errors[] = { EMFILE, ENFILE, ENOBUFS, ENOMEM };
	struct wakeup other = WAKEUP_CLOSED;

	only_family = AF_UNIX;
	other_error = errors[_i];
	ck_assert_int_eq(wakeup_open(&other, TAG), -errors[_i]);
	ck_assert_int_eq(other.epfd, -1);
}
END_TEST

static void replace(int fd, int other)
{
	ck_assert_int_ge(other, 0);
	ck_assert_int_eq(dup2(other, fd), fd);
	(void)close(other);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* A descriptor of the same kind is another one, too. */
START_TEST(set__finds_that_a_descriptor_is_another_one)
{
	const struct wakeup was = wakeup;

	if (_i < 2)
		replace(_i == 0 ? wakeup.epfd : wakeup.fd,
			_i == 0 ? epoll_create1(0) : socket(AF_INET, SOCK_DGRAM, 0));
	else
		(void)close(_i == 2 ? wakeup.epfd : wakeup.fd);
	ck_assert(!wakeup_is_own(&wakeup));
	ck_assert(!wakeup_set(&wakeup) && !wakeup_clear(&wakeup));
	wakeup_close(&wakeup);
	/* its own is closed, if that can be known */
	ck_assert(is_open(was.epfd) == (_i != 2));
	ck_assert(is_open(was.fd) == (_i == 1));
}
END_TEST

/* A set of the program, which watches what has the number of the wake-up's socket. */
START_TEST(set__changes_no_set_that_has_both_numbers)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = TAG };
	const struct wakeup was = wakeup;

	replace(wakeup.epfd, epoll_create1(0));
	replace(wakeup.fd, _i == 0 ? eventfd(1, 0) : socket(AF_INET, SOCK_DGRAM, 0));
	ck_assert_int_eq(epoll_ctl(wakeup.epfd, EPOLL_CTL_ADD, wakeup.fd, &event), 0);
	ck_assert(is_readable() == (_i == 0));
	ck_assert(!wakeup_set(&wakeup) && !wakeup_clear(&wakeup));
	ck_assert(!wakeup_is_own(&wakeup));
	ck_assert(is_readable() == (_i == 0));
	wakeup_close(&wakeup);
	ck_assert(is_open(was.epfd) && is_open(was.fd));
}
END_TEST

/* The parent's set stays as it is. */
START_TEST(close__in_a_child_changes_nothing_of_the_parent)
{
	const struct wakeup was = wakeup;
	int status;
	pid_t pid;

	ck_assert(wakeup_set(&wakeup));
	pid = fork();
	if (pid == 0) {
		wakeup_close(&wakeup);
		_exit(is_open(was.epfd) || is_open(was.fd));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(is_readable());
	ck_assert(wakeup_clear(&wakeup));
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("wakeup", setup, teardown);

	tcase_add_test(tcase, set__makes_the_set_readable_until_it_is_cleared);
	tcase_add_loop_test(tcase, open__needs_one_family_of_addresses_alone, 0, 4);
	tcase_add_loop_test(tcase, open__tells_what_failed, 0, 4);
	tcase_add_loop_test(tcase, set__finds_that_a_descriptor_is_another_one, 0, 4);
	tcase_add_loop_test(tcase, set__changes_no_set_that_has_both_numbers, 0, 2);
	tcase_add_test(tcase, close__in_a_child_changes_nothing_of_the_parent);
	return unit_main();
}
