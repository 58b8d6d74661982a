/* SPDX-License-Identifier: BSD-3-Clause */
/* Deregistration in the tcp fabric: it visits only streams of its own session and delays no other
 * stream; and the end of streams that are served.  The linker calls the functions here instead of
 * the fabric's (-Wl,--wrap). */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "fabric/inband.h"
#include "fabric/tcp/conn.h"
#include "unit/unit.h"

#define MANY 5000

/* ---- calls of the data threads, counted and delayed ---- */

static atomic_uint releases, try_releases, completed, completed_at_run;
static atomic_bool stream_busy, hold_enabled, run_armed;
static sem_t held, go;
static atomic_uint served;
static atomic_bool hold_request;

bool __real_tcp_conn_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr);
bool __wrap_tcp_conn_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr);
bool __real_tcp_conn_try_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr);
bool __wrap_tcp_conn_try_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr);
enum tcp_run __real_tcp_conn_run(struct tcp_conn *conn, struct tcp_buffers **spare);
enum tcp_run __wrap_tcp_conn_run(struct tcp_conn *conn, struct tcp_buffers **spare);
void __real_tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop);
void __wrap_tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop);

bool __wrap_tcp_conn_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr)
{
	(void)atomic_fetch_add(&releases, 1);
	return __real_tcp_conn_release_mr(conn, mr);
}

/* While stream_busy, as if a thread were serving the stream. */
bool __wrap_tcp_conn_try_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr)
{
	(void)atomic_fetch_add(&try_releases, 1);
	return !atomic_load(&stream_busy) && __real_tcp_conn_try_release_mr(conn, mr);
}

enum tcp_run __wrap_tcp_conn_run(struct tcp_conn *conn, struct tcp_buffers **spare)
{
	if (atomic_exchange(&run_armed, false))
		atomic_store(&completed_at_run, atomic_load(&completed));
	return __real_tcp_conn_run(conn, spare);
}

/* The first two deregistrations wait for the case. */
void __wrap_tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop)
{
	if (atomic_load(&hold_enabled) && atomic_load(&completed) < 2) {
		ck_assert_int_eq(sem_post(&held), 0);
		ck_assert_int_eq(sem_wait(&go), 0);
	}
	__real_tcp_key_entry_done(entry, loop);
	(void)atomic_fetch_add(&completed, 1);
}

enum fabric_status __real_inband_serve(const struct inband_request *request,
				       const struct inband_memory *memory,
				       uint64_t *ret_result);
enum fabric_status __wrap_inband_serve(const struct inband_request *request,
				       const struct inband_memory *memory,
				       uint64_t *ret_result);

/* One request waits for the case. */
enum fabric_status __wrap_inband_serve(const struct inband_request *request,
				       const struct inband_memory *memory,
				       uint64_t *ret_result)
{
	(void)atomic_fetch_add(&served, 1);
	if (atomic_exchange(&hold_request, false)) {
		ck_assert_int_eq(sem_post(&held), 0);
		ck_assert_int_eq(sem_wait(&go), 0);
	}
	return __real_inband_serve(request, memory, ret_result);
}

static unsigned loop_shutdowns;
static atomic_uint thread_shutdowns;

int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);

int __wrap_shutdown(int fd, int how)
{
	if (gettid() == getpid())
		loop_shutdowns++;
	else
		(void)atomic_fetch_add(&thread_shutdowns, 1);
	return __real_shutdown(fd, how);
}

/* ---- another session ---- */

static struct fabric_session *other;
static struct fabric_mr *mrs[MANY];

static void other_register(unsigned n)
{
	struct fabric_key key;

	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &other), 0);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(ops->reg_mr(other, host.memory, 1, FABRIC_RIGHT_READ,
					     NULL, &mrs[i], &key),
				 1);
}

START_TEST(dereg_mr__visits_no_stream_of_other_sessions)
{
	enum { STREAMS = 10, KEYS = 100 };
	int fds[STREAMS];

	for (unsigned i = 0; i < STREAMS; i++)
		fds[i] = raw_channel_open();
	other_register(KEYS);
	for (unsigned i = 0; i < KEYS; i++)
		host_deregister(mrs[i]);
	host_await(&seen.deregistered, KEYS);
	ck_assert_uint_eq(atomic_load(&try_releases), 0);
	atomic_store(&stream_busy, _i == 1);
	host_deregister(host.mr);
	host_await(&seen.deregistered, KEYS + 1);
	ck_assert_uint_eq(atomic_load(&try_releases), STREAMS);
	ck_assert_uint_eq(atomic_load(&releases), _i == 1 ? STREAMS : 0);
	for (unsigned i = 0; i < STREAMS; i++)
		raw_close(fds[i], false);
	host_await(&seen.downs, STREAMS);
}
END_TEST

