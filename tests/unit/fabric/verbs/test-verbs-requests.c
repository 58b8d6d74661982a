/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of hostile clients over rdma_cm, and channels that end all at once: what waits for the
 * kernel does so in a worker, and the loop serves others meanwhile. */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "fabric/verbs/server/server.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

/* as in fabric/verbs/server/ending.h */
#define REFUSED_MAX 64u

/* ---- a call that waits ---- */

static sem_t held, go;
static atomic_bool hold;
static atomic_uint calls;

static void held_once(void)
{
	atomic_fetch_add(&calls, 1);
	if (!atomic_exchange(&hold, false))
		return;
	ck_assert_int_eq(sem_post(&held), 0);
	ck_assert_int_eq(sem_wait(&go), 0);
}

static void hold_next(void)
{
	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	atomic_store(&hold, true);
}

/* The loop is not held: it registers memory of this session. */
static void expect_served(struct fabric_session *session)
{
	unsigned deregistered = seen.deregistered;

	(void)mr_new(session);
	session_deregister(session);
	await(&seen.deregistered, deregistered + 1);
}

/* Send a request without waiting for its end. */
static struct rdma_cm_id *ask(struct fabric_session *session, uint32_t channel)
{
	struct fabric_hello hello = { .session = 1, .channel = channel };
	uint8_t buf[FABRIC_HELLO_BYTES];
	struct rdma_cm_id *id;

	seen.admitted = session;
	fabric_hello_encode(&hello, buf);
	id = fake_request(0, buf, sizeof(buf));
	SERVER->process(server);
	return id;
}

/* ---- the client's end ---- */

static void expect_refused(struct fabric_session *session, uint32_t channel,
			   const char *why)
{
	unsigned downs = seen.downs;

	seen.admitted = session;
	ck_assert_int_eq(fake_request_state(request(1, channel)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, downs + 1);
	ck_assert_msg(strstr(seen.why, why) != NULL, "%s", seen.why);
}

START_TEST(gid__that_is_not_the_clients_address_is_refused)
{
	struct fabric_session *session = server_open_session();

	verbs_fake.before_rtr = held_once;
	verbs_fake.peer_gid = "::ffff:10.1.0.99";
	expect_refused(session, 1, "GID ::ffff:10.1.0.99, which is not the address");
	/* the kernel was not asked for it, and no queue pair was made */
	ck_assert_uint_eq(atomic_load(&calls), 0);
	verbs_fake.peer_gid = NULL;
	(void)channel_new(session, 1);
}
END_TEST

/* In the step to RTR the kernel waits for a host that does not answer. */
START_TEST(gid__that_does_not_answer_delays_nobody)
{
	struct fabric_session *session = server_open_session(), *other = session_new(0);
	struct rdma_cm_id *ids[3];

	verbs_fake.before_rtr = held_once;
	hold_next();
	ids[0] = ask(session, 1);
	ck_assert_int_eq(sem_wait(&held), 0);
	ids[1] = ask(session, 2);
	ids[2] = ask(other, 1);
	expect_served(other);
	for (int i = 0; i < COUNT(ids); i++)
		ck_assert_int_eq(fake_request_state(ids[i]), FAKE_REQUESTED);
	ck_assert_int_eq(sem_post(&go), 0);
	settle();
	for (int i = 0; i < COUNT(ids); i++)
		ck_assert_int_eq(fake_request_state(ids[i]), FAKE_ACCEPTED);
	ck_assert_uint_eq(seen.downs, 0);
}
END_TEST

/* The kernel lets the device go once the last request has ended. */
START_TEST(device__removed_meanwhile_is_served_again)
{
	verbs_fake.before_rtr = held_once;
	hold_next();
	(void)ask(server_open_session(), 1);
	ck_assert_int_eq(sem_wait(&held), 0);
	verbs_fake.absent[0] = true;
	fake_event(NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	await(&seen.removed, 1);
	ck_assert(SERVER->endpoint(server, 0)->awaited);
	list_remove(&server->rescan.link);
	server->rescan.due(&server->rescan);
	ck_assert_int_eq(sem_post(&go), 0);
	settle();
	fake_device_return(0);
	while (SERVER->endpoint(server, 0)->awaited)
		process_next();
}
END_TEST

enum end { BY_SESSION, BY_CHANNEL, BY_CLOSE };

START_TEST(request__can_be_ended_while_it_waits)
{
	struct fabric_session *session = server_open_session(), *other = session_new(0);
	struct rdma_cm_id *id;

	verbs_fake.before_rtr = held_once;
	hold_next();
	id = ask(session, 1);
	ck_assert_int_eq(sem_wait(&held), 0);
	if (_i == BY_SESSION)
		SERVER->session_close(session);
	else if (_i == BY_CHANNEL)
		ck_assert_int_eq(SERVER->channel_close(session, 1), 0);
	expect_served(other);
	ck_assert_int_eq(sem_post(&go), 0);
	if (_i == BY_CLOSE)
		server_close();
	else
		ck_assert_uint_eq(live_qps(), 0);
	/* it has never served its client */
	ck_assert(_i == BY_CLOSE || fake_request_state(id) == FAKE_REJECTED);
	ck_assert_uint_eq(seen.ups + seen.downs, 0);
}
END_TEST

/* The client is faster than the loop, which has not heard yet that the channel is open. */
START_TEST(refused_access__at_once_is_counted)
{
	struct fabric_session *session = server_open_session();
	struct rdma_cm_id *id;
	struct ibv_qp *qp;

	verbs_fake.before_rtr = held_once;
	hold_next();
	id = ask(session, 1);
	ck_assert_int_eq(sem_wait(&held), 0);
	qp = id->qp;
	fake_event(id, RDMA_CM_EVENT_ESTABLISHED);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	SERVER->process(server);
	ck_assert_uint_eq(seen.ups + seen.downs, 0);
	ck_assert_int_eq(sem_post(&go), 0);
	await_readable();
	ck_assert_int_eq(fake_request_state(id), FAKE_ACCEPTED);
	qp->state = IBV_QPS_ERR;
	settle();
	ck_assert_uint_eq(seen.ups, 1);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "access was refused"));
	await(&seen.refused, 1);
}
END_TEST

