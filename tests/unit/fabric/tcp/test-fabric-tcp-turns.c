/* SPDX-License-Identifier: BSD-3-Clause */
/* Which data thread of the tcp fabric has a stream, and whose turn it is there.  The linker calls
 * the function here instead of the fabric's (-Wl,--wrap). */
#include <endian.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/inband.h"
#include "fabric/tcp/ready.h"
#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "unit/unit.h"

/* ---- groups ---- */

#define TENANTS 2
#define SESSIONS 2 /* of a tenant */
#define STREAMS 3  /* of a session */

static struct tcp_group thread, tenants[TENANTS], sessions[TENANTS][SESSIONS];
static struct list streams[TENANTS][SESSIONS][STREAMS];

static void groups_init(void)
{
	tcp_group_init(&thread, NULL, false);
	for (unsigned t = 0; t < TENANTS; t++) {
		tcp_group_init(&tenants[t], &thread, false);
		for (unsigned s = 0; s < SESSIONS; s++) {
			tcp_group_init(&sessions[t][s], &tenants[t], true);
			for (unsigned i = 0; i < STREAMS; i++)
				list_init(&streams[t][s][i]);
		}
	}
}

static void ready(unsigned tenant, unsigned session, unsigned stream)
{
	tcp_group_add(&sessions[tenant][session], &streams[tenant][session][stream]);
}

/* A turn that takes so long. */
static void expect_turn_of(unsigned tenant, unsigned session, unsigned stream,
			   uint64_t ns)
{
	ck_assert_ptr_eq(tcp_group_take(&thread), &streams[tenant][session][stream]);
	tcp_group_charge(&sessions[tenant][session], ns);
}

static void expect_turn(unsigned tenant, unsigned session, unsigned stream)
{
	expect_turn_of(tenant, session, stream, 1);
}

START_TEST(turns__of_nobody_are_none)
{
	groups_init();
	ck_assert_ptr_null(tcp_group_take(&thread));
	ready(0, 0, 0);
	expect_turn(0, 0, 0);
	ck_assert_ptr_null(tcp_group_take(&thread));
}
END_TEST

START_TEST(turns__go_round_tenants_sessions_and_streams)
{
	groups_init();
	for (unsigned i = 0; i < STREAMS; i++)
		ready(0, 0, i);
	ready(0, 1, 0);
	ready(1, 0, 0);
	expect_turn(0, 0, 0);
	ready(0, 0, 0); /* it goes on, behind the others */
	expect_turn(1, 0, 0);
	ready(1, 0, 0);
	expect_turn(0, 1, 0);
	expect_turn(1, 0, 0);
	expect_turn(0, 0, 1);
	expect_turn(0, 0, 2);
	expect_turn(0, 0, 0);
	ck_assert_ptr_null(tcp_group_take(&thread));
}
END_TEST

/* One that uses little of the thread's time is next, as often as it is ready. */
START_TEST(turns__are_of_those_who_used_least_time)
{
	groups_init();
	for (unsigned i = 0; i < STREAMS; i++)
		ready(0, 0, i);
	ready(1, 0, 0);
	expect_turn_of(0, 0, 0, 300);
	ready(0, 0, 0);
	for (unsigned i = 0; i < 3; i++) {
		expect_turn_of(1, 0, 0, 100);
		ready(1, 0, 0);
	}
	expect_turn_of(0, 0, 1, 300);
	/* sessions of a tenant, too */
	ready(0, 1, 1);
	expect_turn_of(1, 0, 0, 1000);
	expect_turn_of(0, 1, 1, 10);
	ready(0, 1, 1);
	expect_turn_of(0, 1, 1, 400);
	ready(0, 1, 1);
	expect_turn_of(0, 0, 2, 1);
}
END_TEST

/* Who was away has no claim to the time that others have used meanwhile. */
START_TEST(turns__save_up_no_time)
{
	groups_init();
	ready(1, 0, 0);
	expect_turn_of(1, 0, 0, 1);
	for (unsigned i = 0; i < 3; i++) {
		ready(0, 0, i);
		expect_turn_of(0, 0, i, 1000);
	}
	ready(0, 0, 0);
	ready(0, 0, 1);
	expect_turn_of(0, 0, 0, 1000);
	ready(1, 0, 0);
	expect_turn_of(1, 0, 0, 1500);
	ready(1, 0, 0);
	expect_turn_of(0, 0, 1, 1000);
}
END_TEST

