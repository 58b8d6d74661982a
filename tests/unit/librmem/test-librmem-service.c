/* SPDX-License-Identifier: BSD-3-Clause */
/* Many sessions with the daemon share the service threads. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "librmem/channel/domain.h"
#include "librmem/session/session.h"
#include "unit/librmem/core-case.h"

#define SESSIONS 12u

static rmem *sessions[SESSIONS];
static rmem_queue *queues[SESSIONS];

/* The heartbeats of all sessions came in time: the server fenced none. */
static void check_heartbeats(void)
{
	ck_assert_uint_eq(core.counters.sessions_fenced, 0);
	for (unsigned i = 0; i < SESSIONS; i++)
		ck_assert_uint_eq(info_of(sessions[i]).resumes, 0);
}

/* The server has answered a heartbeat that was sent since. */
static bool heard_since(rmem *session, uint64_t ns)
{
	bool heard;

	pthread_mutex_lock(&session->lock);
	heard = session->alive_ns >= ns;
	pthread_mutex_unlock(&session->lock);
	return heard;
}

static bool all_heard_since(uint64_t ns)
{
	unsigned n = 0;

	while (n < SESSIONS && heard_since(sessions[n], ns))
		n++;
	return n == SESSIONS;
}

static void open_one(unsigned i)
{
	struct rmem_queue_params params = rmem_queue_params_init();

	sessions[i] = open_another("");
	ck_assert_int_eq(rmem_queue_create(sessions[i], &params, &queues[i]), 0);
}

static void open_all(void)
{
	set_heartbeat(400, 6000);
	for (unsigned i = 0; i < SESSIONS; i++)
		open_one(i);
}

static void close_all(void)
{
	for (unsigned i = 0; i < SESSIONS; i++)
		rmem_close(sessions[i]);
}

/* A queue asks for another channel when its owner polls. */
static bool poll_all(void)
{
	for (unsigned i = 0; i < SESSIONS; i++)
		ck_assert_int_eq(rmem_poll(queues[i], NULL, 0), 0);
	return true;
}

/* The number of attempts of a session to connect. */
static unsigned attempts(unsigned i)
{
	return fake.tried[info_of(sessions[i]).session_id % FAKE_SESSIONS];
}

static bool all_tried(unsigned times)
{
	for (unsigned i = 1; i < SESSIONS; i++)
		if (attempts(i) < times)
			return false;
	return true;
}

/* End the channels of the session with the id `only`, or, if that is 0, of all but `except`. */
static void end_channels(uint64_t only, uint64_t except)
{
	struct fabric_channel *found[2 * SESSIONS];
	unsigned n = 0;

	pthread_mutex_lock(&fake.lock);
	for (struct fabric_channel *at = fake.channels; at; at = at->next)
		if (only ? at->hello.session == only : at->hello.session != except)
			found[n++] = at;
	pthread_mutex_unlock(&fake.lock);
	while (n > 0)
		fake_peer_gone(found[--n]);
}

/* The member of an epoll set with this tag, or with this number; -1: none, or it is no set. */
static int member_of(int set, int number, uint64_t tag)
{
	char path[64], line[256];
	int found = -1, at;
	unsigned events;
	uint64_t data;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", set);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "tfd: %d events: %x data: %" SCNx64, &at, &events,
			   &data) == 3 &&
		    (at == number || data == tag))
			found = at;
	if (file)
		(void)fclose(file);
	return found;
}

/* The epoll set that watches a descriptor, -1: none. */
static int set_of(int member)
{
	int fd = 0;

	while (fd < 1024 && member_of(fd, member, UINT64_MAX) < 0)
		fd++;
	return fd < 1024 ? fd : -1;
}

/* The program has closed the service's set and its wake-up, and has made a set with their numbers:
 * its tags are not followed, and the service goes on with another set. */