START_TEST(dereg_mr__of_many_keys_does_not_starve_streams)
{
	int fd = raw_channel_open(), other_fd;
	struct fabric_session *first = host.session;
	char byte;

	other_register(MANY);
	/* its stream is busy, so the loop alone cannot deregister them */
	host.session = other;
	other_fd = raw_channel_open();
	host.session = first;
	atomic_store(&stream_busy, true);
	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	atomic_store(&hold_enabled, true);
	host_deregister(mrs[0]);
	ck_assert_int_eq(sem_wait(&held), 0);
	for (unsigned i = 1; i < MANY; i++)
		host_deregister(mrs[i]);
	ck_assert_int_eq(sem_post(&go), 0);
	/* now the thread deregisters the first of the others */
	ck_assert_int_eq(sem_wait(&held), 0);
	atomic_store(&run_armed, true);
	raw_request(fd, STREAM_READ, 0, 1, 7);
	ck_assert_int_eq(sem_post(&go), 0);
	raw_expect(fd, FABRIC_DONE, 1, 7);
	raw_recv(fd, &byte, 1);
	ck_assert_uint_lt(atomic_load(&completed_at_run), MANY / 2);
	while (atomic_load(&completed) < MANY)
		(void)sched_yield();
	/* one process() does not deliver all events */
	ops->process(host.server);
	ck_assert_uint_gt(seen.deregistered, 0);
	ck_assert_uint_lt(seen.deregistered, MANY / 2);
	host_await(&seen.deregistered, MANY);
	raw_close(fd, false);
	raw_close_await(other_fd, 2);
}
END_TEST

START_TEST(dereg_mr__of_idle_streams_needs_no_event)
{
	struct fabric_mr *mr;
	struct fabric_key key;
	int fd = raw_channel_open();

	ck_assert_int_eq(
		ops->reg_mr(host.session, host.memory, MIDDLE, RW, NULL, &mr, &key), 1);
	ck_assert_uint_eq(seen.registered, 0);
	seen.key = key;
	(void)raw_read_byte(fd, 0);
	/* the thread may still be serving the stream */
	while (!ops->dereg_mr(mr)) {
		host_await(&seen.deregistered, seen.deregistered + 1);
		ck_assert_int_eq(ops->reg_mr(host.session, host.memory, MIDDLE, RW,
					     NULL, &mr, &seen.key),
				 1);
	}
	raw_request(fd, STREAM_READ, 0, 1, 8);
	raw_expect(fd, FABRIC_STALE, 0, 8);
	ck_assert_uint_eq(host_stats().exposures, 1);
	raw_close_await(fd, 1);
}
END_TEST

/* A write has begun, and the stream is idle. */
START_TEST(dereg_mr__refuses_a_write_in_progress)
{
	char bytes[64] = { 1 };
	int fd = raw_channel_open();

	raw_request(fd, STREAM_READ, 0, 1, 1);
	raw_request(fd, STREAM_WRITE, 0, sizeof(bytes), 2);
	raw_send(fd, bytes, 10);
	raw_expect(fd, FABRIC_DONE, 1, 1);
	raw_recv(fd, &(char){ 0 }, 1);
	if (!ops->dereg_mr(host.mr))
		host_await(&seen.deregistered, 1);
	/* the bytes sent so far may have been written */
	memset(host.memory, 0x33, sizeof(bytes));
	raw_send(fd, bytes + 10, sizeof(bytes) - 10);
	raw_expect(fd, FABRIC_STALE, 0, 2);
	ck_assert(bytes_equal(host.memory, MIDDLE, 0x33));
	raw_close_await(fd, 1);
}
END_TEST

START_TEST(dereg_mr__of_a_busy_stream_reports_an_event)
{
	int fd = raw_channel_open();

	atomic_store(&stream_busy, true);
	ck_assert(!ops->dereg_mr(host.mr));
	raw_request(fd, STREAM_READ, 0, 1, 1);
	raw_expect(fd, FABRIC_STALE, 0, 1);
	host_await(&seen.deregistered, 1);
	ck_assert_uint_eq(host_stats().exposures, 0);
	raw_close_await(fd, 1);
}
END_TEST

/* The mr exists until its notifications are delivered. */
START_TEST(dereg_mr__delivers_notifications_first)
{
	struct inband_operands operands = { .operand = htole64(9) };
	int fd = raw_channel_open();

	raw_request(fd, FABRIC_NOTIFY, 0, 0, 1);
	raw_send(fd, &operands, sizeof(operands));
	(void)raw_expect_word(fd, 1);
	ck_assert(!ops->dereg_mr(host.mr));
	ck_assert_uint_eq(seen.notified, 0);
	host_await(&seen.deregistered, 1);
	ck_assert_uint_eq(seen.notified, 1);
	raw_close_await(fd, 1);
}
END_TEST

START_TEST(reg_mr__that_fails_leaves_nothing)
{
	struct fabric_mr *mr = NULL;
	struct fabric_key key;

	ck_assert_int_eq(ops->reg_mr(host.session, host.memory, 0, RW, NULL, &mr, &key),
			 -EINVAL);
	ops->session_close(host.session);
	ck_assert_int_eq(ops->reg_mr(host.session, host.memory, 1, RW, NULL, &mr, &key),
			 -ESHUTDOWN);
	ck_assert_ptr_null(mr);
	host_deregister(host.mr);
	host_await(&seen.closed, 1);
	ck_assert_uint_eq(seen.deregistered, 1);
	ck_assert_uint_eq(host_stats().exposures, 0);
}
END_TEST

