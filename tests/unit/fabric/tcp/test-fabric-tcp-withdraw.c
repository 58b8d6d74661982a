/* SPDX-License-Identifier: BSD-3-Clause */
/* What a withdrawal costs: the streams of its session, and of the others not even a wait.
 * The linker puts the functions here before those of the fabric (-Wl,--wrap). */
#include <endian.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "fabric/inband.h"
#include "fabric/tcp/conn.h"
#include "unit/unit.h"

#define MANY 5000

/* ---- what the data thread does, counted and held up ---- */

static atomic_uint forgets, tries, leaves, leaves_at_run;
static atomic_bool busy, holding, armed;
static sem_t held, go;

bool __real_tcp_conn_forget(struct tcp_conn *conn, const struct fabric_mr *mr);
bool __wrap_tcp_conn_forget(struct tcp_conn *conn, const struct fabric_mr *mr);
bool __real_tcp_conn_try_forget(struct tcp_conn *conn, const struct fabric_mr *mr);
bool __wrap_tcp_conn_try_forget(struct tcp_conn *conn, const struct fabric_mr *mr);
bool __real_tcp_conn_run(struct tcp_conn *conn, struct tcp_table *table);
bool __wrap_tcp_conn_run(struct tcp_conn *conn, struct tcp_table *table);
void __real_tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop);
void __wrap_tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop);

bool __wrap_tcp_conn_forget(struct tcp_conn *conn, const struct fabric_mr *mr)
{
	(void)atomic_fetch_add(&forgets, 1);
	return __real_tcp_conn_forget(conn, mr);
}

/* As if its thread were at work on it. */
bool __wrap_tcp_conn_try_forget(struct tcp_conn *conn, const struct fabric_mr *mr)
{
	(void)atomic_fetch_add(&tries, 1);
	return !atomic_load(&busy) && __real_tcp_conn_try_forget(conn, mr);
}

bool __wrap_tcp_conn_run(struct tcp_conn *conn, struct tcp_table *table)
{
	if (atomic_exchange(&armed, false))
		atomic_store(&leaves_at_run, atomic_load(&leaves));
	return __real_tcp_conn_run(conn, table);
}

/* The first two withdrawals wait for the test. */
void __wrap_tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop)
{
	if (atomic_load(&holding) && atomic_load(&leaves) < 2) {
		ck_assert_int_eq(sem_post(&held), 0);
		ck_assert_int_eq(sem_wait(&go), 0);
	}
	__real_tcp_key_entry_done(entry, loop);
	(void)atomic_fetch_add(&leaves, 1);
}

/* ---- a session of its own ---- */

static struct fabric_session *other;
static struct fabric_mr *mrs[MANY];

static void reg_many(unsigned n)
{
	unsigned exposed = host.exposed;

	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &other), 0);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(ops->reg_mr(other, host.memory, 1, FABRIC_RIGHT_READ,
					     NULL, &mrs[i]),
				 0);
	host_await(&host.exposed, exposed + n);
}

START_TEST(dereg_mr__looks_at_no_stream_of_other_sessions)
{
	enum { STREAMS = 10, KEYS = 100 };
	int fds[STREAMS];

	for (unsigned i = 0; i < STREAMS; i++)
		fds[i] = raw_join();
	reg_many(KEYS);
	for (unsigned i = 0; i < KEYS; i++)
		ops->dereg_mr(mrs[i]);
	host_await(&host.withdrawn, KEYS);
	ck_assert_uint_eq(atomic_load(&tries), 0);
	atomic_store(&busy, _i == 1);
	ops->dereg_mr(host.mr);
	host_await(&host.withdrawn, KEYS + 1);
	ck_assert_uint_eq(atomic_load(&tries), STREAMS);
	ck_assert_uint_eq(atomic_load(&forgets), _i == 1 ? STREAMS : 0);
	for (unsigned i = 0; i < STREAMS; i++)
		raw_close(fds[i], false);
	host_await(&host.downs, STREAMS);
}
END_TEST

START_TEST(dereg_mr__of_many_keys_leaves_streams_their_turn)
{
	struct fabric_key key = host.key;
	int fd = raw_join(), other_fd;
	struct fabric_session *first = host.session;
	char byte;

	reg_many(MANY);
	host.key = key;
	/* one that its thread is at work on: the loop alone cannot withdraw them */
	host.session = other;
	other_fd = raw_join();
	host.session = first;
	atomic_store(&busy, true);
	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	atomic_store(&holding, true);
	ops->dereg_mr(mrs[0]);
	ck_assert_int_eq(sem_wait(&held), 0);
	for (unsigned i = 1; i < MANY; i++)
		ops->dereg_mr(mrs[i]);
	ck_assert_int_eq(sem_post(&go), 0);
	/* it is at the first of all the others now */
	ck_assert_int_eq(sem_wait(&held), 0);
	atomic_store(&armed, true);
	raw_request(fd, STREAM_READ, 0, 1, 7);
	ck_assert_int_eq(sem_post(&go), 0);
	raw_expect(fd, STREAM_DONE, 1, 7);
	raw_recv(fd, &byte, 1);
	ck_assert_uint_lt(atomic_load(&leaves_at_run), MANY / 2);
	while (atomic_load(&leaves) < MANY)
		(void)sched_yield();
	/* nor is the loop kept from everything else */
	ops->process(host.server);
	ck_assert_uint_gt(host.withdrawn, 0);
	ck_assert_uint_lt(host.withdrawn, MANY / 2);
	host_await(&host.withdrawn, MANY);
	raw_close(fd, false);
	raw_close(other_fd, false);
	host_await(&host.downs, 2);
}
END_TEST

