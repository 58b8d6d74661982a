/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/wakeup.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"

#define TAG 5

static int epfd;
static struct wakeup wakeup;

static void setup(void)
{
	epfd = epoll_create1(EPOLL_CLOEXEC);
	ck_assert_int_ge(epfd, 0);
	ck_assert_int_eq(wakeup_open(&wakeup, epfd, TAG), 0);
}

static void teardown(void)
{
	(void)close(wakeup.fd);
	(void)close(epfd);
}

static bool is_readable(void)
{
	struct pollfd pollfd = { .fd = epfd, .events = POLLIN };

	return poll(&pollfd, 1, 0) == 1;
}

START_TEST(set__makes_the_set_readable_until_it_is_cleared)
{
	struct epoll_event event;

	ck_assert(!is_readable());
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(wakeup_set(&wakeup) && wakeup_set(&wakeup));
		ck_assert(is_readable());
		ck_assert_int_eq(epoll_wait(epfd, &event, 1, 0), 1);
		ck_assert_uint_eq(event.data.u64, TAG);
		ck_assert(wakeup_clear(&wakeup));
		ck_assert(!is_readable());
	}
}
END_TEST

/* An eventfd of the program, too, which has all that the kernel tells in common with it. */
static void replace(int fd)
{
	int other = fd == epfd ? epoll_create1(0) : eventfd(7, 0);

	ck_assert_int_eq(dup2(other, fd), fd);
	(void)close(other);
}

START_TEST(set__finds_that_a_descriptor_is_another_one)
{
	eventfd_t count = 0;

	if (_i < 2)
		replace(_i == 0 ? epfd : wakeup.fd);
	else
		(void)close(_i == 2 ? epfd : wakeup.fd);
	ck_assert(!fd_is_watched(epfd, wakeup.fd));
	ck_assert(!wakeup_set(&wakeup) && !wakeup_clear(&wakeup));
	ck_assert(!fd_watched_close(epfd, wakeup.fd));
	ck_assert(!is_readable() || _i == 2);
	/* it is open, and nobody has written to it */
	if (_i == 1)
		ck_assert(eventfd_read(wakeup.fd, &count) == 0 && count == 7);
}
END_TEST

/* The parent's set stays as it is. */
START_TEST(close__in_a_child_changes_nothing_of_the_parent)
{
	int status;
	pid_t pid;

	ck_assert(wakeup_set(&wakeup));
	pid = fork();
	if (pid == 0)
		_exit(!fd_is_watched(epfd, wakeup.fd) ||
		      !fd_watched_close(epfd, wakeup.fd) ||
		      fcntl(wakeup.fd, F_GETFD) >= 0);
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
	tcase_add_loop_test(tcase, set__finds_that_a_descriptor_is_another_one, 0, 4);
	tcase_add_test(tcase, close__in_a_child_changes_nothing_of_the_parent);
	return unit_main();
}