START_TEST(event__of_no_session_is_not_followed)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 0x5f1b }, found;
	int mine = epoll_create1(EPOLL_CLOEXEC), other = eventfd(1, EFD_CLOEXEC);
	int set, member, newer;
	uint64_t since_ns;

	open_all();
	set = set_of(sessions[0]->wake.epfd);
	member = member_of(set, -1, 0);
	ck_assert_int_eq(dup2(other, member), member);
	ck_assert_int_eq(epoll_ctl(mine, EPOLL_CTL_ADD, member, &event), 0);
	ck_assert_int_eq(dup2(mine, set), set);
	AWAIT((newer = set_of(sessions[0]->wake.epfd)) >= 0);
	ck_assert(newer != set && newer != mine);
	since_ns = clock_now_ns();
	AWAIT(all_heard_since(since_ns));
	check_heartbeats();
	close_all();
	ck_assert_int_eq(epoll_wait(set, &found, 1, 0), 1);
	ck_assert(found.data.u64 == event.data.u64 && found.events == EPOLLIN);
	ck_assert_int_eq(close(set), 0);
	ck_assert_int_eq(close(member), 0);
	ck_assert_int_eq(close(mine), 0);
	ck_assert_int_eq(close(other), 0);
}
END_TEST

/* The attempts of all sessions together take longer than the fence time.  All heartbeats come in
 * time, also those of the session that needs no connection, and each session gets its turn. */
START_TEST(unreachable_server__ends_no_session)
{
	open_all();
	fake.slow_ms = UINT_MAX;
	end_channels(0, info_of(sessions[0]).session_id);
	AWAIT_LONG(poll_all() && all_tried(4));
	ck_assert_uint_eq(attempts(0), 2);
	check_heartbeats();
	/* sessions close and open while others connect */
	rmem_close(sessions[0]);
	fake.slow_ms = 0;
	open_one(0);
	AWAIT_LONG(poll_all() && fake.connects >= 3 * SESSIONS + 1);
	check_heartbeats();
	close_all();
}
END_TEST

/* Connecting takes longer than the time-out of the first attempt. */
START_TEST(slow_server__is_reached_by_a_later_attempt)
{
	open_all();
	fake.slow_ms = 1300;
	end_channels(info_of(sessions[1]).session_id, 0);
	AWAIT_LONG(poll_all() && fake.connects > 2 * SESSIONS);
	ck_assert_uint_eq(attempts(1), 5);
	check_heartbeats();
	close_all();
}
END_TEST

/* ---- closing ---- */

#define FAILURES 3u

/* The next attempt to connect has the time that it has after several failures, 4 s. */
static void patience_raise(void)
{
	pthread_mutex_lock(&stage.client->lock);
	stage.client->domains->domains[0].failures = FAILURES;
	pthread_mutex_unlock(&stage.client->lock);
}

static unsigned failures(void)
{
	unsigned n;

	pthread_mutex_lock(&stage.client->lock);
	n = stage.client->domains->domains[0].failures;
	pthread_mutex_unlock(&stage.client->lock);
	return n;
}

/* End the channels that were connected last. */
static void end_latest(unsigned n)
{
	struct fabric_channel *found[2 * SESSIONS];
	struct fabric_channel *at;

	pthread_mutex_lock(&fake.lock);
	at = fake.channels;
	for (unsigned i = 0; i < n; i++, at = at->next)
		found[i] = at;
	pthread_mutex_unlock(&fake.lock);
	while (n > 0)
		fake_peer_gone(found[--n]);
}

#define STALLED 4u /* channels of the queue */

/* The queue loses its channels, and rmem-connect waits for a silent host, or, with `direct`, for
 * the server's queue pair. */
static void connect_stall(bool direct)
{
	uint64_t session;
	unsigned tried, joins;

	if (direct) {
		serve_devices(1);
		fake_endpoints[1].flags |= FABRIC_ENDPOINT_DIRECT;
	}
	open_with(0);
	queue_open(STALLED);
	session = info().session_id % FAKE_SESSIONS;
	tried = fake.tried[session];
	joins = proxy.seen[WIRE_TYPE_join_channel];
	patience_raise();
	if (direct)
		proxy.hold = WIRE_TYPE_join_channel;
	else
		fake.slow_ms = UINT_MAX;
	end_latest(STALLED);
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && fake.tried[session] > tried &&
	      (!direct || proxy.seen[WIRE_TYPE_join_channel] > joins));
}

START_TEST(close__ends_a_connect_that_waits)
{
	connect_stall(_i);
	client_close();
	ck_assert_uint_eq(fake.cancels, 1);
}
END_TEST

/* The queue's other channels are not connected meanwhile, the device does not count as one that
 * fails, and the session goes on. */
