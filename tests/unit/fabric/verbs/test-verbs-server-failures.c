/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs server when calls to the device or the kernel fail: each session still
 * ends, one event reports the failure, and no client keeps access to memory of
 * others. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

static void process_all(void)
{
	struct pollfd fd = { .fd = SERVER->fd(server), .events = POLLIN };

	while (poll(&fd, 1, 0) == 1)
		SERVER->process(server);
}

/* ---- queue pairs ---- */

START_TEST(session_close__ends_though_modify_qp_fails)
{
	struct fabric_session *session = server_open_session();
	struct fabric_mr *mr = mr_new(session);

	(void)channel_new(session, 1);
	(void)channel_new(session, 2);
	verbs_fake.modify_error = EIO;
	SERVER->session_close(session);
	SERVER->dereg_mr(mr);
	ck_assert_uint_eq(live_qps(), 0);
	await(&seen.closed, 1);
	ck_assert_uint_eq(seen.deregistered, 1);
	ck_assert_uint_eq(seen.events, 0);
}
END_TEST

enum ending { BY_CHANNEL_CLOSE, BY_SESSION_CLOSE, BY_PEER, BY_ERROR_ON_IWARP, ENDINGS };

START_TEST(queue_pair__not_destroyed_is_reported_once)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;

	verbs_fake.iwarp = _i == BY_ERROR_ON_IWARP;
	session = server_open_session();
	id = channel_new(session, 1);
	verbs_fake.destroy_qp_error = EBUSY;
	switch (_i) {
	case BY_CHANNEL_CLOSE:
		SERVER->channel_close(session, 1);
		break;
	case BY_SESSION_CLOSE:
		session_end(session);
		break;
	case BY_PEER:
		fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
		await(&seen.downs, 1);
		break;
	default:
		fake_break(id);
		await(&seen.downs, 1);
	}
	settle();
	ck_assert_uint_eq(seen.events, 1);
	ck_assert_ptr_nonnull(strstr(seen.event_text, "fake0"));
	ck_assert_ptr_nonnull(strstr(seen.event_text, "ibv_destroy_qp gives 16"));
	/* later events of that queue pair are ignored */
	fake_async_event_lost(0, IBV_EVENT_QP_ACCESS_ERR);
	process_all();
	ck_assert_uint_eq(seen.events, 1);
}
END_TEST

START_TEST(queue_pair__not_created_refuses_the_channel)
{
	struct fabric_session *session = server_open_session();

	seen.admitted = session;
	verbs_fake.qp_error = ENOMEM;
	ck_assert_int_eq(fake_request_state(request(1, 1)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "rdma_create_qp"));
	ck_assert_uint_eq(stats().errors, 1);
	verbs_fake.qp_error = 0;
	(void)channel_new(session, 1);
}
END_TEST

START_TEST(cm_id__not_destroyed_is_reported_once)
{
	struct fabric_session *session = server_open_session();
	struct rdma_cm_id *id = channel_new(session, 1);

	verbs_fake.destroy_id_error = EINVAL;
	SERVER->channel_close(session, 1);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.events, 1);
	verbs_fake.destroy_id_error = 0;
	ck_assert_ptr_nonnull(strstr(seen.event_text, "rdma_destroy_id gives 22"));
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	process_all();
	ck_assert_uint_eq(seen.downs, 0);
}
END_TEST

/* ---- memory regions and protection domains ---- */

START_TEST(dereg_mr__failed_is_reported_once)
{
	struct fabric_mr *first, *second;
	struct fabric_session *session = server_open_session();

	(void)channel_new(session, 1);
	first = mr_new(session);
	second = mr_new(session);
	verbs_fake.dereg_error = EBUSY;
	SERVER->dereg_mr(first);
	SERVER->dereg_mr(second);
	await(&seen.deregistered, 2);
	ck_assert_uint_eq(seen.events, 1);
	ck_assert_ptr_nonnull(strstr(seen.event_text, "ibv_dereg_mr gives 16"));
	ck_assert_uint_eq(seen.downs, 1);
	/* no channel could reach memory registered now */
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &first, NULL),
			 -EIO);
	ck_assert_ptr_nonnull(strstr(err_text(), "cut off"));
	session_end(session);
}
END_TEST

/* Three segments, large enough for the devices' threads, each registered on two
 * devices. */
#define N_DEVICES 2
#define N_SEGMENTS 3
#define N_MRS (N_DEVICES * N_SEGMENTS)
static char segments[N_SEGMENTS][(size_t)256 << 10];