START_TEST(turns__forget_a_stream_that_ends)
{
	groups_init();
	ready(0, 0, 0);
	ready(0, 0, 1);
	ready(1, 1, 0);
	tcp_group_remove(&sessions[0][0], &streams[0][0][2]); /* was not ready */
	tcp_group_remove(&sessions[0][0], &streams[0][0][0]);
	expect_turn(0, 0, 1);
	ready(0, 0, 1);
	tcp_group_remove(&sessions[0][0], &streams[0][0][1]);
	tcp_group_remove(&sessions[1][1], &streams[1][1][0]);
	ck_assert_ptr_null(tcp_group_take(&thread));
	ready(0, 0, 0);
	expect_turn(0, 0, 0);
}
END_TEST

/* ---- a server ---- */

#define FLOODS 8u  /* streams of one session */
#define ENDING 20u /* the same, in a session that is closed */
#define QUEUED 20u /* requests in each of them */

static atomic_uint served; /* requests of both sessions */
static atomic_uint served_before_ping;
static atomic_int pinged; /* the thread that served a ping */
static atomic_bool hold_request;
static atomic_bool slow_shutdown;
static atomic_uint shut, shut_before_ping;
static sem_t held, go;

enum fabric_status __real_inband_serve(const struct inband_request *request,
				       const struct inband_memory *memory,
				       uint64_t *ret_result);
enum fabric_status __wrap_inband_serve(const struct inband_request *request,
				       const struct inband_memory *memory,
				       uint64_t *ret_result);

/* The first request waits for the case. */
enum fabric_status __wrap_inband_serve(const struct inband_request *request,
				       const struct inband_memory *memory,
				       uint64_t *ret_result)
{
	unsigned n = atomic_fetch_add(&served, 1);

	if (le16toh(request->op) == FABRIC_PING) {
		atomic_store(&served_before_ping, n);
		atomic_store(&shut_before_ping, atomic_load(&shut));
		atomic_store(&pinged, gettid());
	}
	if (atomic_exchange(&hold_request, false)) {
		ck_assert_int_eq(sem_post(&held), 0);
		ck_assert_int_eq(sem_wait(&go), 0);
	}
	return __real_inband_serve(request, memory, ret_result);
}

int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);

/* The first one waits for the case, and the others take longer than anything else. */
int __wrap_shutdown(int fd, int how)
{
	if (atomic_load(&slow_shutdown) && atomic_fetch_add(&shut, 1) == 0) {
		ck_assert_int_eq(sem_post(&held), 0);
		ck_assert_int_eq(sem_wait(&go), 0);
	}
	if (atomic_load(&slow_shutdown))
		(void)usleep(1000);
	return __real_shutdown(fd, how);
}

static void flood(int fd)
{
	for (unsigned i = 0; i < QUEUED; i++) {
		struct inband_request crc =
			inband_make(FABRIC_CRC, 0, FABRIC_INBAND_BYTES_MAX, i);

		raw_send(fd, &crc, sizeof(crc));
	}
}

/* While the thread has work of one session for many slices, a request of another session waits
 * for a slice of it. */
START_TEST(server__lets_sessions_take_turns)
{
	struct fabric_session *other;
	struct inband_request ping = inband_make(FABRIC_PING, 0, 0, 1);
	int fds[FLOODS], fd;

	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	for (unsigned i = 0; i < FLOODS; i++)
		fds[i] = raw_channel_open();
	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &other), 0);
	host.session = other;
	fd = raw_channel_open();
	atomic_store(&hold_request, true);
	for (unsigned i = 0; i < FLOODS; i++)
		flood(fds[i]);
	ck_assert_int_eq(sem_wait(&held), 0);
	raw_send(fd, &ping, sizeof(ping));
	ck_assert_int_eq(sem_post(&go), 0);
	(void)raw_expect_word(fd, 1);
	ck_assert_uint_le(atomic_load(&served_before_ping), 2);
	for (unsigned i = 0; i < FLOODS; i++)
		for (unsigned n = 0; n < QUEUED; n++)
			(void)raw_expect_word(fds[i], n);
	ck_assert_uint_eq(atomic_load(&served), FLOODS * QUEUED + 1);
	for (unsigned i = 0; i < FLOODS; i++)
		raw_close(fds[i], false);
	raw_close_await(fd, FLOODS + 1);
}
END_TEST

