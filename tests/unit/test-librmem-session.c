/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions against a scripted server, over the fake fabric. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "fake-fabric.h"
#include "librmem-server.h"
#include "librmem/session.h"
#include "unit.h"

static char uri[80];
static rmem *session;
static unsigned char buf[4096];

static void setup(void)
{
	fake_reset();
	fake.automatic = true;
	server_start();
	(void)snprintf(uri, sizeof(uri), "rmem://127.0.0.1:%d", server.port);
	memset(buf, 0x5a, sizeof(buf));
}

static void teardown(void)
{
	server_stop();
	ck_assert_int_eq(fake.live, 0);
}

static void open_with(unsigned flags)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	int err;

	options.flags = flags;
	err = rmem_open(uri, &options, &session);
	ck_assert_msg(err == 0, "%d: %s", err, rmem_error());
}

static rmem_lease *alloc(uint64_t bytes, const char *name)
{
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;
	int err;

	params.bytes = bytes;
	params.name = name;
	err = rmem_alloc(session, &params, &lease);
	ck_assert_msg(err == 0, "%d: %s", err, rmem_error());
	return lease;
}

/* Let a little time pass between looks at something no descriptor tells of. */
static void breathe(void)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	(void)nanosleep(&ms, NULL);
}

#define AWAIT(condition)                                                             \
	do {                                                                         \
		uint64_t until_ = clock_now_ms() + 10000;                            \
		while (!(condition)) {                                               \
			ck_assert_msg(clock_now_ms() < until_, "%s", #condition);    \
			breathe();                                                   \
		}                                                                    \
	} while (0)

static struct rmem_info info(void)
{
	struct rmem_info got = { .size = sizeof(got) };

	ck_assert_int_eq(rmem_info(session, &got), 0);
	return got;
}

/* ---- opening ---- */

START_TEST(open__says_what_it_got)
{
	struct rmem_info got;
	char text[64];

	open_with(0);
	got = info();
	(void)snprintf(text, sizeof(text), "127.0.0.1:%d", server.port);
	ck_assert_str_eq(got.server, text);
	ck_assert_int_eq(got.fabric, RMEM_FABRIC_TCP);
	ck_assert_ptr_nonnull(strstr(got.downgrade, "does not serve RDMA"));
	ck_assert_uint_eq(got.session_id, 9);
	ck_assert_uint_eq(got.heartbeat_ms, 20);
	ck_assert_uint_eq(got.channels, 1);
	ck_assert_str_eq(got.device, "");
	ck_assert_int_eq(rmem_fd(session), -EINVAL);
	ck_assert_int_eq(rmem_process(session), -EINVAL);
	got.size = 1;
	ck_assert_int_eq(rmem_info(session, &got), -EINVAL);
	/* the channel showed the session's token */
	ck_assert_uint_eq(fake_latest()->hello.session, 9);
	ck_assert_mem_eq(fake_latest()->hello.token, server.welcome.token, 16);
	rmem_close(session);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_bye], 1);
	rmem_close(NULL);
}
END_TEST

static void serve_rdma(void)
{
	server.welcome.n_endpoints = 3;
	server.welcome.endpoints[1].fabric = WIRE_FABRIC_VERBS;
	(void)strcpy(server.welcome.endpoints[1].device, "fake0");
	server.welcome.endpoints[2].fabric = WIRE_FABRIC_VERBS;
	(void)strcpy(server.welcome.endpoints[2].device, "fake1");
}

START_TEST(open__prefers_rdma)
{
	struct rmem_info got;
	rmem_lease *lease;

	serve_rdma();
	(void)strcat(uri, "?channels=2");
	open_with(0);
	got = info();
	ck_assert_int_eq(got.fabric, RMEM_FABRIC_RDMA);
	ck_assert_ptr_null(got.downgrade);
	ck_assert_str_eq(got.device, "fake0,fake1");
	lease = alloc(20000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, buf, sizeof(buf)), 0);
	ck_assert_mem_eq(server.leases[0].memory + 5, buf, sizeof(buf));
	rmem_close(session);
}
END_TEST

static _Atomic int *const rdma_faults[] = { &fake.available_err, &fake.domain_err,
				    &fake.region_err };