static int segment_register(struct fabric_session *const sessions[N_DEVICES],
			    unsigned i, struct fabric_mr **ret_mr)
{
	return SERVER->reg_mr(
		sessions[i % N_DEVICES], segments[i / N_DEVICES], sizeof(segments[0]),
		FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE, NULL, ret_mr, NULL);
}

/* One registration fails, each in turn: its event names device and size, and the others
 * can be deregistered. */
START_TEST(reg_mr__refused_leaves_nothing)
{
	struct fabric_mr *mrs[N_MRS] = { NULL };
	struct fabric_session *sessions[N_DEVICES];
	char expected[64];

	(void)snprintf(expected, sizeof(expected),
		       "RDMA device fake%d: ibv_reg_mr of 256 KiB", _i % N_DEVICES);
	server_open();
	for (unsigned i = 0; i < N_DEVICES; i++)
		sessions[i] = session_new(i);
	for (unsigned i = 0; i < N_MRS; i++) {
		verbs_fake.reg_error = i == (unsigned)_i ? ENOMEM : 0;
		ck_assert_int_eq(segment_register(sessions, i, &mrs[i]), 0);
		await(&seen.registered, i + 1);
		ck_assert_int_eq(seen.err, -verbs_fake.reg_error);
		if (seen.err)
			ck_assert_ptr_nonnull(strstr(seen.text, expected));
	}
	ck_assert_uint_eq(fake_live_mrs(), N_MRS - 1);
	for (unsigned i = 0; i < N_MRS; i++)
		if (i != (unsigned)_i)
			SERVER->dereg_mr(mrs[i]);
	await(&seen.deregistered, N_MRS - 1);
	ck_assert_uint_eq(fake_live_mrs(), 0);
	ck_assert_uint_eq(stats().exposed_bytes, 0);
	verbs_fake.reg_error = 0;
	/* the session can still register memory */
	ck_assert_int_eq(segment_register(sessions, (unsigned)_i, &mrs[0]), 0);
	await(&seen.registered, N_MRS + 1);
	ck_assert_int_eq(seen.err, 0);
}
END_TEST

static pthread_barrier_t barrier;

static void barrier_wait(void)
{
	(void)pthread_barrier_wait(&barrier);
}

/* Each device waits for the other one before it registers. */
START_TEST(reg_mr__runs_in_parallel_on_two_devices)
{
	struct fabric_mr *mrs[N_DEVICES];
	struct fabric_session *sessions[N_DEVICES];

	ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, N_DEVICES), 0);
	server_open();
	for (unsigned i = 0; i < N_DEVICES; i++)
		sessions[i] = session_new(i);
	verbs_fake.before_reg_mr = barrier_wait;
	for (unsigned i = 0; i < N_DEVICES; i++)
		ck_assert_int_eq(segment_register(sessions, i, &mrs[i]), 0);
	await(&seen.registered, N_DEVICES);
	ck_assert_int_eq(seen.err, 0);
	verbs_fake.before_reg_mr = NULL;
	server_close();
	(void)pthread_barrier_destroy(&barrier);
}
END_TEST

/* A session with an mr, and with a queue pair that could not be stopped. */
static struct fabric_session *session_with_live_qp(struct fabric_mr **ret_mr)
{
	struct fabric_session *session = session_new(0);

	(void)channel_new(session, 1);
	*ret_mr = mr_new(session);
	verbs_fake.modify_error = EIO;
	verbs_fake.destroy_qp_error = EIO;
	SERVER->channel_close(session, 1);
	verbs_fake.modify_error = 0;
	verbs_fake.destroy_qp_error = 0;
	settle();
	ck_assert_uint_eq(seen.events, 1);
	ck_assert_ptr_nonnull(strstr(seen.event_text, "still serves"));
	return session;
}

START_TEST(dereg_mr__revokes_access_of_a_live_queue_pair)
{
	struct fabric_session *session;
	struct fabric_mr *mr;

	server_open();
	session = session_with_live_qp(&mr);
	SERVER->dereg_mr(mr);
	await(&seen.deregistered, 1);
	session_end(session);
	ck_assert_uint_eq(seen.events, 1);
}
END_TEST

START_TEST(dereg_mr__waits_while_the_device_may_have_access)
{
	struct fabric_session *other = server_open_session(), *session;
	struct fabric_mr *mr;

	session = session_with_live_qp(&mr);
	verbs_fake.dereg_error = EIO;
	if (_i)
		SERVER->session_close(session);
	SERVER->dereg_mr(mr);
	/* events: queue pair, ibv_dereg_mr, memory that is kept */
	await(&seen.events, 3);
	ck_assert_ptr_nonnull(strstr(seen.event_text, "4096 bytes"));
	verbs_fake.dereg_error = 0;
	/* later work is done first */
	(void)mr_new(other);
	process_all();
	ck_assert_uint_eq(seen.deregistered + seen.closed, 0);
	/* the removal of the device ends all access */
	fake_async_event(0, IBV_EVENT_DEVICE_FATAL, 0);
	await(&seen.deregistered, 1);
	if (!_i)
		session_end(session);
}
END_TEST

