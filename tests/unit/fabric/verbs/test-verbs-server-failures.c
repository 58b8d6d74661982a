/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server does when the device or the kernel does not give back what it should, or
 * gives nothing any more: all ends are reached, one line tells, nobody reads or writes the
 * memory of others. */
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

START_TEST(fence__that_fails_still_ends_the_session)
{
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)channel_new(session, 1);
	(void)channel_new(session, 2);
	(void)exposure_new(session);
	fake.modify_error = EIO;
	SERVER->session_close(session);
	ck_assert_uint_eq(fake_live_qps(), 0);
	await(&seen.closeds, 1);
	ck_assert_uint_eq(seen.withdrawns, 1);
	ck_assert_uint_eq(seen.news, 0);
	close_all();
}
END_TEST

enum ending { BY_CHANNEL_CLOSE, BY_SESSION_CLOSE, BY_PEER, BY_BREAK_ON_IWARP, ENDINGS };

START_TEST(queue_pair__that_stays_is_told_once_and_forgotten)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;

	fake.iwarp = _i == BY_BREAK_ON_IWARP;
	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	id = channel_new(session, 1);
	fake.destroy_qp_error = EBUSY;
	switch (_i) {
	case BY_CHANNEL_CLOSE:
		SERVER->channel_close(session, 1);
		break;
	case BY_SESSION_CLOSE:
		SERVER->session_close(session);
		await(&seen.closeds, 1);
		break;
	case BY_PEER:
		fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
		await(&seen.downs, 1);
		break;
	default:
		fake_break(id);
		await(&seen.news, 1);
		fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
		await(&seen.downs, 1);
	}
	ck_assert_uint_eq(seen.news, 1);
	ck_assert_ptr_nonnull(strstr(seen.news_text, "fake0"));
	ck_assert_ptr_nonnull(strstr(seen.news_text, "ibv_destroy_qp gives 16"));
	/* the device goes on telling about it */
	fake_async_lost(0, IBV_EVENT_QP_ACCESS_ERR);
	process_all();
	ck_assert_uint_eq(seen.news, 1);
	close_all();
}
END_TEST

START_TEST(queue_pair__that_is_not_made_refuses_the_channel)
{
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	seen.admitted = session;
	fake.qp_error = ENOMEM;
	ck_assert_int_eq(fake_fate(request(1, 1)), FAKE_REJECTED);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "rdma_create_qp"));
	ck_assert_uint_eq(stats().errors, 1);
	fake.qp_error = 0;
	(void)channel_new(session, 1);
	close_all();
}
END_TEST

START_TEST(connection__that_stays_is_told_once_and_forgotten)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	id = channel_new(session, 1);
	fake.destroy_id_error = EINVAL;
	SERVER->channel_close(session, 1);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	await(&seen.news, 1);
	fake.destroy_id_error = 0;
	ck_assert_ptr_nonnull(strstr(seen.news_text, "rdma_destroy_id gives 22"));
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED);
	process_all();
	ck_assert_uint_eq(seen.downs, 0);
	close_all();
}
END_TEST

/* ---- registrations and protection domains ---- */

START_TEST(registrations__that_stay_are_told_once)
{
	struct fabric_mr *first, *second;
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)channel_new(session, 1);
	first = exposure_new(session);
	second = exposure_new(session);
	fake.dereg_error = EBUSY;
	SERVER->dereg_mr(first);
	SERVER->dereg_mr(second);
	await(&seen.withdrawns, 2);
	ck_assert_uint_eq(seen.news, 1);
	ck_assert_ptr_nonnull(strstr(seen.news_text, "ibv_dereg_mr gives 16"));
	ck_assert_uint_eq(seen.downs, 1);
	/* nobody could reach what is exposed from now on */
	ck_assert_int_eq(SERVER->reg_mr(session, memory, 10, 0, NULL, &first), -EIO);
	ck_assert_ptr_nonnull(strstr(err_text(), "cut off"));
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	close_all();
}
END_TEST

/* Three segments that take the devices' registrars, on two devices each. */
#define N_DEVICES 2
#define N_SEGMENTS 3
#define N_PIECES (N_DEVICES * N_SEGMENTS)
static char segments[N_SEGMENTS][(size_t)256 << 10];

static int piece_expose(struct fabric_session *const sessions[N_DEVICES], unsigned i,
			struct fabric_mr **ret_mr)
{
	return SERVER->reg_mr(sessions[i % N_DEVICES], segments[i / N_DEVICES],
			      sizeof(segments[0]),
			      FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE, NULL, ret_mr);
}