START_TEST(open__falls_back_to_tcp)
{
	serve_rdma();
	*rdma_faults[_i] = -ENODEV;
	if (rdma_faults[_i] != &fake.domain_err) {
		open_with(0);
		ck_assert_int_eq(info().fabric, RMEM_FABRIC_TCP);
		ck_assert_ptr_nonnull(strstr(info().downgrade, "no fake"));
		rmem_close(session);
	}
	(void)strcat(uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(uri, NULL, &session), -ENODEV);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "RDMA cannot be used"));
	/* an open that failed says good-bye all the same */
	ck_assert_uint_ge(server.seen[WIRE_TYPE_bye], 1);
}
END_TEST

START_TEST(open__is_refused)
{
	server.refuse = EACCES;
	ck_assert_int_eq(rmem_open(uri, NULL, &session), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "you may not"));
	server_lock();
	server.refuse = 0;
	server.welcome.version = 9;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &session), -ENOTSUP);
	server_lock();
	server.welcome.version = 1;
	server.welcome.fence_ms = server.welcome.heartbeat_ms;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &session), -EPROTO);
	server_lock();
	server.welcome.fence_ms = 200;
	server.welcome.n_endpoints = 0;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &session), -ENODEV);
	server_lock();
	server.welcome.n_endpoints = 1;
	server.fail_on = WIRE_TYPE_open_channel;
	server.fail_errno = EDQUOT;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &session), -EDQUOT);
	server_lock();
	fake.connect_err = -EHOSTUNREACH;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &session), -EHOSTUNREACH);
}
END_TEST

START_TEST(open__wants_sound_options)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	char long_name[80];

	memset(long_name, 'x', sizeof(long_name));
	long_name[65] = '\0';
	options.flags = 0x80;
	ck_assert_int_eq(rmem_open(uri, &options, &session), -EINVAL);
	options.flags = 0;
	options.tenant = long_name;
	ck_assert_int_eq(rmem_open(uri, &options, &session), -EINVAL);
	options.tenant = "";
	ck_assert_int_eq(rmem_open(uri, &options, &session), -EINVAL);
	options.tenant = "a\nb";
	ck_assert_int_eq(rmem_open(uri, &options, &session), -EINVAL);
	options.tenant = NULL;
	options.size = 0;
	ck_assert_int_eq(rmem_open(uri, &options, &session), -EINVAL);
	ck_assert_int_eq(rmem_open(uri, NULL, NULL), -EINVAL);
	ck_assert_int_eq(rmem_open("nonsense", NULL, &session), -EINVAL);
	ck_assert_uint_eq(server.connections, 0);
}
END_TEST

START_TEST(open__of_a_mute_server_ends_in_time)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;

	server.mute = true;
	options.timeout_ms = 50;
	ck_assert_int_eq(rmem_open(uri, &options, &session), -ETIMEDOUT);
}
END_TEST

START_TEST(open__of_a_closed_port)
{
	ck_assert_int_eq(rmem_open("rmem://127.0.0.1:1", NULL, &session), -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "127.0.0.1:1: "));
}
END_TEST

/* ---- leases ---- */

START_TEST(leases__live_and_die)
{
	rmem_lease *lease, *again = NULL;
	struct rmem_stat stat;

	open_with(0);
	lease = alloc(1000, "thing");
	ck_assert_uint_eq(rmem_lease_bytes(lease), 1000);
	ck_assert_uint_eq(rmem_lease_rights(lease), RMEM_READ | RMEM_WRITE);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	ck_assert_int_eq(rmem_stat(session, "thing", &stat), 0);
	ck_assert_uint_eq(stat.id, rmem_lease_id(lease));
	ck_assert_int_eq(rmem_attach(session, "thing", RMEM_READ, &again), -EBUSY);
	ck_assert_int_eq(rmem_grow(lease, 2000), 0);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 2000);
	ck_assert_int_eq(rmem_write(lease, 1990, buf, 10), 0);
	ck_assert_int_eq(rmem_write(lease, 1991, buf, 10), -EINVAL);
	ck_assert_int_eq(rmem_grow(lease, 1999), -EINVAL);
	ck_assert_int_eq(rmem_trim(lease, 2001), -EINVAL);
	ck_assert_int_eq(rmem_trim(lease, 0), 0);
	ck_assert_int_eq(rmem_read(lease, 0, buf, 1), -EINVAL);
	ck_assert_int_eq(rmem_read(lease, 0, buf, 0), 0);
	ck_assert_int_eq(rmem_rename(lease, "other", 0), 0);
	ck_assert_int_eq(rmem_rename(lease, "", 0), -EINVAL);
	ck_assert_int_eq(rmem_rename(lease, "a", 1), -EINVAL);
	ck_assert_int_eq(rmem_renew(lease, 5), 0);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_attach(session, "thing", RMEM_READ, &lease), -ENOENT);
	ck_assert_int_eq(rmem_attach(session, "other", 9, &lease), -EINVAL);
	ck_assert_int_eq(rmem_attach(session, "other", RMEM_READ, &lease), 0);
	ck_assert_int_eq(rmem_free(lease), -EACCES);
	ck_assert_int_eq(rmem_grow(lease, 9), -EACCES);
	ck_assert_int_eq(rmem_rename(lease, "x", 0), -EACCES);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_remove(session, "other"), 0);
	ck_assert_int_eq(rmem_remove(session, "other"), -ENOENT);
	rmem_close(session);
}
END_TEST