static void session_make(void)
{
	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &host.session), 0);
}

/* So do streams that end. */
START_TEST(server__lets_sessions_end_in_turns)
{
	struct fabric_session *closed = host.session;
	struct inband_request ping = inband_make(FABRIC_PING, 0, 0, 1);
	int fds[ENDING], fd;

	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	for (unsigned i = 0; i < ENDING; i++)
		fds[i] = raw_channel_open();
	session_make();
	fd = raw_channel_open();
	atomic_store(&slow_shutdown, true);
	ops->session_close(closed);
	ck_assert_int_eq(sem_wait(&held), 0);
	raw_send(fd, &ping, sizeof(ping));
	ck_assert_int_eq(sem_post(&go), 0);
	(void)raw_expect_word(fd, 1);
	ck_assert_uint_lt(atomic_load(&shut_before_ping), ENDING / 2);
	host_deregister(host.mr);
	host_await(&seen.closed, 1);
	ck_assert_uint_eq(atomic_load(&shut), ENDING);
	for (unsigned i = 0; i < ENDING; i++)
		raw_close(fds[i], false);
	raw_close_await(fd, 1);
}
END_TEST

/* The thread that serves a stream. */
static int thread_of(int fd)
{
	struct inband_request ping = inband_make(FABRIC_PING, 0, 0, 1);

	raw_send(fd, &ping, sizeof(ping));
	(void)raw_expect_word(fd, 1);
	return atomic_load(&pinged);
}

/* The comments count the streams of both threads. */
START_TEST(server__gives_a_stream_to_the_thread_with_the_fewest)
{
	int a[2], b[2], c[2], d[2], first, second;

	a[0] = raw_channel_open(), a[1] = raw_channel_open();
	first = thread_of(a[0]), second = thread_of(a[1]);
	ck_assert_int_ne(first, second);
	session_make();
	b[0] = raw_channel_open(), b[1] = raw_channel_open();
	ck_assert_int_ne(thread_of(b[0]), thread_of(b[1]));
	raw_close_await(a[1], 1);
	/* 2 and 1 */
	session_make();
	c[0] = raw_channel_open();
	ck_assert_int_eq(thread_of(c[0]), second);
	c[1] = raw_channel_open();
	ck_assert_int_eq(thread_of(c[1]), first);
	raw_close_await(a[0], 2);
	raw_close_await(thread_of(b[0]) == first ? b[0] : b[1], 3);
	/* 1 and 2 */
	session_make();
	d[0] = raw_channel_open();
	ck_assert_int_eq(thread_of(d[0]), first);
	raw_close_await(c[1], 4);
	/* 1 and 2, but the one is of this session */
	d[1] = raw_channel_open();
	ck_assert_int_eq(thread_of(d[1]), second);
	raw_close_await(d[1], 5);
	d[1] = raw_channel_open();
	ck_assert_int_eq(thread_of(d[1]), second);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("turns", NULL, NULL);

	tcase_add_test(tcase, turns__of_nobody_are_none);
	tcase_add_test(tcase, turns__go_round_tenants_sessions_and_streams);
	tcase_add_test(tcase, turns__are_of_those_who_used_least_time);
	tcase_add_test(tcase, turns__save_up_no_time);
	tcase_add_test(tcase, turns__forget_a_stream_that_ends);
	tcase = unit_case("server", host_open_one, host_close);
	tcase_add_test(tcase, server__lets_sessions_take_turns);
	tcase_add_test(tcase, server__lets_sessions_end_in_turns);
	tcase = unit_case("threads", host_open, host_close);
	tcase_add_test(tcase, server__gives_a_stream_to_the_thread_with_the_fewest);
	return unit_main();
}