/* ---- the end of a stream full of requests ---- */

#define QUEUED 100u

/* A stream with many requests; its thread is in the first one. */
static int busy_channel_open(void)
{
	struct inband_request crc;
	int fd = raw_channel_open();

	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	atomic_store(&hold_request, true);
	for (unsigned i = 0; i < QUEUED; i++) {
		crc = inband_make(FABRIC_CRC, 0, 4096, i);
		raw_send(fd, &crc, sizeof(crc));
	}
	ck_assert_int_eq(sem_wait(&held), 0);
	return fd;
}

static void *close_channel(void *arg)
{
	ck_assert_int_eq(ops->channel_close(host.session, *(const uint32_t *)arg), 0);
	return NULL;
}

START_TEST(channel_close__waits_for_one_request)
{
	pthread_t closer;
	int fd = busy_channel_open();

	ck_assert_int_eq(pthread_create(&closer, NULL, close_channel, &seen.channel),
			 0);
	/* the stream is shut down before channel_close() waits */
	raw_expect_end(fd);
	ck_assert_int_eq(sem_post(&go), 0);
	ck_assert_int_eq(pthread_join(closer, NULL), 0);
	while (host_stats().channels)
		host_process_next();
	ck_assert_uint_eq(atomic_load(&served), 1);
	raw_close(fd, false);
}
END_TEST

START_TEST(session_close__waits_for_no_request)
{
	int fd = busy_channel_open();

	ops->session_close(host.session);
	host_deregister(host.mr);
	/* the thread is still in the first request, which uses the memory */
	for (unsigned i = 0; i < 10; i++)
		ops->process(host.server);
	ck_assert_uint_eq(seen.deregistered, 0);
	ck_assert_int_eq(sem_post(&go), 0);
	host_await(&seen.closed, 1);
	ck_assert_uint_eq(seen.deregistered, 1);
	ck_assert_uint_eq(atomic_load(&served), 1);
	raw_close(fd, false);
}
END_TEST

/* It takes the loop no more for many streams than for one. */
START_TEST(session_close__leaves_streams_to_their_threads)
{
	enum { STREAMS = 100 };
	int fds[STREAMS];

	for (unsigned i = 0; i < STREAMS; i++)
		fds[i] = raw_channel_open();
	ops->session_close(host.session);
	ck_assert_uint_eq(loop_shutdowns, 0);
	for (unsigned i = 0; i < STREAMS; i++)
		raw_expect_end(fds[i]);
	ck_assert_uint_eq(atomic_load(&thread_shutdowns), STREAMS);
	host_deregister(host.mr);
	host_await(&seen.closed, 1);
	ck_assert_uint_eq(seen.downs, 0);
	ck_assert_uint_eq(host_stats().channels, 0);
	for (unsigned i = 0; i < STREAMS; i++)
		raw_close(fds[i], false);
}
END_TEST

/* A thread that is busy with another session keeps the closed one, as it has not heard of that. */
START_TEST(session_close__waits_until_each_thread_knows)
{
	struct fabric_session *closed = host.session;
	int fd = raw_channel_open(), busy;

	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &host.session), 0);
	busy = busy_channel_open();
	ops->session_close(closed);
	raw_expect_end(fd);
	host_deregister(host.mr);
	while (host_stats().channels > 1)
		host_process_next();
	for (unsigned i = 0; i < 10; i++)
		ops->process(host.server);
	ck_assert_uint_eq(seen.closed, 0);
	ck_assert_int_eq(sem_post(&go), 0);
	host_await(&seen.closed, 1);
	raw_close(fd, false);
	raw_close_await(busy, 1);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("dereg", host_open_one, host_close);

	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, dereg_mr__visits_no_stream_of_other_sessions, 0, 2);
	tcase_add_test(tcase, dereg_mr__of_many_keys_does_not_starve_streams);
	tcase_add_test(tcase, dereg_mr__of_idle_streams_needs_no_event);
	tcase_add_test(tcase, dereg_mr__refuses_a_write_in_progress);
	tcase_add_test(tcase, dereg_mr__of_a_busy_stream_reports_an_event);
	tcase_add_test(tcase, dereg_mr__delivers_notifications_first);
	tcase_add_test(tcase, reg_mr__that_fails_leaves_nothing);
	tcase_add_test(tcase, channel_close__waits_for_one_request);
	tcase_add_test(tcase, session_close__waits_for_no_request);
	tcase_add_test(tcase, session_close__leaves_streams_to_their_threads);
	tcase = unit_case("threads", host_open, host_close);
	tcase_add_test(tcase, session_close__waits_until_each_thread_knows);
	return unit_main();
}