START_TEST(alloc__errors)
{
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;

	open_with(0);
	params.bytes = 1 << 20;
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "the pools are full"));
	params.bytes = 1;
	params.align = 3;
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -EINVAL);
	params.align = UINT64_C(1) << 31;
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -EINVAL);
	params.align = 0;
	params.node = -2;
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -EINVAL);
	params.node = 0;
	params.ttl_ms = 5;
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -EINVAL);
	params.name = "a\tb";
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -EINVAL);
	ck_assert_ptr_null(lease);
	rmem_close(session);
}
END_TEST

static int count(const struct rmem_stat *stat, void *arg)
{
	unsigned *n = arg;

	ck_assert_uint_gt(stat->id, 0);
	return ++*n == 5 ? 55 : 0;
}

START_TEST(list__goes_through_pages)
{
	static const char *const names[] = { "a1", "b1", "a2", "a3", "b2" };
	unsigned n = 0;

	open_with(0);
	for (unsigned i = 0; i < 5; i++)
		(void)alloc(1, names[i]);
	ck_assert_int_eq(rmem_list(session, "a", count, &n), 0);
	ck_assert_uint_eq(n, 3);
	n = 0;
	ck_assert_int_eq(rmem_list(session, NULL, count, &n), 55);
	n = 0;
	ck_assert_int_eq(rmem_list(session, "none", count, &n), 0);
	ck_assert_uint_eq(n, 0);
	server_lock();
	server.list_twice = true;
	server_unlock();
	ck_assert_int_eq(rmem_list(session, "a", count, &n), -EPROTO);
	rmem_close(session);
}
END_TEST

START_TEST(events__reach_the_lease)
{
	rmem_lease *lease, *other;

	open_with(0);
	lease = alloc(1000, NULL);
	other = alloc(1000, "other");
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	server_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), -ESTALE);
	ck_assert_int_eq(rmem_grow(lease, 2000), -ESTALE);
	ck_assert_int_eq(rmem_free(lease), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_free], 0);
	/* of nothing known: ignored */
	server_event(WIRE_TYPE_revoked, 4711, WIRE_REASON_REVOKED);
	server_event(WIRE_TYPE_changed, 4711, WIRE_REASON_TRIMMED);
	/* another session made it longer */
	server_lock();
	server.leases[1].bytes = 3000;
	server_unlock();
	server_event(WIRE_TYPE_changed, rmem_lease_id(other), 0);
	AWAIT(rmem_lease_bytes(other) == 3000);
	ck_assert_int_eq(rmem_write(other, 2990, buf, 10), 0);
	server_event(WIRE_TYPE_draining, 0, 0);
	AWAIT(info().draining);
	rmem_close(session);
}
END_TEST

START_TEST(keys__that_went_stale_are_renewed)
{
	rmem_lease *lease;
	uint64_t old;

	open_with(0);
	lease = alloc(1000, NULL);
	/* the server has other keys now, and the event is still on its way */
	server_lock();
	old = server.rkey++;
	server_unlock();
	fake.refused_rkey = old;
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), 0);
	ck_assert_mem_eq(server.leases[0].memory, buf, 100);
	/* keys that stay what they are: refused for good */
	fake.refused_rkey = old + 1;
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), -EACCES);
	/* and a lease that is gone */
	server_lock();
	server.leases[0].id = 0;
	server_unlock();
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), -ESTALE);
	rmem_close(session);
}
END_TEST

