/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever a server answers: the library waits before it tries again, and longer each time. */
#include <errno.h>
#include <string.h>

#include "librmem/channel/channel.h"
#include "unit/librmem/core-case.h"

#define TRIES 10u /* as many as are awaited */

/* The number of tries in this time: one, one at once, six in the 0.6 s in which the least wait
 * rises from 10 ms to half of the longest one, and then two in that one. */
static unsigned tries_max(uint64_t begin_ns, unsigned wait_max_ms)
{
	uint64_t ms = (clock_now_ns() - begin_ns) / NS_PER_MS;

	return 8 + (unsigned)(ms / (wait_max_ms / 2));
}

static void edit_port(struct wire_msg *msg)
{
	static uint16_t port = 1000;

	edit_no_channel(msg);
	if (msg->type != WIRE_TYPE_channel)
		return;
	msg->channel.family = 4;
	msg->channel.address[0] = 127;
	msg->channel.port = ++port;
}

START_TEST(channel__that_moves_each_time_is_asked_for_after_waits)
{
	uint64_t begin_ns = clock_now_ns();
	unsigned asked;

	proxy.edit = edit_port;
	open_with(0);
	AWAIT(proxy.seen[WIRE_TYPE_open_channel] >= TRIES);
	asked = proxy.seen[WIRE_TYPE_open_channel];
	ck_assert_uint_le(asked, tries_max(begin_ns, CHANNEL_BACKOFF_MAX_MS));
}
END_TEST

/* The server's own answer may be that its time is over. */
START_TEST(channel__whose_time_is_over_at_once_is_connected_after_waits)
{
	uint64_t begin_ns = clock_now_ns();

	fake.connect_err = -ETIMEDOUT;
	ck_assert_int_eq(open_within(0, 1000), -ETIMEDOUT);
	ck_assert_uint_le(proxy.seen[WIRE_TYPE_open_channel],
			  tries_max(begin_ns, CHANNEL_BACKOFF_MAX_MS));
}
END_TEST

static void edit_fence(struct wire_msg *msg)
{
	if (msg->type != WIRE_TYPE_welcome)
		return;
	msg->welcome.heartbeat_ms = 10;
	msg->welcome.fence_ms = 30;
}

/* The session has held for the fence time, which the server chooses. */
START_TEST(session__that_is_lost_soon_each_time_resumes_after_waits)
{
	uint64_t begin_ns;

	proxy.edit = edit_fence;
	open_with(0);
	begin_ns = clock_now_ns();
	for (unsigned i = 0; i < TRIES; i++) {
		unsigned pings = proxy.seen[WIRE_TYPE_ping];

		AWAIT(proxy.seen[WIRE_TYPE_ping] > pings + 4);
		proxy_cut();
	}
	ck_assert_uint_le(proxy.seen[WIRE_TYPE_hello],
			  tries_max(begin_ns, SESSION_BACKOFF_MAX_MS));
}
END_TEST

int main(void)
{
	TCase *tc = core_case("waits");

	tcase_add_test(tc, channel__that_moves_each_time_is_asked_for_after_waits);
	tcase_add_test(tc,
		       channel__whose_time_is_over_at_once_is_connected_after_waits);
	tcase_add_test(tc, session__that_is_lost_soon_each_time_resumes_after_waits);
	return unit_main();
}