/* Whichever of them it is: that one is told of, with device and size, and the others can be
 * taken back. */
START_TEST(registrations__refused_half_way_leave_nothing)
{
	struct fabric_mr *exposures[N_PIECES] = { NULL };
	struct fabric_session *sessions[N_DEVICES];
	char said[64];

	(void)snprintf(said, sizeof(said), "RDMA device fake%d: ibv_reg_mr of 256 KiB",
		       _i % N_DEVICES);
	ck_assert_int_eq(open_plain(), 0);
	for (unsigned i = 0; i < N_DEVICES; i++)
		sessions[i] = session_new(i);
	for (unsigned i = 0; i < N_PIECES; i++) {
		fake.reg_error = i == (unsigned)_i ? ENOMEM : 0;
		ck_assert_int_eq(piece_expose(sessions, i, &exposures[i]), 0);
		await(&seen.exposeds, i + 1);
		ck_assert_int_eq(seen.err, -fake.reg_error);
		if (seen.err)
			ck_assert_ptr_nonnull(strstr(seen.text, said));
	}
	ck_assert_uint_eq(fake_live_mrs(), N_PIECES - 1);
	for (unsigned i = 0; i < N_PIECES; i++)
		if (i != (unsigned)_i)
			SERVER->dereg_mr(exposures[i]);
	await(&seen.withdrawns, N_PIECES - 1);
	ck_assert_uint_eq(fake_live_mrs(), 0);
	ck_assert_uint_eq(stats().exposed_bytes, 0);
	fake.reg_error = 0;
	/* the sessions are none the worse for it */
	ck_assert_int_eq(piece_expose(sessions, (unsigned)_i, &exposures[0]), 0);
	await(&seen.exposeds, N_PIECES + 1);
	ck_assert_int_eq(seen.err, 0);
	close_all();
}
END_TEST

static pthread_barrier_t both;

static void meet(void)
{
	(void)pthread_barrier_wait(&both);
}

/* Neither registers before the other does. */
START_TEST(registrations__of_devices_are_made_at_the_same_time)
{
	struct fabric_mr *exposures[N_DEVICES];
	struct fabric_session *sessions[N_DEVICES];

	ck_assert_int_eq(pthread_barrier_init(&both, NULL, N_DEVICES), 0);
	ck_assert_int_eq(open_plain(), 0);
	for (unsigned i = 0; i < N_DEVICES; i++)
		sessions[i] = session_new(i);
	fake.at_reg = meet;
	for (unsigned i = 0; i < N_DEVICES; i++)
		ck_assert_int_eq(piece_expose(sessions, i, &exposures[i]), 0);
	await(&seen.exposeds, N_DEVICES);
	ck_assert_int_eq(seen.err, 0);
	fake.at_reg = NULL;
	close_all();
	(void)pthread_barrier_destroy(&both);
}
END_TEST

/* A session with a queue pair that serves its peer on, and an exposure. */
static struct fabric_session *session_unfenced(struct fabric_mr **ret_mr)
{
	struct fabric_session *session = session_new(0);

	(void)channel_new(session, 1);
	*ret_mr = exposure_new(session);
	fake.modify_error = EIO;
	fake.destroy_qp_error = EIO;
	SERVER->channel_close(session, 1);
	fake.modify_error = 0;
	fake.destroy_qp_error = 0;
	ck_assert_uint_eq(seen.news, 1);
	ck_assert_ptr_nonnull(strstr(seen.news_text, "still serves"));
	return session;
}

START_TEST(withdraw__is_done_with_the_registration)
{
	struct fabric_mr *exposure;
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_unfenced(&exposure);
	SERVER->dereg_mr(exposure);
	await(&seen.withdrawns, 1);
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	ck_assert_uint_eq(seen.news, 1);
	close_all();
}
END_TEST

START_TEST(withdraw__never_ends_while_the_device_may_serve_it)
{
	struct fabric_session *session, *other;
	struct fabric_mr *exposure;

	ck_assert_int_eq(open_plain(), 0);
	other = session_new(0);
	session = session_unfenced(&exposure);
	fake.dereg_error = EIO;
	if (_i)
		SERVER->session_close(session);
	else
		SERVER->dereg_mr(exposure);
	/* the registration failed, and the memory is withheld */
	await(&seen.news, 3);
	ck_assert_ptr_nonnull(strstr(seen.news_text, "4096 bytes"));
	fake.dereg_error = 0;
	/* what comes later is done already */
	(void)exposure_new(other);
	process_all();
	ck_assert_uint_eq(seen.withdrawns + seen.closeds, 0);
	/* until the device is gone */
	fake_async(0, IBV_EVENT_DEVICE_FATAL, 0);
	await(&seen.withdrawns, 1);
	if (!_i)
		SERVER->session_close(session);
	await(&seen.closeds, 1);
	close_all();
}
END_TEST