/* ---- losing the connection ---- */

START_TEST(heartbeats__go_on)
{
	open_with(0);
	server_await(WIRE_TYPE_ping, 5);
	ck_assert_uint_eq(info().resumes, 0);
	rmem_close(session);
}
END_TEST

START_TEST(connection__lost_and_resumed)
{
	rmem_lease *lease;
	uint64_t ns = 0;

	open_with(0);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), 0);
	server_lock();
	fake.refused_rkey = server.rkey;
	server_unlock();
	server_hang_up();
	/* a call made now waits for the session to be back */
	AWAIT(rmem_ping(session, &ns) == 0 && info().resumes == 1);
	ck_assert_uint_gt(ns, 0);
	ck_assert_uint_eq(server.resumed, 1);
	AWAIT(rmem_write(lease, 0, buf, 100) == 0);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	rmem_close(session);
}
END_TEST

START_TEST(connection__lost_while_waiting)
{
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;
	struct rmem_stat stat;

	open_with(0);
	lease = alloc(1, "name");
	/* in doubt */
	server_lock();
	server.drop_on = WIRE_TYPE_allocate;
	server_unlock();
	params.bytes = 10;
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -ECONNRESET);
	/* harmless to repeat */
	server_lock();
	server.drop_on = WIRE_TYPE_stat;
	server_unlock();
	ck_assert_int_eq(rmem_stat(session, "name", &stat), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_stat], 2);
	rmem_close(session);
}
END_TEST

START_TEST(attach__whose_answer_was_lost)
{
	rmem_lease *lease = NULL;

	open_with(0);
	lease = alloc(100, "name");
	ck_assert_int_eq(rmem_detach(lease), 0);
	server_lock();
	server.drop_on = WIRE_TYPE_attach;
	server_unlock();
	/* repeated, the server says that it is attached: it is, but nobody has a handle */
	ck_assert_int_eq(rmem_attach(session, "name", RMEM_READ, &lease), 0);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 100);
	ck_assert_int_eq(rmem_attach(session, "name", RMEM_READ, &lease), -EBUSY);
	rmem_close(session);
}
END_TEST

START_TEST(answer__that_comes_too_late)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;

	server.welcome.heartbeat_ms = 5000;
	server.welcome.fence_ms = 20000;
	options.timeout_ms = 300;
	ck_assert_int_eq(rmem_open(uri, &options, &session), 0);
	server_lock();
	server.delay_on = WIRE_TYPE_allocate;
	server_unlock();
	params.bytes = 10;
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -ETIMEDOUT);
	/* the next answer brings the lease nobody wants any more: it is given back */
	ck_assert_int_eq(rmem_ping(session, NULL), 0);
	server_await(WIRE_TYPE_free, 1);
	rmem_close(session);
}
END_TEST

START_TEST(mute_server__stops_the_client_in_time)
{
	rmem_lease *lease;
	uint64_t start, before;
	int err;

	server.welcome.fence_ms = 200;
	open_with(0);
	lease = alloc(1000, NULL);
	server_lock();
	server.mute = true;
	start = clock_now_ms();
	server_unlock();
	/* by the client's clock, which runs from the sending of the last answered ping, no
	 * operation may start once 200 ms have passed, however late the service is */
	do {
		before = clock_now_ms();
		err = rmem_write(lease, 0, buf, 1);
		ck_assert(err || before <= start + 200);
	} while (!err);
	ck_assert_int_eq(err, -ECONNRESET);
	server_lock();
	server.mute = false;
	server_unlock();
	AWAIT(rmem_write(lease, 0, buf, 1) == 0);
	ck_assert_uint_ge(info().resumes, 1);
	rmem_close(session);
}
END_TEST

START_TEST(session__that_is_unknown_is_lost)
{
	rmem_lease *lease;
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;

	open_with(0);
	lease = alloc(1000, "name");
	server_lock();
	server.forget = true;
	server_unlock();
	server_hang_up();
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 1), -ESTALE);
	ck_assert_int_eq(rmem_alloc(session, &params, &lease), -ESTALE);
	ck_assert_int_eq(rmem_ping(session, NULL), -ESTALE);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "the session is unknown"));
	rmem_close(session);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_bye], 0);
}
END_TEST