START_TEST(protection_domain__not_freed_is_reported)
{
	struct fabric_session *session = server_open_session();

	(void)mr_new(session);
	verbs_fake.dealloc_error = EBUSY;
	if (_i) {
		/* the removal completes nevertheless */
		fake_async_event(0, IBV_EVENT_DEVICE_FATAL, 0);
		await(&seen.events, 3);
	}
	session_end(session);
	ck_assert_uint_eq(seen.deregistered, 1);
	ck_assert_uint_eq(seen.events, _i ? 3 : 1);
	ck_assert_ptr_nonnull(strstr(seen.event_text, "ibv_dealloc_pd gives 16"));
}
END_TEST

/* ---- events ---- */

START_TEST(cm_events__that_fail_end_listening)
{
	struct rdma_cm_id *id = channel_new(server_open_session(), 1);
	struct pollfd fd = { .fd = SERVER->fd(server), .events = POLLIN };

	verbs_fake.cm_error = EIO;
	fake_event(NULL, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	await(&seen.events, 2);
	ck_assert_uint_eq(seen.event_endpoint, 1);
	ck_assert_ptr_nonnull(strstr(seen.event_text, "rdma_get_cm_event"));
	/* the descriptor is not readable, so the loop does not spin */
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	SERVER->process(server);
	ck_assert_uint_eq(seen.events, 2);
	/* a connected channel still ends */
	fake_break(id);
	await(&seen.downs, 1);
}
END_TEST

START_TEST(cm_events__are_read_again_after_enomem)
{
	struct rdma_cm_id *id;

	seen.admitted = server_open_session();
	verbs_fake.cm_error = ENOMEM;
	id = request(1, 1);
	ck_assert_int_eq(fake_request_state(id), FAKE_REQUESTED);
	ck_assert_uint_eq(seen.events, 0);
	verbs_fake.cm_error = 0;
	process_next();
	settle();
	ck_assert_int_eq(fake_request_state(id), FAKE_ACCEPTED);
}
END_TEST

START_TEST(device__whose_events_fail_counts_as_removed)
{
	struct fabric_session *session = server_open_session();

	(void)channel_new(session, 1);
	verbs_fake.async_error = EIO;
	fake_async_event(0, IBV_EVENT_PORT_ERR, 1);
	await(&seen.downs, 1);
	verbs_fake.async_error = 0;
	ck_assert_ptr_nonnull(strstr(seen.why, "removed"));
	ck_assert_int_eq(SERVER->session_open(server, 0, NULL, &session), -ENODEV);
}
END_TEST

START_TEST(poller__finds_flushes_without_notifications)
{
	verbs_fake.notify_errors = 2; /* one for each device */
	server_open();
	fake_break(channel_new(session_new(0), 1));
	await(&seen.downs, 1);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("failures", NULL, server_close);

	tcase_add_test(tcase, session_close__ends_though_modify_qp_fails);
	tcase_add_loop_test(tcase, queue_pair__not_destroyed_is_reported_once, 0,
			    ENDINGS);
	tcase_add_test(tcase, queue_pair__not_created_refuses_the_channel);
	tcase_add_test(tcase, cm_id__not_destroyed_is_reported_once);
	tcase_add_test(tcase, dereg_mr__failed_is_reported_once);
	tcase_add_loop_test(tcase, reg_mr__refused_leaves_nothing, 0, N_MRS);
	tcase_add_test(tcase, reg_mr__runs_in_parallel_on_two_devices);
	tcase_add_test(tcase, dereg_mr__revokes_access_of_a_live_queue_pair);
	tcase_add_loop_test(tcase, dereg_mr__waits_while_the_device_may_have_access, 0,
			    2);
	tcase_add_loop_test(tcase, protection_domain__not_freed_is_reported, 0, 2);
	tcase_add_test(tcase, cm_events__that_fail_end_listening);
	tcase_add_test(tcase, cm_events__are_read_again_after_enomem);
	tcase_add_test(tcase, device__whose_events_fail_counts_as_removed);
	tcase_add_test(tcase, poller__finds_flushes_without_notifications);
	return unit_main();
}