START_TEST(protection_domain__that_stays_is_told_and_no_more)
{
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)exposure_new(session);
	fake.dealloc_error = EBUSY;
	if (_i) {
		/* the removal is done with all the same */
		fake_async(0, IBV_EVENT_DEVICE_FATAL, 0);
		await(&seen.news, 3);
	}
	SERVER->session_close(session);
	await(&seen.closeds, 1);
	ck_assert_uint_eq(seen.withdrawns, 1);
	ck_assert_uint_eq(seen.news, _i ? 3 : 1);
	ck_assert_ptr_nonnull(strstr(seen.news_text, "ibv_dealloc_pd gives 16"));
	close_all();
}
END_TEST

/* ---- events ---- */

START_TEST(connections__that_are_not_told_any_more_end_the_listening)
{
	struct pollfd fd = { .events = POLLIN };
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	fd.fd = SERVER->fd(server);
	id = channel_new(session_new(0), 1);
	fake.cm_error = EIO;
	fake_event(NULL, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	await(&seen.news, 2);
	ck_assert_uint_eq(seen.news_endpoint, 1);
	ck_assert_ptr_nonnull(strstr(seen.news_text, "rdma_get_cm_event"));
	/* and do not keep the loop busy */
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	SERVER->process(server);
	ck_assert_uint_eq(seen.news, 2);
	/* what is connected still ends */
	fake_break(id);
	await(&seen.downs, 1);
	close_all();
}
END_TEST

START_TEST(connections__wait_for_memory)
{
	struct rdma_cm_id *id;

	ck_assert_int_eq(open_plain(), 0);
	seen.admitted = session_new(0);
	fake.cm_error = ENOMEM;
	id = request(1, 1);
	ck_assert_int_eq(fake_fate(id), FAKE_WAITING);
	ck_assert_uint_eq(seen.news, 0);
	fake.cm_error = 0;
	await_readable();
	SERVER->process(server);
	ck_assert_int_eq(fake_fate(id), FAKE_ACCEPTED);
	close_all();
}
END_TEST

START_TEST(device__that_tells_nothing_any_more_is_gone)
{
	struct fabric_session *session;

	ck_assert_int_eq(open_plain(), 0);
	session = session_new(0);
	(void)channel_new(session, 1);
	fake.async_error = EIO;
	fake_async(0, IBV_EVENT_PORT_ERR, 1);
	await(&seen.downs, 1);
	fake.async_error = 0;
	ck_assert_ptr_nonnull(strstr(seen.why, "removed"));
	ck_assert_int_eq(SERVER->session_open(server, 0, NULL, &session), -ENODEV);
	close_all();
}
END_TEST

START_TEST(poller__finds_flushes_without_being_armed)
{
	fake.notify_errors = 2; /* one for each device */
	ck_assert_int_eq(open_plain(), 0);
	fake_break(channel_new(session_new(0), 1));
	await(&seen.downs, 1);
	close_all();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-failures");
	TCase *tcase = tcase_create("server");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, fence__that_fails_still_ends_the_session);
	tcase_add_loop_test(tcase, queue_pair__that_stays_is_told_once_and_forgotten, 0,
			    ENDINGS);
	tcase_add_test(tcase, queue_pair__that_is_not_made_refuses_the_channel);
	tcase_add_test(tcase, connection__that_stays_is_told_once_and_forgotten);
	tcase_add_test(tcase, registrations__that_stay_are_told_once);
	tcase_add_loop_test(tcase, registrations__refused_half_way_leave_nothing, 0,
			    N_PIECES);
	tcase_add_test(tcase, registrations__of_devices_are_made_at_the_same_time);
	tcase_add_test(tcase, withdraw__is_done_with_the_registration);
	tcase_add_loop_test(tcase, withdraw__never_ends_while_the_device_may_serve_it,
			    0, 2);
	tcase_add_loop_test(tcase, protection_domain__that_stays_is_told_and_no_more, 0,
			    2);
	tcase_add_test(tcase,
		       connections__that_are_not_told_any_more_end_the_listening);
	tcase_add_test(tcase, connections__wait_for_memory);
	tcase_add_test(tcase, device__that_tells_nothing_any_more_is_gone);
	tcase_add_test(tcase, poller__finds_flushes_without_being_armed);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