START_TEST(session__whose_grace_is_over_is_lost)
{
	rmem_lease *lease;

	server.welcome.fence_ms = 200;
	server.welcome.grace_ms = 100;
	open_with(0);
	lease = alloc(1000, NULL);
	server_lock();
	server.refuse = EAGAIN;
	server_unlock();
	server_hang_up();
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	rmem_close(session);
}
END_TEST

START_TEST(session__closed_by_the_server)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(1000, NULL);
	/* fenced: come back */
	server_event(WIRE_TYPE_closing, 0, WIRE_REASON_FENCED);
	AWAIT(info().resumes == 1);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	server_event(WIRE_TYPE_closing, 0, WIRE_REASON_SHUTDOWN);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_ping(session, NULL), -ESTALE);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "the server stops"));
	rmem_close(session);
}
END_TEST

START_TEST(server__that_breaks_the_protocol)
{
	open_with(0);
	/* answers what was not asked */
	server_event(WIRE_TYPE_ok, 0, 0);
	AWAIT(info().resumes == 1);
	rmem_close(session);
}
END_TEST

/* ---- channels ---- */

START_TEST(channel__whose_peer_is_gone_is_replaced)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_completion completion;
	rmem_queue *queue = NULL;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	unsigned connects;

	open_with(0);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(session, &params, &queue), 0);
	connects = fake.connects;
	fake_peer_gone(fake_latest());
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, 0), 0);
	AWAIT(rmem_poll(queue, &completion, 1) == 0 && fake.connects == connects + 1);
	server_await(WIRE_TYPE_close_channel, 1);
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, 0);
	rmem_queue_free(queue);
	rmem_close(session);
}
END_TEST

START_TEST(queue__that_cannot_have_its_channels)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	rmem_queue *queue = NULL;

	open_with(0);
	params.channels = 3;
	server_lock();
	server.fail_on = WIRE_TYPE_open_channel;
	server.fail_errno = EDQUOT;
	server.fail_skip = 2;
	server_unlock();
	ck_assert_int_eq(rmem_queue_create(session, &params, &queue), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "channel 3 of 3"));
	server_await(WIRE_TYPE_close_channel, 2);
	params.channels = RMEM_CHANNELS_MAX + 1;
	ck_assert_int_eq(rmem_queue_create(session, &params, &queue), -EINVAL);
	params.channels = 1;
	params.depth = RMEM_DEPTH_MAX + 1;
	ck_assert_int_eq(rmem_queue_create(session, &params, &queue), -EINVAL);
	params.depth = 0;
	fake.cq_err = -ENOMEM;
	ck_assert_int_eq(rmem_queue_create(session, &params, &queue), -ENOMEM);
	fake.cq_err = 0;
	ck_assert_ptr_null(queue);
	rmem_close(session);
}
END_TEST

START_TEST(operations__wait_out_a_resume_only_when_new)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	struct rmem_completion completion;
	rmem_queue *queue = NULL;

	open_with(0);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(session, &params, &queue), 0);
	fake.automatic = false;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	server_hang_up();
	/* what was under way is flushed, without anybody's help */
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, -ECONNRESET);
	AWAIT(info().resumes == 1);
	fake.automatic = true;
	/* the channel comes while the operation waits in the queue */
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, 0);
	rmem_close(session);
}
END_TEST

/* ---- without the thread ---- */

START_TEST(no_thread__the_program_drives)
{
	struct pollfd pollfd = { .events = POLLIN };
	rmem_lease *lease;
	int err;

	open_with(RMEM_NO_THREAD);
	lease = alloc(1000, NULL);
	pollfd.fd = rmem_fd(session);
	ck_assert_int_ge(pollfd.fd, 0);
	while (server.seen[WIRE_TYPE_ping] < 4) {
		ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
		ck_assert_int_eq(rmem_process(session), 0);
	}
	server_hang_up();
	do {
		ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
		err = rmem_process(session);
	} while (err == 0 && info().resumes == 0);
	if (err)
		ck_assert_int_eq(err, -ECONNRESET);
	while (info().resumes == 0) {
		ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
		(void)rmem_process(session);
	}
	/* a synchronous call drives the session by itself */
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	server_lock();
	server.forget = true;
	server_unlock();
	server_hang_up();
	while (rmem_process(session) != -ESTALE)
		ck_assert_int_eq(poll(&pollfd, 1, 5000), 1);
	rmem_close(session);
}
END_TEST

