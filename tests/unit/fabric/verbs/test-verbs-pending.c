/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels that the server accepted and the client does not establish: they end after a time, and
 * leave room for other clients. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

#define BACKLOG 3u

static uint64_t passed_ms; /* in addition to the real time */

static uint64_t now(void)
{
	struct timespec time;

	ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &time), 0);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec +
	       passed_ms * NS_PER_MS;
}

/* Let time pass, and set the server's timer to the next action that is due. */
static void pass(struct fabric_session *session, unsigned ms)
{
	passed_ms += ms;
	ck_assert_int_eq(SERVER->channel_close(session, 99), 0);
}

/* The tenants of sessions that are opened, by number. */
static const char tenants[3];
static unsigned tenant;

static const void *on_tenant(void *ctx, void *session_cookie)
{
	(void)ctx;
	ck_assert_ptr_eq(session_cookie, seen.session_cookie);
	return &tenants[tenant];
}

static void setup(void)
{
	clock_set_source(now);
	server_events.tenant = on_tenant;
	server_open();
}

static struct fabric_session *session_of(unsigned number)
{
	tenant = number;
	return session_new(0);
}

static uint32_t next_channel = 1;

/* A request of the session; its client never establishes the channel. */
static bool accepted(struct fabric_session *session)
{
	unsigned downs = seen.downs;
	struct rdma_cm_id *id;

	seen.admitted = session;
	id = request(1, next_channel++);
	if (fake_request_state(id) == FAKE_ACCEPTED)
		return true;
	/* the daemon does not count the channel any more */
	ck_assert_uint_eq(seen.downs, downs + 1);
	ck_assert_uint_eq(seen.channel, next_channel - 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "wait for their clients"));
	return false;
}

static void fill(struct fabric_session *session)
{
	for (unsigned i = 0; i < BACKLOG; i++)
		ck_assert(accepted(session));
}

START_TEST(pending__ends_after_a_time)
{
	struct fabric_session *session = session_of(0);

	(void)channel_new(session, 99);
	fill(session);
	pass(session, 9000);
	SERVER->process(server);
	ck_assert_uint_eq(seen.downs, 0);
	await(&seen.downs, BACKLOG);
	ck_assert_ptr_nonnull(strstr(seen.why, "did not complete"));
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_uint_eq(stats().errors, BACKLOG);
	fill(session);
}
END_TEST

/* A channel that was established has no deadline, and takes no slot. */
START_TEST(pending__established_in_time_stays)
{
	struct fabric_session *session = session_of(0);

	(void)channel_new(session, 99);
	for (unsigned i = 0; i < 2 * BACKLOG; i++)
		(void)channel_new(session, 100 + i);
	fill(session);
	pass(session, 10000);
	await(&seen.downs, BACKLOG);
	ck_assert_uint_eq(live_qps(), 2 * BACKLOG);
	ck_assert_uint_eq(stats().channels, 2 * BACKLOG);
}
END_TEST

START_TEST(pending__of_a_tenant_gives_way_to_others)
{
	struct fabric_session *one = session_of(0), *two = session_of(1);
	uint32_t oldest = next_channel;

	fill(one);
	ck_assert(!accepted(one));
	/* at once, the oldest first, until both have the same share */
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(accepted(two));
		ck_assert_uint_eq(seen.downs, 2 + i);
		ck_assert_uint_eq(seen.channel, oldest + i);
		ck_assert_ptr_nonnull(strstr(seen.why, "need the slot"));
	}
	ck_assert(!accepted(two));
	/* the tenant that has most gives way */
	ck_assert(accepted(session_of(2)));
	ck_assert_uint_eq(seen.channel, oldest + BACKLOG + 1);
	ck_assert_uint_eq(live_qps(), BACKLOG);
}
END_TEST

START_TEST(pending__of_a_session_gives_way_to_others_of_its_tenant)
{
	struct fabric_session *one = session_of(0), *two = session_of(0);
	uint32_t oldest = next_channel;

	fill(one);
	/* perhaps they are about to be established */
	ck_assert(!accepted(two));
	passed_ms += 250;
	ck_assert(!accepted(one));
	ck_assert(accepted(two));
	ck_assert_uint_eq(seen.channel, oldest);
	ck_assert_uint_eq(live_qps(), BACKLOG);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("pending", setup, server_close);

	tcase_add_test(tcase, pending__ends_after_a_time);
	tcase_add_test(tcase, pending__established_in_time_stays);
	tcase_add_test(tcase, pending__of_a_tenant_gives_way_to_others);
	tcase_add_test(tcase, pending__of_a_session_gives_way_to_others_of_its_tenant);
	return unit_main();
}
