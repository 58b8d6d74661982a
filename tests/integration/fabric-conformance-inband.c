/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/modular.h"
#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"

#define PAGE 4096u

/* Whether the server has in-band requests; otherwise they are refused with a text. */
static bool stage_has_inband(void)
{
	return (stage_endpoint()->flags & FABRIC_ENDPOINT_INBAND) != 0;
}

/* ---- requests ---- */

MODULAR static struct wr ranged(enum fabric_opcode opcode, const struct remote *remote,
				int64_t offset, uint32_t bytes)
{
	return (struct wr){
		.opcode = opcode,
		.bytes = bytes,
		.remote_addr = remote->key.addr + (uint64_t)offset,
		.rkey = remote->key.rkey,
	};
}

static struct wr ping(void)
{
	return (struct wr){ .opcode = FABRIC_PING };
}

static struct wr fill(const struct remote *remote, int64_t offset, uint32_t bytes,
		      uint64_t pattern)
{
	struct wr wr = ranged(FABRIC_FILL, remote, offset, bytes);

	wr.request.pattern = pattern;
	return wr;
}

MODULAR static struct wr copy(const struct remote *to, int64_t offset,
			      const struct remote *from, int64_t from_offset,
			      uint32_t bytes)
{
	struct wr wr = ranged(FABRIC_COPY, to, offset, bytes);

	wr.request.source.addr = from->key.addr + (uint64_t)from_offset;
	wr.request.source.rkey = from->key.rkey;
	return wr;
}

static struct wr crc(const struct remote *remote, int64_t offset, uint32_t bytes,
		     uint32_t *result)
{
	struct wr wr = ranged(FABRIC_CRC, remote, offset, bytes);

	wr.addr = result;
	return wr;
}

static struct wr notify(const struct remote *remote, int64_t offset, uint32_t value)
{
	struct wr wr = ranged(FABRIC_NOTIFY, remote, offset, 0);

	wr.request.value = value;
	return wr;
}

struct ranges {
	struct party *party;
	struct fabric_channel *channel;
	struct remote *remote, *other;
};

static struct ranges ranges_open(size_t bytes, unsigned rights, unsigned other_rights)
{
	struct ranges ranges = { .party = party_new() };

	ranges.channel = party_connect(ranges.party, STAGE_DEPTH);
	ranges.remote = remote_new(ranges.party, bytes, rights);
	ranges.other = remote_new(ranges.party, bytes, other_rights);
	return ranges;
}

static void ranges_close(struct ranges *ranges)
{
	channel_free(ranges->channel);
	remote_free(ranges->remote);
	remote_free(ranges->other);
	party_free(ranges->party);
}

static int run(struct ranges *ranges, struct wr wr)
{
	return op_run(ranges->party, ranges->channel, wr);
}

START_TEST(inband__works_or_is_refused_with_a_text)
{
	struct ranges ranges = ranges_open(PAGE, RW, RW);
	struct fabric_domain *domain = ranges.party->domain;
	struct wr wr = ping();

	if (stage_has_inband()) {
		ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_INBAND), 0);
		for (unsigned i = 0; i < 100; i++)
			ck_assert_int_eq(run(&ranges, wr), 0);
	} else {
		ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_INBAND),
				 -ENOTSUP);
		ck_assert_msg(strstr(err_text(), "in-band requests"), "%s", err_text());
		ck_assert_int_eq(wr_post(CLIENT, ranges.channel, &wr, 1), -ENOTSUP);
	}
	ranges_close(&ranges);
}
END_TEST

/* ---- effects ---- */