static _Atomic uint64_t passed_ns, step_ns; /* in addition to the real time */

static uint64_t now(void)
{
	struct timespec time;

	ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &time), 0);
	passed_ns += step_ns;
	return (uint64_t)time.tv_sec * 1000 * NS_PER_MS + (uint64_t)time.tv_nsec +
	       passed_ns;
}

static void rtr_takes_1s(void)
{
	passed_ns += 1000 * NS_PER_MS;
}

START_TEST(gid__that_did_not_answer_is_remembered)
{
	struct fabric_session *session;

	clock_set_source(now);
	session = server_open_session();
	verbs_fake.before_rtr = rtr_takes_1s;
	verbs_fake.rtr_error = ETIMEDOUT;
	expect_refused(session, 1, "RTR");
	verbs_fake.rtr_error = 0;
	verbs_fake.before_rtr = held_once;
	expect_refused(session, 2, "nobody answered for GID ::ffff:10.1.0.9");
	ck_assert_uint_eq(atomic_load(&calls), 0);
	passed_ns += 30000 * NS_PER_MS;
	(void)channel_new(session, 3);
	ck_assert_uint_eq(atomic_load(&calls), 1);
}
END_TEST

/* The host, or the server, was busy. */
START_TEST(gid__that_answered_late_is_not_refused)
{
	struct fabric_session *session;

	clock_set_source(now);
	session = server_open_session();
	verbs_fake.before_rtr = rtr_takes_1s;
	(void)channel_new(session, 1);
	(void)channel_new(session, 2);
}
END_TEST

START_TEST(queue_pair__of_another_channel_is_refused)
{
	struct fabric_session *session = server_open_session(), *other = session_new(0);

	verbs_fake.peer_qpn = 0x77;
	(void)channel_new(session, 1);
	expect_refused(other, 1, "queue pair 0x77 there is the end of another channel");
	/* it is free again */
	ck_assert_int_eq(SERVER->channel_close(session, 1), 0);
	(void)channel_new(other, 2);
	/* the device's own, which serve the fabric's management */
	verbs_fake.peer_qpn = 1;
	expect_refused(session, 2, "queue pair number 0x1");
}
END_TEST