/* ---- ends ---- */

START_TEST(close__frees_everything)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_buffer_params memory = RMEM_BUFFER_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	rmem_queue *queue = NULL;
	rmem_buffer *buffer = NULL;

	serve_rdma();
	for (unsigned round = 0; round < 3; round++) {
		open_with(0);
		fake.automatic = true;
		op.lease = alloc(1000, NULL);
		memory.bytes = 8192;
		ck_assert_int_eq(rmem_buffer_create(session, &memory, &buffer), 0);
		ck_assert_int_eq(rmem_write(op.lease, 0, rmem_buffer_addr(buffer), 100), 0);
		ck_assert_int_eq(rmem_queue_create(session, &params, &queue), 0);
		fake.automatic = false;
		ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
		rmem_close(session);
		ck_assert_int_eq(fake.live, 0);
		server_lock();
		memset(server.leases, 0, sizeof(server.leases));
		server_unlock();
	}
}
END_TEST

static atomic_bool enough;
static atomic_uint rounds;

static void *use(void *arg)
{
	rmem_lease *lease = arg;
	unsigned char mine[64];

	while (!enough) {
		int err = rmem_write(lease, 0, buf, 64);

		if (!err)
			err = rmem_read(lease, 0, mine, 64);
		if (!err)
			err = rmem_ping(session, NULL);
		ck_assert_msg(err == 0 || err == -ECONNRESET, "%d: %s", err, rmem_error());
		if (!err)
			rounds++;
	}
	return NULL;
}

/* Three threads at work while the connection is lost again and again. */
START_TEST(threads__share_a_session)
{
	pthread_t threads[3];

	open_with(_i ? RMEM_NO_THREAD : 0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, use, alloc(100, NULL)),
				 0);
	for (unsigned i = 0; i < 5; i++) {
		unsigned before = rounds;

		server_hang_up();
		AWAIT(info().resumes > i && rounds > before + 10);
	}
	enough = true;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_ge(info().resumes, 5);
	rmem_close(session);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-session");
	TCase *tc = tcase_create("session");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, open__says_what_it_got);
	tcase_add_test(tc, open__prefers_rdma);
	tcase_add_loop_test(tc, open__falls_back_to_tcp, 0, 3);
	tcase_add_test(tc, open__is_refused);
	tcase_add_test(tc, open__wants_sound_options);
	tcase_add_test(tc, open__of_a_mute_server_ends_in_time);
	tcase_add_test(tc, open__of_a_closed_port);
	tcase_add_test(tc, leases__live_and_die);
	tcase_add_test(tc, alloc__errors);
	tcase_add_test(tc, list__goes_through_pages);
	tcase_add_test(tc, events__reach_the_lease);
	tcase_add_test(tc, keys__that_went_stale_are_renewed);
	tcase_add_test(tc, heartbeats__go_on);
	tcase_add_test(tc, connection__lost_and_resumed);
	tcase_add_test(tc, connection__lost_while_waiting);
	tcase_add_test(tc, attach__whose_answer_was_lost);
	tcase_add_test(tc, answer__that_comes_too_late);
	tcase_add_test(tc, mute_server__stops_the_client_in_time);
	tcase_add_test(tc, session__that_is_unknown_is_lost);
	tcase_add_test(tc, session__whose_grace_is_over_is_lost);
	tcase_add_test(tc, session__closed_by_the_server);
	tcase_add_test(tc, server__that_breaks_the_protocol);
	tcase_add_test(tc, channel__whose_peer_is_gone_is_replaced);
	tcase_add_test(tc, queue__that_cannot_have_its_channels);
	tcase_add_test(tc, operations__wait_out_a_resume_only_when_new);
	tcase_add_test(tc, no_thread__the_program_drives);
	tcase_add_test(tc, close__frees_everything);
	tcase_add_loop_test(tc, threads__share_a_session, 0, 2);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
