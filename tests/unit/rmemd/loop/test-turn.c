/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns of the loop are measured, and end. */
#include <event2/event.h>
#include <event2/http.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "rmemd/admin/http.h"
#include "rmemd/loop/events.h"
#include "rmemd/loop/turn.h"
#include "unit/unit.h"

static struct turn turn;
static uint64_t now_ns;

static uint64_t fake_clock(void)
{
	return now_ns;
}

static void setup(void)
{
	turn = (struct turn){ 0 };
	now_ns = 1000 * NS_PER_MS;
	clock_set_source(fake_clock);
}

static void teardown(void)
{
	clock_set_source(NULL);
}

/* A turn that waits, then works. */
static void run_turn(uint64_t work_ms, uint64_t cpu_ms)
{
	turn_begin(&turn, 7);
	now_ns += 500 * NS_PER_MS;
	(void)turn_over(&turn);
	now_ns += work_ms * NS_PER_MS;
	turn_end(&turn, now_ns, 7 + cpu_ms * NS_PER_MS);
}

START_TEST(turn__is_measured_from_its_first_work_on)
{
	run_turn(30, 2);
	run_turn(4, 3);
	ck_assert_uint_eq(turn.n, 2);
	ck_assert_uint_eq(turn.n_long, 1);
	ck_assert_uint_eq(turn.cpu.ever_ns, 3 * NS_PER_MS);
	ck_assert_uint_eq(turn.wall.ever_ns, 30 * NS_PER_MS);
	/* one without work only waited */
	turn_begin(&turn, 0);
	now_ns += 900 * NS_PER_MS;
	turn_end(&turn, now_ns, 0);
	ck_assert_uint_eq(turn.wall.ever_ns, 30 * NS_PER_MS);
}
END_TEST

START_TEST(longest_turn__is_forgotten_after_two_windows)
{
	run_turn(9, 9);
	now_ns += TURN_WINDOW_NS;
	run_turn(2, 2);
	ck_assert_uint_eq(turn_recent_ns(&turn.cpu), 9 * NS_PER_MS);
	now_ns += TURN_WINDOW_NS;
	run_turn(1, 1);
	ck_assert_uint_eq(turn_recent_ns(&turn.cpu), 2 * NS_PER_MS);
	ck_assert_uint_eq(turn_recent_ns(&turn.wall), 2 * NS_PER_MS);
	now_ns += 5 * TURN_WINDOW_NS;
	run_turn(1, 1);
	ck_assert_uint_eq(turn_recent_ns(&turn.cpu), 1 * NS_PER_MS);
	ck_assert_uint_eq(turn.cpu.ever_ns, 9 * NS_PER_MS);
}
END_TEST

START_TEST(turn__is_over_after_its_time)
{
	/* outside of the daemon's loop there is always time */
	ck_assert(!turn_over(&turn));
	now_ns += 10 * TURN_WORK_NS;
	ck_assert(!turn_over(&turn));
	turn_begin(&turn, 0);
	now_ns += 10 * TURN_WORK_NS;
	ck_assert(!turn_over(&turn));
	now_ns += TURN_WORK_NS - 1;
	ck_assert(!turn_over(&turn));
	now_ns++;
	ck_assert(turn_over(&turn));
	turn_end(&turn, now_ns, 0);
	turn_begin(&turn, 0);
	ck_assert(!turn_over(&turn));
}
END_TEST

static void on_long_work(evutil_socket_t, short, void *arg)
{
	unsigned *n_run = arg;

	(void)turn_over(&turn);
	now_ns += TURN_WORK_NS;
	ck_assert(turn_over(&turn));
	(*n_run)++;
}

/* Two callbacks are due in one poll: each has a turn of its own. */
START_TEST(over_turn__leaves_other_callbacks_to_the_next)
{
	struct event_base *base = event_base_new();
	unsigned n_run = 0;

	ck_assert_ptr_nonnull(base);
	turn.base = base;
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(event_base_once(base, -1, EV_TIMEOUT, on_long_work,
						 &n_run, &(struct timeval){ 0 }),
				 0);
	for (unsigned i = 1; i <= 2; i++) {
		turn_begin(&turn, 0);
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		ck_assert_uint_eq(n_run, i);
	}
	event_base_free(base);
}
END_TEST