/* A guess does not keep out the owner. */
START_TEST(queue_pair__goes_to_the_owner_of_the_address)
{
	struct fabric_session *session = server_open_session(), *owner = session_new(0);

	verbs_fake.peer_qpn = 0x77;
	(void)channel_new(session, 1);
	peer_verified = true;
	(void)channel_new(owner, 2);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "another client's"));
	expect_refused(session, 3, "end of another channel");
	ck_assert_uint_eq(stats().channels, 1);
}
END_TEST

/* ---- requests without a token ---- */

/* They are refused in a worker.  Once too many of them wait, no events are taken, and the loop does
 * not spin. */
START_TEST(refusals__are_limited_and_delay_nobody)
{
	struct fabric_session *session = server_open_session();
	struct pollfd fd = { .fd = SERVER->fd(server), .events = POLLIN };
	const uint8_t junk[FABRIC_HELLO_BYTES] = { 1, 2, 3 };
	unsigned live = fake_live();

	verbs_fake.before_reject = held_once;
	hold_next();
	for (unsigned i = 0; i < 3 * REFUSED_MAX; i++)
		(void)fake_request(0, junk, sizeof(junk));
	while (poll(&fd, 1, 0) == 1)
		SERVER->process(server);
	ck_assert_uint_eq(stats().refused, REFUSED_MAX);
	expect_served(session);
	await(&seen.deregistered, 1);
	ck_assert_uint_eq(stats().refused, REFUSED_MAX);
	ck_assert_int_eq(sem_post(&go), 0);
	while (fake_live() > live)
		process_next();
	ck_assert_uint_eq(stats().refused, 3 * REFUSED_MAX);
	ck_assert_uint_eq(atomic_load(&calls), 3 * REFUSED_MAX);
}
END_TEST

/* Each look at the clock takes 2 ms, as if events did. */
START_TEST(events__of_a_turn_are_limited_by_time)
{
	struct fabric_hello hello = { .session = 2 };
	uint8_t buf[FABRIC_HELLO_BYTES];

	clock_set_source(now);
	server_open();
	fabric_hello_encode(&hello, buf);
	for (unsigned i = 0; i < 3; i++)
		(void)fake_request(0, buf, sizeof(buf));
	step_ns = 2 * NS_PER_MS;
	for (unsigned i = 1; i <= 3; i++) {
		SERVER->process(server);
		ck_assert_uint_eq(seen.admits, i);
	}
	step_ns = 0;
}
END_TEST

/* ---- channels that end at once ---- */

START_TEST(channels__that_end_are_stopped_at_once_and_destroyed_by_a_worker)
{
	struct fabric_session *session = server_open_session(), *other = session_new(0);

	for (uint32_t i = 1; i <= 20; i++)
		(void)channel_new(session, i);
	verbs_fake.before_destroy_qp = held_once;
	hold_next();
	SERVER->session_close(session);
	ck_assert_uint_eq(fake_serving_qps(), 0);
	ck_assert_int_eq(sem_wait(&held), 0);
	expect_served(other);
	ck_assert_uint_eq(fake_live_qps(), 20);
	ck_assert_uint_eq(atomic_load(&calls), 1);
	ck_assert_uint_eq(seen.closed, 0);
	ck_assert_int_eq(sem_post(&go), 0);
	await(&seen.closed, 1);
	ck_assert_uint_eq(fake_live_qps(), 0);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("requests", NULL, server_close);

	tcase_add_test(tcase, gid__that_is_not_the_clients_address_is_refused);
	tcase_add_test(tcase, gid__that_does_not_answer_delays_nobody);
	tcase_add_test(tcase, device__removed_meanwhile_is_served_again);
	tcase_add_loop_test(tcase, request__can_be_ended_while_it_waits, 0,
			    BY_CLOSE + 1);
	tcase_add_test(tcase, refused_access__at_once_is_counted);
	tcase_add_test(tcase, gid__that_did_not_answer_is_remembered);
	tcase_add_test(tcase, gid__that_answered_late_is_not_refused);
	tcase_add_test(tcase, queue_pair__of_another_channel_is_refused);
	tcase_add_test(tcase, queue_pair__goes_to_the_owner_of_the_address);
	tcase_add_test(tcase, refusals__are_limited_and_delay_nobody);
	tcase_add_test(tcase, events__of_a_turn_are_limited_by_time);
	tcase_add_test(
		tcase,
		channels__that_end_are_stopped_at_once_and_destroyed_by_a_worker);
	return unit_main();
}