START_TEST(dereg_mr_now__takes_no_time_where_no_stream_is_at_it)
{
	struct fabric_mr *mr;
	struct fabric_key key;
	char byte;
	int fd = raw_join();

	ck_assert_int_eq(
		ops->reg_mr_now(host.session, host.memory, MIDDLE, RW, NULL, &mr, &key),
		0);
	ck_assert_uint_eq(host.exposed, 1);
	host.key = key;
	raw_request(fd, STREAM_READ, 0, 1, 7);
	raw_expect(fd, STREAM_DONE, 1, 7);
	raw_recv(fd, &byte, 1);
	/* the thread may still be on its way back from it */
	while (!ops->dereg_mr_now(mr)) {
		host_await(&host.withdrawn, host.withdrawn + 1);
		ck_assert_int_eq(ops->reg_mr_now(host.session, host.memory, MIDDLE, RW,
						 NULL, &mr, &host.key),
				 0);
	}
	raw_request(fd, STREAM_READ, 0, 1, 8);
	raw_expect(fd, STREAM_REFUSED, 0, 8);
	ck_assert_uint_eq(host_stats().exposures, 1);
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

/* A write has begun, the stream rests. */
START_TEST(dereg_mr_now__cuts_what_is_under_way_off)
{
	char bytes[64] = { 1 };
	int fd = raw_join();

	raw_request(fd, STREAM_READ, 0, 1, 1);
	raw_request(fd, STREAM_WRITE, 0, sizeof(bytes), 2);
	raw_send(fd, bytes, 10);
	raw_expect(fd, STREAM_DONE, 1, 1);
	raw_recv(fd, &(char){ 0 }, 1);
	if (!ops->dereg_mr_now(host.mr))
		host_await(&host.withdrawn, 1);
	/* what had come by then may have been placed */
	memset(host.memory, 0x33, sizeof(bytes));
	raw_send(fd, bytes + 10, sizeof(bytes) - 10);
	raw_expect(fd, STREAM_REFUSED, 0, 2);
	ck_assert(area_is(host.memory, MIDDLE, 0x33));
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

START_TEST(dereg_mr_now__of_a_stream_at_work_has_news)
{
	int fd = raw_join();

	atomic_store(&busy, true);
	ck_assert(!ops->dereg_mr_now(host.mr));
	raw_request(fd, STREAM_READ, 0, 1, 1);
	raw_expect(fd, STREAM_REFUSED, 0, 1);
	host_await(&host.withdrawn, 1);
	ck_assert_uint_eq(host_stats().exposures, 0);
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

/* Its notifications come first: it is not gone before them. */
START_TEST(dereg_mr_now__leaves_notifications_their_turn)
{
	struct inband_operands operands = { .operand = htole64(9) };
	int fd = raw_join();

	raw_request(fd, INBAND_NOTIFY, 0, 0, 1);
	raw_send(fd, &operands, sizeof(operands));
	raw_expect(fd, STREAM_DONE, 8, 1);
	raw_recv(fd, &(uint64_t){ 0 }, 8);
	ck_assert(!ops->dereg_mr_now(host.mr));
	ck_assert_uint_eq(host.notified, 0);
	host_await(&host.withdrawn, 1);
	ck_assert_uint_eq(host.notified, 1);
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

START_TEST(reg_mr_now__that_fails_leaves_nothing)
{
	struct fabric_mr *mr = NULL;
	struct fabric_key key;

	ck_assert_int_eq(
		ops->reg_mr_now(host.session, host.memory, 0, RW, NULL, &mr, &key),
		-EINVAL);
	ops->session_close(host.session);
	ck_assert_int_eq(
		ops->reg_mr_now(host.session, host.memory, 1, RW, NULL, &mr, &key),
		-ESHUTDOWN);
	ck_assert_ptr_null(mr);
	host_await(&host.closed, 1);
	ck_assert_uint_eq(host.withdrawn, 1);
	ck_assert_uint_eq(host_stats().exposures, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric-tcp-withdraw");
	TCase *tcase = tcase_create("withdraw");

	tcase_add_checked_fixture(tcase, host_open_one, host_close);
	tcase_set_timeout(tcase, 120);
	tcase_add_loop_test(tcase, dereg_mr__looks_at_no_stream_of_other_sessions, 0,
			    2);
	tcase_add_test(tcase, dereg_mr__of_many_keys_leaves_streams_their_turn);
	tcase_add_test(tcase, dereg_mr_now__takes_no_time_where_no_stream_is_at_it);
	tcase_add_test(tcase, dereg_mr_now__cuts_what_is_under_way_off);
	tcase_add_test(tcase, dereg_mr_now__of_a_stream_at_work_has_news);
	tcase_add_test(tcase, dereg_mr_now__leaves_notifications_their_turn);
	tcase_add_test(tcase, reg_mr_now__that_fails_leaves_nothing);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