START_TEST(queue_free__ends_a_connect_that_waits)
{
	connect_stall(_i);
	rmem_queue_free(stage.queue);
	ck_assert_uint_eq(fake.cancels, 1);
	ck_assert_uint_eq(failures(), FAILURES);
	fake.slow_ms = 0;
	proxy_release();
	queue_open(STALLED);
	ck_assert_int_eq(queue_write(alloc(1000, NULL)), 0);
	ck_assert_uint_eq(info().resumes, 0);
}
END_TEST

/* ---- threads that are interrupted or cancelled ---- */

static rmem_lease *lease;
static atomic_bool in_handler;

static void *run_ping(void *arg)
{
	(void)arg;
	(void)rmem_ping(stage.client, NULL);
	return NULL;
}

static void *run_read(void *arg)
{
	(void)arg;
	(void)rmem_read(lease, 0, stage.buf, 9);
	return NULL;
}

static void *run_wait(void *arg)
{
	struct rmem_completion completion;

	(void)arg;
	/* an assertion in this thread would be a cancellation point */
	(void)rmem_wait(stage.queue, &completion, 1, 1, -1);
	return NULL;
}

static void *run_notified(void *arg)
{
	struct rmem_notice notice;

	(void)arg;
	(void)rmem_notified(stage.client, &notice, 1, 1000);
	return NULL;
}

static void *run_stat(void *arg)
{
	struct rmem_stat entry = rmem_stat_init();

	(void)arg;
	(void)rmem_stat(stage.client, "nothing", &entry);
	return NULL;
}

static void *(*const waits[])(void *arg) = { run_ping, run_read, run_wait, run_notified,
					     run_stat };

/* Start a thread that waits in a call. */
static void waiter_start(void *(*run)(void *arg), pthread_t *ret_thread)
{
	unsigned posts;

	set_heartbeat(100, 20000);
	ck_assert_int_eq(open_within(0, 1000), 0);
	lease = alloc(1000, NULL);
	queue_open(1);
	posts = fake.posts;
	if (run == run_ping)
		proxy.hold = WIRE_TYPE_ping;
	if (run == run_stat)
		proxy.hold = WIRE_TYPE_stat;
	fake.automatic = false;
	if (run == run_wait)
		submit_write(lease);
	ck_assert_int_eq(pthread_create(ret_thread, NULL, run, NULL), 0);
	if (run == run_read)
		AWAIT(fake.posts > posts);
	/* the thread receives for the service thread, for 20 ms */
	if (run == run_stat) {
		AWAIT(proxy.seen[WIRE_TYPE_stat] > 0);
		return;
	}
	for (unsigned i = 0; i < 50; i++)
		sleep_1ms();
}

static void waiter_end(pthread_t thread)
{
	proxy_release();
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	fake.automatic = true;
}

static void stay_in_handler(int signal)
{
	(void)signal;
	in_handler = true;
	while (in_handler)
		sleep_1ms();
}

/* A signal handler keeps the waiting thread: the service thread sends the heartbeats. */
START_TEST(signal_handler__that_stays_loses_no_session)
{
	struct sigaction action = { .sa_handler = stay_in_handler };
	uint64_t since_ns;
	pthread_t thread;

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	/* held heartbeats would end the session */
	waiter_start(waits[_i + 1], &thread);
	ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
	AWAIT(in_handler);
	since_ns = clock_now_ns();
	AWAIT(heard_since(stage.client, since_ns));
	in_handler = false;
	waiter_end(thread);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 9), 0);
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_uint_eq(core.counters.sessions_fenced, 0);
}
END_TEST

/* A call of a cancelled thread ends as any other: session and queue go on. */
START_TEST(cancelled_thread__ends_after_its_call)
{
	pthread_t thread;

	waiter_start(waits[_i], &thread);
	ck_assert_int_eq(pthread_cancel(thread), 0);
	waiter_end(thread);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 9), 0);
	ck_assert_int_eq(queue_write(lease), 0);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("service");

	tcase_add_test(tc, event__of_no_session_is_not_followed);
	tcase_add_test(tc, unreachable_server__ends_no_session);
	tcase_add_test(tc, slow_server__is_reached_by_a_later_attempt);
	tcase_add_loop_test(tc, close__ends_a_connect_that_waits, 0, 2);
	tcase_add_loop_test(tc, queue_free__ends_a_connect_that_waits, 0, 2);
	tcase_add_loop_test(tc, signal_handler__that_stays_loses_no_session, 0, 4);
	tcase_add_loop_test(tc, cancelled_thread__ends_after_its_call, 0, 5);
	return unit_main();
}