START_TEST(fill__puts_the_pattern_there_and_nowhere_else)
{
	static const uint32_t sizes[] = { 1, 2, 7, 8, 9, 15, 16, 100, 4095, 262144 };
	const unsigned char raw[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct ranges ranges = ranges_open(FABRIC_INBAND_BYTES_MAX + 16, RW, RW);
	uint64_t pattern;
	char *expected;

	memcpy(&pattern, raw, sizeof(raw));
	for (unsigned i = 0; stage_has_inband() && i < 10; i++) {
		for (unsigned at = 0; at < 9; at++) {
			size_t start =
				(size_t)(ranges.remote->addr - ranges.remote->map) + at;

			expected = remote_snapshot(ranges.remote);
			for (uint32_t k = 0; k < sizes[i]; k++)
				expected[start + k] = (char)raw[k % 8];
			ck_assert_int_eq(run(&ranges, fill(ranges.remote, at, sizes[i],
							   pattern)),
					 0);
			ck_assert(remote_unchanged(ranges.remote, expected));
			free(expected);
		}
	}
	ranges_close(&ranges);
}
END_TEST

START_TEST(copy__moves_what_the_source_has)
{
	static const struct {
		int64_t to, from;
		uint32_t bytes;
	} cases[] = {
		{ 0, 0, 262144 }, { 1, 0, 1 },     { 0, 1, 8 },   { 8, 16, 8 },
		{ 3, 5, 4099 },   { 3, 3, 10001 }, { 64, 0, 64 },
	};
	struct ranges ranges = ranges_open(FABRIC_INBAND_BYTES_MAX, FABRIC_RIGHT_WRITE,
					   FABRIC_RIGHT_READ);
	char *source = remote_snapshot(ranges.other), *expected;

	for (unsigned i = 0; stage_has_inband() && i < 7; i++) {
		size_t start = (size_t)(ranges.remote->addr - ranges.remote->map +
					cases[i].to);

		expected = remote_snapshot(ranges.remote);
		memcpy(expected + start, ranges.other->addr + cases[i].from,
		       cases[i].bytes);
		ck_assert_int_eq(
			run(&ranges, copy(ranges.remote, cases[i].to, ranges.other,
					  cases[i].from, cases[i].bytes)),
			0);
		ck_assert(remote_unchanged(ranges.remote, expected));
		free(expected);
	}
	ck_assert(remote_unchanged(ranges.other, source));
	free(source);
	ranges_close(&ranges);
}
END_TEST

START_TEST(crc__is_that_of_the_bytes)
{
	static const uint32_t sizes[] = { 1, 7, 8, 4096, 12288, 262143 };
	struct ranges ranges =
		ranges_open(FABRIC_INBAND_BYTES_MAX + 8, FABRIC_RIGHT_READ, RW);
	char *before = remote_snapshot(ranges.remote);

	for (unsigned i = 0; stage_has_inband() && i < 6; i++) {
		uint32_t expected =
			crc32c_portable(0, ranges.remote->addr + i, sizes[i]);
		uint32_t result = ~expected;

		ck_assert_int_eq(run(&ranges, crc(ranges.remote, i, sizes[i], &result)),
				 0);
		ck_assert_uint_eq(result, expected);
	}
	ck_assert(remote_unchanged(ranges.remote, before));
	free(before);
	ranges_close(&ranges);
}
END_TEST

/* Requests on one channel take effect in their order, together with reads and writes. */
START_TEST(requests__take_effect_in_the_order_of_their_channel)
{
	enum { ROUNDS = 64 };
	struct ranges ranges = ranges_open(PAGE, RW, RW);
	struct local *local = local_new(ranges.party, PAGE);
	uint32_t results[ROUNDS], expected[ROUNDS];
	char bytes[PAGE];

	for (unsigned i = 0; stage_has_inband() && i < ROUNDS; i++) {
		struct wr wrs[3] = {
			op_make(FABRIC_WRITE, local, 0, ranges.remote, 0, 512),
			fill(ranges.remote, 256, 512, i * UINT64_C(0x0101010101010101)),
			crc(ranges.remote, 0, 1024, &results[i]),
		};

		memset(local->addr, (int)i + 100, 512);
		memcpy(bytes, ranges.remote->addr, 1024);
		memset(bytes, (int)i + 100, 256);
		memset(bytes + 256, (int)i, 512);
		expected[i] = crc32c(0, bytes, 1024);
		for (unsigned k = 0; k < 3; k++)
			wrs[k].cookie = k;
		op_post(ranges.channel, wrs, 3);
		for (unsigned k = 0; k < 3; k++) {
			struct wc wc = op_await(ranges.party);

			ck_assert_int_eq(wc.status, 0);
			ck_assert_uint_eq(wc.cookie, k);
		}
		ck_assert_uint_eq(results[i], expected[i]);
	}
	local_free(local);
	ranges_close(&ranges);
}
END_TEST

/* More requests than there are credits. */
START_TEST(requests__come_back_each_however_many_there_are)
{
	enum { MANY = 2000 };
	struct ranges ranges = ranges_open(PAGE, RW, RW);
	uint32_t expected = crc32c(0, ranges.remote->addr, PAGE), results[MANY];
	unsigned posted = 0, done = 0;

	while (stage_has_inband() && done < MANY) {
		struct wr wr = crc(ranges.remote, 0, PAGE, &results[posted % MANY]);
		int taken = 0;

		wr.cookie = posted;
		if (posted < MANY && posted - done < CLIENT->inband_max &&
		    posted - done < STAGE_DEPTH)
			taken = wr_post(CLIENT, ranges.channel, &wr, 1);
		ck_assert_int_ge(taken, 0);
		posted += (unsigned)taken;
		if (taken == 0) {
			struct wc wc = op_await(ranges.party);

			ck_assert_int_eq(wc.status, 0);
			ck_assert_uint_eq(wc.cookie, done);
			ck_assert_uint_eq(results[done++], expected);
		}
	}
	ranges_close(&ranges);
}
END_TEST

/* ---- notifications ---- */

START_TEST(notify__comes_after_the_write_before_it)
{
	struct ranges ranges = ranges_open(PAGE, RW, RW);
	struct local *local = local_new(ranges.party, PAGE);

	for (uint32_t i = 1; stage_has_inband() && i <= 200; i++) {
		struct wr wrs[2] = {
			op_make(FABRIC_WRITE, local, 0, ranges.remote, 0, PAGE),
			notify(ranges.remote, PAGE - 1, i),
		};

		memset(local->addr, (int)i, PAGE);
		op_post(ranges.channel, wrs, 2);
		remote_await_notes(ranges.remote, i);
		ck_assert_uint_eq(ranges.remote->note, i);
		/* the bytes that the server's loop saw at the notification */
		ck_assert_int_eq(ranges.remote->note_first, (char)i);
		ck_assert_int_eq(ranges.remote->note_last, (char)i);
		for (unsigned k = 0; k < 2; k++)
			ck_assert_int_eq(op_await(ranges.party).status, 0);
	}
	ck_assert_uint_eq(ranges.remote->lost, 0);
	ck_assert_uint_eq(ranges.other->notes, 0);
	local_free(local);
	ranges_close(&ranges);
}
END_TEST

struct flood {
	struct ranges ranges;
	unsigned n;
};

/* Runs on the loop thread, so no notification is delivered meanwhile. */
static void call_flood(void *arg)
{
	struct flood *flood = arg;

	for (unsigned i = 0; i < flood->n; i++)
		ck_assert_int_eq(
			run(&flood->ranges, notify(flood->ranges.remote, 0, i)), 0);
}

START_TEST(notify__of_a_flood_keeps_the_latest_and_counts_the_others)
{
	struct flood flood = { ranges_open(PAGE, RW, RW),
			       FABRIC_NOTIFICATIONS_MAX + 100 };
	struct remote *remote = flood.ranges.remote;
	uint32_t result;

	if (stage_has_inband()) {
		/* a channel that answers does not need the loop any more */
		ck_assert_int_eq(run(&flood.ranges, crc(remote, 0, PAGE, &result)), 0);
		stage_call(call_flood, &flood);
		remote_await_notes(remote, FABRIC_NOTIFICATIONS_MAX + 100);
		ck_assert_uint_eq(remote->notes, FABRIC_NOTIFICATIONS_MAX);
		ck_assert_uint_eq(remote->note, flood.n - 1);
		ck_assert_uint_eq(remote->lost, 100);
		/* then the queue has room again */
		ck_assert_int_eq(run(&flood.ranges, notify(remote, 0, 7)), 0);
		remote_await_notes(remote, FABRIC_NOTIFICATIONS_MAX + 101);
		ck_assert_uint_eq(remote->note, 7);
	}
	ranges_close(&flood.ranges);
}
END_TEST

/* ---- refusals ---- */

START_TEST(requests__reach_only_what_they_may)
{
	static const unsigned rights[] = { 0, FABRIC_RIGHT_READ, FABRIC_RIGHT_WRITE,
					   RW };
	struct ranges ranges = ranges_open(PAGE, rights[_i], rights[_i]);
	bool read = rights[_i] & FABRIC_RIGHT_READ,
	     write = rights[_i] & FABRIC_RIGHT_WRITE;
	struct remote *all = remote_new(ranges.party, PAGE, RW);
	char *before = remote_snapshot(ranges.remote);
	uint32_t result = 77;

	if (stage_has_inband()) {
		ck_assert_int_eq(run(&ranges, crc(ranges.remote, 0, PAGE, &result)),
				 read ? 0 : -EACCES);
		ck_assert(read || result == 77);
		ck_assert_int_eq(run(&ranges, copy(all, 0, ranges.remote, 0, PAGE)),
				 read ? 0 : -EACCES);
		ck_assert(remote_unchanged(ranges.remote, before));
		ck_assert_int_eq(run(&ranges, notify(ranges.remote, 0, 1)),
				 write ? 0 : -EACCES);
		/* the stage reads the range at the notification */
		if (write)
			remote_await_notes(ranges.remote, 1);
		ck_assert_int_eq(run(&ranges, copy(ranges.remote, 0, all, 0, PAGE)),
				 write ? 0 : -EACCES);
		ck_assert_int_eq(run(&ranges, fill(ranges.remote, 0, PAGE, 1)),
				 write ? 0 : -EACCES);
		ck_assert(write || remote_unchanged(ranges.remote, before));
		ck_assert(!write || !remote_unchanged(ranges.remote, before));
		/* the channel still works */
		ck_assert_int_eq(run(&ranges, ping()), 0);
		ck_assert_uint_eq(ranges.remote->notes, write ? 1 : 0);
	}
	free(before);
	remote_free(all);
	ranges_close(&ranges);
}
END_TEST

START_TEST(requests__stay_within_bounds)
{
	static const struct {
		int64_t offset;
		uint32_t bytes;
	} outside[] = {
		{ -1, 1 },        { -1, PAGE },     { PAGE, 1 },
		{ PAGE - 1, 2 },  { 0, PAGE + 1 },  { -4096, PAGE },
		{ INT64_MAX, 8 }, { INT64_MIN, 8 }, { -8, 16 },
	};
	struct ranges ranges = ranges_open(PAGE, RW, RW);
	char *before = remote_snapshot(ranges.remote),
	     *other = remote_snapshot(ranges.other);
	uint32_t result;

	for (unsigned i = 0; stage_has_inband() && i < 9; i++) {
		int64_t at = outside[i].offset;
		uint32_t bytes = outside[i].bytes;

		ck_assert_int_eq(run(&ranges, fill(ranges.remote, at, bytes, 1)),
				 -EACCES);
		ck_assert_int_eq(run(&ranges, crc(ranges.remote, at, bytes, &result)),
				 -EACCES);
		ck_assert_int_eq(
			run(&ranges, copy(ranges.remote, at, ranges.other, 0, bytes)),
			-EACCES);
		ck_assert_int_eq(
			run(&ranges, copy(ranges.remote, 0, ranges.other, at, bytes)),
			-EACCES);
	}
	if (stage_has_inband()) {
		ck_assert_int_eq(run(&ranges, notify(ranges.remote, PAGE + 1, 1)),
				 -EACCES);
		ck_assert_int_eq(run(&ranges, notify(ranges.remote, -1, 1)), -EACCES);
	}
	ck_assert(remote_unchanged(ranges.remote, before));
	ck_assert(remote_unchanged(ranges.other, other));
	ck_assert_uint_eq(ranges.remote->notes, 0);
	free(before);
	free(other);
	ranges_close(&ranges);
}
END_TEST

START_TEST(requests__with_another_sessions_key_are_refused)
{
	struct ranges ranges = ranges_open(PAGE, RW, RW);
	struct party *owner = party_new();
	struct remote *theirs = remote_new(owner, PAGE, RW);
	char *before = remote_snapshot(theirs), *mine = remote_snapshot(ranges.remote);
	uint32_t result;

	if (stage_has_inband()) {
		ck_assert_int_eq(run(&ranges, fill(theirs, 0, 8, 1)), -EACCES);
		ck_assert_int_eq(run(&ranges, crc(theirs, 0, 8, &result)), -EACCES);
		ck_assert_int_eq(run(&ranges, notify(theirs, 0, 1)), -EACCES);
		ck_assert_int_eq(run(&ranges, copy(theirs, 0, ranges.remote, 0, 8)),
				 -EACCES);
		ck_assert_int_eq(run(&ranges, copy(ranges.remote, 0, theirs, 0, 8)),
				 -EACCES);
	}
	ck_assert(remote_unchanged(theirs, before));
	ck_assert(remote_unchanged(ranges.remote, mine));
	ck_assert_uint_eq(theirs->notes, 0);
	free(before);
	free(mine);
	remote_free(theirs);
	party_free(owner);
	ranges_close(&ranges);
}
END_TEST

/* ---- the end of ranges, channels and sessions ---- */

/* Post fills up to the number that may be outstanding; returns that number. */
static unsigned fills_keep_up(struct ranges *ranges, unsigned outstanding)
{
	struct wr wr = fill(ranges->remote, 0, FABRIC_INBAND_BYTES_MAX, 0);

	while (outstanding < 4) {
		int taken = wr_post(CLIENT, ranges->channel, &wr, 1);

		if (taken <= 0)
			break;
		outstanding += (unsigned)taken;
	}
	return outstanding;
}

START_TEST(deregister__ends_requests_for_the_range)
{
	struct ranges ranges = ranges_open(FABRIC_INBAND_BYTES_MAX, RW, RW);
	unsigned outstanding = 0, refused = 0;
	char *before;

	for (unsigned done = 0; stage_has_inband() && done < 20; done++) {
		outstanding = fills_keep_up(&ranges, outstanding);
		ck_assert_int_eq(op_await(ranges.party).status, 0);
		outstanding--;
	}
	outstanding = fills_keep_up(&ranges, outstanding);
	remote_deregister(ranges.remote);
	remote_await_deregistered(ranges.remote);
	/* from here on no other thread may touch the memory */
	memset(ranges.remote->addr, 0x5a, ranges.remote->bytes);
	before = remote_snapshot(ranges.remote);
	while (stage_has_inband() && refused < 20) {
		outstanding = fills_keep_up(&ranges, outstanding);
		refused += op_await(ranges.party).status == -EACCES;
		outstanding--;
	}
	for (; outstanding > 0; outstanding--)
		ck_assert_int_eq(op_await(ranges.party).status, -EACCES);
	ck_assert(remote_unchanged(ranges.remote, before));
	free(before);
	ranges_close(&ranges);
}
END_TEST

struct closing {
	struct ranges *ranges;
	uint32_t channel;
	bool session;
};

static void call_close(void *arg)
{
	struct closing *closing = arg;
	struct ranges *ranges = closing->ranges;

	ck_assert_int_eq(
		SERVER->channel_close(ranges->party->session, closing->channel), 0);
	/* on return no request of the channel is executed any more */
	memset(ranges->remote->addr, 0x5a, ranges->remote->bytes);
}

START_TEST(channel_close__leaves_nothing_that_is_applied_later)
{
	struct ranges ranges = ranges_open(FABRIC_INBAND_BYTES_MAX, RW, RW);
	struct closing closing = { .ranges = &ranges };
	unsigned outstanding = 0;
	char *after;

	for (unsigned done = 0; stage_has_inband() && done < 20; done++) {
		outstanding = fills_keep_up(&ranges, outstanding);
		ck_assert_int_eq(op_await(ranges.party).status, 0);
		outstanding--;
	}
	outstanding = fills_keep_up(&ranges, outstanding);
	closing.channel = ranges.party->next_channel;
	stage_call(call_close, &closing);
	after = remote_snapshot(ranges.remote);
	/* the server's close may not reach the client, which waits for requests that the server
	 * has accepted */
	CLIENT->abort(ranges.channel);
	for (; outstanding > 0; outstanding--)
		(void)op_await(ranges.party);
	ck_assert(remote_unchanged(ranges.remote, after));
	ck_assert(!stage_has_inband() ||
		  stage_all(ranges.remote->addr, ranges.remote->bytes, 0x5a));
	free(after);
	ranges_close(&ranges);
}
END_TEST

void inband_cases(TCase *tcase)
{
	tcase_add_test(tcase, inband__works_or_is_refused_with_a_text);
	tcase_add_test(tcase, fill__puts_the_pattern_there_and_nowhere_else);
	tcase_add_test(tcase, copy__moves_what_the_source_has);
	tcase_add_test(tcase, crc__is_that_of_the_bytes);
	tcase_add_test(tcase, requests__take_effect_in_the_order_of_their_channel);
	tcase_add_test(tcase, requests__come_back_each_however_many_there_are);
	tcase_add_test(tcase, notify__comes_after_the_write_before_it);
	tcase_add_test(tcase,
		       notify__of_a_flood_keeps_the_latest_and_counts_the_others);
	tcase_add_loop_test(tcase, requests__reach_only_what_they_may, 0, 4);
	tcase_add_test(tcase, requests__stay_within_bounds);
	tcase_add_test(tcase, requests__with_another_sessions_key_are_refused);
	tcase_add_test(tcase, deregister__ends_requests_for_the_range);
	tcase_add_test(tcase, channel_close__leaves_nothing_that_is_applied_later);
}
