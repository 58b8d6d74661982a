/* SPDX-License-Identifier: BSD-3-Clause */
/* The callbacks that write the record. */
#include "unit/fabric/server-events.h"

#include <check.h>
#include <endian.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/modular.h"

struct seen seen;

static void on_channel_up(void *ctx, void *cookie, uint32_t channel)
{
	(void)ctx;
	ck_assert_ptr_eq(cookie, seen.session_cookie);
	seen.ups++;
	seen.channel = channel;
}

static void on_channel_down(void *ctx, void *cookie, uint32_t channel, const char *why)
{
	(void)ctx;
	ck_assert_ptr_eq(cookie, seen.session_cookie);
	seen.downs++;
	seen.channel = channel;
	(void)snprintf(seen.why, sizeof(seen.why), "%s", why);
}

static void on_channel_connected(void *ctx, void *cookie, uint32_t channel, int err,
				 const char *text, const struct fabric_qp_info *ours)
{
	(void)ctx;
	ck_assert_ptr_eq(cookie, seen.session_cookie);
	seen.connected++;
	seen.channel = channel;
	seen.err = err;
	(void)snprintf(seen.text, sizeof(seen.text), "%s", text);
	if (!err)
		seen.ours = *ours;
}

static void on_mr_registered(void *ctx, void *cookie, int err, const char *text,
			     const struct fabric_key *key)
{
	(void)ctx;
	(void)cookie;
	ck_assert_msg(!err || !seen.all_succeed, "%s", text);
	seen.registered++;
	seen.err = err;
	(void)snprintf(seen.text, sizeof(seen.text), "%s", text);
	if (!err)
		seen.key = *key;
}

static void on_mr_deregistered(void *ctx, void *cookie)
{
	(void)ctx;
	(void)cookie;
	ck_assert_uint_eq(seen.closed, 0);
	seen.deregistered++;
}

static void on_session_closed(void *ctx, void *cookie)
{
	(void)ctx;
	ck_assert_ptr_eq(cookie, seen.session_cookie);
	seen.closed++;
}

static void on_device_removed(void *ctx, unsigned endpoint)
{
	(void)ctx;
	seen.removed++;
	seen.removed_endpoint = endpoint;
}

static void on_endpoint_event(void *ctx, unsigned endpoint, const char *text)
{
	(void)ctx;
	ck_assert_str_ne(text, "");
	seen.events++;
	seen.event_endpoint = endpoint;
	(void)snprintf(seen.event_text, sizeof(seen.event_text), "%s", text);
}

static void on_notified(void *ctx, void *session_cookie, void *cookie, uint32_t value,
			uint32_t lost)
{
	uint64_t until_ms = clock_now_ms() + seen.notified_ms;

	(void)ctx;
	(void)cookie;
	ck_assert_ptr_eq(session_cookie, seen.session_cookie);
	ck_assert(lost == 0 || !seen.all_succeed);
	while (clock_now_ms() < until_ms)
		(void)sched_yield();
	seen.notified++;
	seen.value = value;
	seen.lost = lost;
}

static void on_access_refused(void *ctx, void *session_cookie, uint64_t n)
{
	(void)ctx;
	ck_assert_ptr_eq(session_cookie, seen.session_cookie);
	ck_assert_uint_gt(n, 0);
	seen.refused += (unsigned)n;
}

struct fabric_server_events server_events = {
	.channel_up = on_channel_up,
	.channel_down = on_channel_down,
	.channel_connected = on_channel_connected,
	.mr_registered = on_mr_registered,
	.mr_deregistered = on_mr_deregistered,
	.session_closed = on_session_closed,
	.device_removed = on_device_removed,
	.endpoint_event = on_endpoint_event,
	.notified = on_notified,
	.access_refused = on_access_refused,
};

MODULAR struct inband_request inband_make(uint32_t op, uint64_t offset, uint32_t bytes,
					  uint64_t cookie)
{
	return (struct inband_request){
		.op = htole16((uint16_t)op),
		.flags = htole16((uint16_t)(op >> 16)),
		.bytes = htole32(bytes),
		.rkey = htole64(seen.key.rkey),
		.addr = htole64(seen.key.addr + offset),
		.cookie = htole64(cookie),
		.operands = { .source_rkey = htole64(seen.key.rkey),
			      .source_addr = htole64(seen.key.addr),
			      .operand = 0x7777777777777777 },
	};
}

bool bytes_equal(const char *from, size_t bytes, char value)
{
	for (size_t i = 0; i < bytes; i++)
		if (from[i] != value)
			return false;
	return true;
}
