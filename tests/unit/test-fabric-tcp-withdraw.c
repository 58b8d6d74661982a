/* SPDX-License-Identifier: BSD-3-Clause */
/* What a withdrawal costs: the streams of its session, and of the others not even a wait.
 * The linker puts the functions here before those of the fabric (-Wl,--wrap). */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fabric-tcp-host.h"
#include "fabric/tcp/conn.h"
#include "unit.h"

#define MANY 5000

/* ---- what the data thread does, counted and held up ---- */

static atomic_uint forgets, leaves, leaves_at_run;
static atomic_bool holding, armed;
static sem_t held, go;

bool __real_tcp_conn_forget(struct tcp_conn *conn,
			    const struct fabric_exposure *exposure);
bool __wrap_tcp_conn_forget(struct tcp_conn *conn,
			    const struct fabric_exposure *exposure);
bool __real_tcp_conn_run(struct tcp_conn *conn, const struct map *table);
bool __wrap_tcp_conn_run(struct tcp_conn *conn, const struct map *table);
void __real_tcp_seat_leave(struct tcp_seat *seat, struct map *table,
			   struct mailbox *news);
void __wrap_tcp_seat_leave(struct tcp_seat *seat, struct map *table,
			   struct mailbox *news);

bool __wrap_tcp_conn_forget(struct tcp_conn *conn,
			    const struct fabric_exposure *exposure)
{
	(void)atomic_fetch_add(&forgets, 1);
	return __real_tcp_conn_forget(conn, exposure);
}

bool __wrap_tcp_conn_run(struct tcp_conn *conn, const struct map *table)
{
	if (atomic_exchange(&armed, false))
		atomic_store(&leaves_at_run, atomic_load(&leaves));
	return __real_tcp_conn_run(conn, table);
}

/* The first two withdrawals wait for the test. */
void __wrap_tcp_seat_leave(struct tcp_seat *seat, struct map *table,
			   struct mailbox *news)
{
	if (atomic_load(&holding) && atomic_load(&leaves) < 2) {
		ck_assert_int_eq(sem_post(&held), 0);
		ck_assert_int_eq(sem_wait(&go), 0);
	}
	__real_tcp_seat_leave(seat, table, news);
	(void)atomic_fetch_add(&leaves, 1);
}

/* ---- a session of its own ---- */

static struct fabric_session *other;
static struct fabric_exposure *exposures[MANY];

static void expose_many(unsigned n)
{
	unsigned exposed = host.exposed;

	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &other), 0);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(ops->expose(other, host.memory, 1, FABRIC_RIGHT_READ,
					     NULL, &exposures[i]),
				 0);
	host_await(&host.exposed, exposed + n);
}

START_TEST(withdraw__looks_at_no_stream_of_other_sessions)
{
	enum { STREAMS = 10, KEYS = 100 };
	int fds[STREAMS];

	for (unsigned i = 0; i < STREAMS; i++)
		fds[i] = raw_join();
	expose_many(KEYS);
	for (unsigned i = 0; i < KEYS; i++)
		ops->withdraw(exposures[i]);
	host_await(&host.withdrawn, KEYS);
	ck_assert_uint_eq(atomic_load(&forgets), 0);
	ops->withdraw(host.exposure);
	host_await(&host.withdrawn, KEYS + 1);
	ck_assert_uint_eq(atomic_load(&forgets), STREAMS);
	for (unsigned i = 0; i < STREAMS; i++)
		raw_close(fds[i], false);
	host_await(&host.downs, STREAMS);
}
END_TEST

START_TEST(withdraw__of_many_keys_leaves_streams_their_turn)
{
	struct fabric_key key = host.key;
	int fd = raw_join();
	char byte;

	expose_many(MANY);
	host.key = key;
	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	atomic_store(&holding, true);
	ops->withdraw(exposures[0]);
	ck_assert_int_eq(sem_wait(&held), 0);
	for (unsigned i = 1; i < MANY; i++)
		ops->withdraw(exposures[i]);
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
	host_await(&host.downs, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric-tcp-withdraw");
	TCase *tcase = tcase_create("withdraw");

	tcase_add_checked_fixture(tcase, host_open_one, host_close);
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, withdraw__looks_at_no_stream_of_other_sessions);
	tcase_add_test(tcase, withdraw__of_many_keys_leaves_streams_their_turn);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