/* ---- every callback is measured ---- */

#define WAIT_NS (500 * NS_PER_MS)
#define WORK_NS (40 * NS_PER_MS)

static unsigned n_called;

static void work(void)
{
	now_ns += WORK_NS;
	n_called++;
}

static void on_event(evutil_socket_t, short, void *)
{
	work();
}

static void on_request(struct evhttp_request *request, void *)
{
	work();
	evhttp_send_reply(request, HTTP_OK, "OK", NULL);
}

/* Turns until something was called; each waits before it works. */
static void loop(struct event_base *base)
{
	n_called = 0;
	while (n_called == 0) {
		turn_begin(&turn, 0);
		now_ns += WAIT_NS;
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
		turn_end(&turn, now_ns, n_called * WORK_NS);
	}
	ck_assert_uint_eq(n_called, 1);
	ck_assert_uint_eq(turn.wall.ever_ns, WORK_NS);
	ck_assert_uint_eq(turn.cpu.ever_ns, WORK_NS);
}

/* A descriptor, as of a fabric, a timer, and a signal. */
START_TEST(event__is_measured_with_its_callback)
{
	static const short what[] = { EV_READ, EV_TIMEOUT, EV_SIGNAL };
	struct event_base *base = event_base_new();
	struct event *event;
	int pipe_fds[2];
	int fds[3];

	ck_assert_int_eq(pipe(pipe_fds), 0);
	ck_assert_int_eq(write(pipe_fds[1], "", 1), 1);
	fds[0] = pipe_fds[0];
	fds[1] = -1;
	fds[2] = SIGUSR1;
	event = event_make(base, fds[_i], what[_i], on_event, NULL);
	ck_assert_ptr_nonnull(event);
	ck_assert_int_eq(event_add(event, _i == 1 ? &(struct timeval){ 0 } : NULL), 0);
	if (_i == 2)
		ck_assert_int_eq(raise(SIGUSR1), 0);
	loop(base);
	event_drop(&event);
	ck_assert_ptr_null(event);
	event_base_free(base);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
}
END_TEST

static void drop_event(evutil_socket_t, short, void *arg)
{
	struct event **event = arg;

	event_drop(event);
	work();
}

START_TEST(event__may_be_dropped_by_its_callback)
{
	struct event_base *base = event_base_new();
	struct event *event = event_make(base, -1, 0, drop_event, &event);

	ck_assert_ptr_nonnull(event);
	event_active(event, EV_TIMEOUT, 0);
	loop(base);
	ck_assert_ptr_null(event);
	event_base_free(base);
}
END_TEST

/* libevent's own events call it: accepting is a turn, and the request another. */
START_TEST(http__is_measured_from_what_it_receives)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(sa_family_t);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int client = socket(AF_UNIX, SOCK_STREAM, 0);
	struct event_base *base = event_base_new();
	struct http_server *server;
	uint64_t n_refused = 0;

	/* a name that the kernel chooses */
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, bytes), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	bytes = sizeof(at);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	ck_assert_int_eq(http_open(base, fd, on_request, NULL, &n_refused, &server), 0);
	ck_assert_int_eq(connect(client, (struct sockaddr *)&at, bytes), 0);
	ck_assert_int_eq((int)send(client, request, strlen(request), 0),
			 (int)strlen(request));
	loop(base);
	http_close(server);
	event_base_free(base);
	(void)close(client);
	(void)close(fd);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("turn", setup, teardown);

	tcase_add_test(tc, turn__is_measured_from_its_first_work_on);
	tcase_add_test(tc, longest_turn__is_forgotten_after_two_windows);
	tcase_add_test(tc, turn__is_over_after_its_time);
	tcase_add_test(tc, over_turn__leaves_other_callbacks_to_the_next);
	tcase_add_loop_test(tc, event__is_measured_with_its_callback, 0, 3);
	tcase_add_test(tc, event__may_be_dropped_by_its_callback);
	tcase_add_test(tc, http__is_measured_from_what_it_receives);
	return unit_main();
}
