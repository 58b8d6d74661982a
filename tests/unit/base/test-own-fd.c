/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/own_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/unit.h"

#define LOW_END 256

static int event_open(void)
{
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static void limit(rlim_t descriptors)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = descriptors;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

START_TEST(move__leaves_the_low_numbers_to_the_program)
{
	int low = event_open(), fd = own_fd(low);

	ck_assert_int_ge(fd, LOW_END);
	ck_assert_int_lt(fd, FD_SETSIZE);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
	ck_assert_int_eq(fcntl(low, F_GETFD), -1);
	ck_assert_int_eq(close(fd), 0);
}
END_TEST

START_TEST(move__keeps_the_error)
{
	errno = ENFILE;
	ck_assert_int_eq(own_fd(-1), -1);
	ck_assert_int_eq(errno, ENFILE);
}
END_TEST

/* Fewer numbers are allowed, or those below FD_SETSIZE are taken. */
START_TEST(move__stays_where_no_number_is_free)
{
	int low = event_open(), fd;

	limit(_i == 0 ? LOW_END : FD_SETSIZE + 8);
	for (int taken = LOW_END; _i == 1 && taken < FD_SETSIZE; taken++)
		ck_assert_int_eq(dup2(low, taken), taken);
	fd = own_fd(low);
	ck_assert_int_eq(fd, low);
	ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
	ck_assert_int_eq(fcntl(FD_SETSIZE, F_GETFD), -1);
}
END_TEST

START_TEST(inode__tells_a_socket_from_all_else)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0), other = socket(AF_UNIX, SOCK_DGRAM, 0);
	ino_t inode = own_fd_inode(fd);

	ck_assert(inode && own_fd_is(fd, inode));
	ck_assert(!own_fd_is(other, inode));
	ck_assert(!own_fd_is(-1, own_fd_inode(-1)));
	ck_assert_int_eq(dup2(event_open(), fd), fd);
	ck_assert(!own_fd_is(fd, inode) && !own_fd_is(fd, own_fd_inode(fd)));
	(void)close(fd);
	ck_assert(!own_fd_is(fd, inode));
}
END_TEST

START_TEST(watched__tells_whether_both_are_the_same)
{
	int set = epoll_create1(0), fd = event_open();
	struct epoll_event event = { .events = EPOLLIN };

	ck_assert(!fd_is_watched(set, fd));
	ck_assert_int_eq(epoll_wait(set, &event, 1, 0), 0);
	fd_watched_close(set, fd);
	ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
	ck_assert(fd_is_watched(set, fd));
	if (_i == 0)
		ck_assert_int_eq(dup2(event_open(), fd), fd);
	else
		ck_assert_int_eq(dup2(epoll_create1(0), set), set);
	ck_assert(!fd_is_watched(set, fd));
	fd_watched_close(set, fd);
	ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
	fd_watched_close(set, fd);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("own_fd", NULL, NULL);

	tcase_add_test(tcase, move__leaves_the_low_numbers_to_the_program);
	tcase_add_test(tcase, move__keeps_the_error);
	tcase_add_loop_test(tcase, move__stays_where_no_number_is_free, 0, 2);
	tcase_add_test(tcase, inode__tells_a_socket_from_all_else);
	tcase_add_loop_test(tcase, watched__tells_whether_both_are_the_same, 0, 2);
	return unit_main();
}
