/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"

#define PAGE 4096u

/* Whether the server under test does them; without, every attempt is refused by name. */
static bool stage_has_inband(void)
{
	return (stage_endpoint()->flags & FABRIC_ENDPOINT_INBAND) != 0;
}

/* ---- requests ---- */

static struct wr ranged(enum fabric_opcode opcode, const struct lent *lent,
			int64_t offset, uint32_t bytes)
{
	return (struct wr){
		.opcode = opcode,
		.bytes = bytes,
		.remote_addr = lent->key.addr + (uint64_t)offset,
		.rkey = lent->key.rkey,
	};
}

static struct wr ping(void)
{
	return (struct wr){ .opcode = FABRIC_PING };
}

static struct wr fill(const struct lent *lent, int64_t offset, uint32_t bytes,
		      uint64_t pattern)
{
	struct wr wr = ranged(FABRIC_FILL, lent, offset, bytes);

	wr.request.pattern = pattern;
	return wr;
}

static struct wr copy(const struct lent *to, int64_t offset, const struct lent *from,
		      int64_t from_offset, uint32_t bytes)
{
	struct wr wr = ranged(FABRIC_COPY, to, offset, bytes);

	wr.request.source.addr = from->key.addr + (uint64_t)from_offset;
	wr.request.source.rkey = from->key.rkey;
	return wr;
}

static struct wr crc(const struct lent *lent, int64_t offset, uint32_t bytes,
		     uint32_t *result)
{
	struct wr wr = ranged(FABRIC_CRC, lent, offset, bytes);

	wr.addr = result;
	return wr;
}

static struct wr notify(const struct lent *lent, int64_t offset, uint32_t value)
{
	struct wr wr = ranged(FABRIC_NOTIFY, lent, offset, 0);

	wr.request.value = value;
	return wr;
}

/* ---- what every case has ---- */

struct scene {
	struct party *party;
	struct fabric_channel *channel;
	struct lent *lent, *other;
};

static struct scene scene_open(size_t bytes, unsigned rights, unsigned other_rights)
{
	struct scene scene = { .party = party_new() };

	scene.channel = party_connect(scene.party, STAGE_DEPTH);
	scene.lent = lent_new(scene.party, bytes, rights);
	scene.other = lent_new(scene.party, bytes, other_rights);
	return scene;
}

static void scene_close(struct scene *scene)
{
	channel_free(scene->channel);
	lent_free(scene->lent);
	lent_free(scene->other);
	party_free(scene->party);
}

static int run(struct scene *scene, struct wr wr)
{
	return op_run(scene->party, scene->channel, wr);
}

START_TEST(inband__is_there_or_refused_by_name)
{
	struct scene scene = scene_open(PAGE, RW, RW);
	struct fabric_domain *domain = scene.party->domain;
	struct wr wr = ping();

	if (stage_has_inband()) {
		ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_INBAND), 0);
		for (unsigned i = 0; i < 100; i++)
			ck_assert_int_eq(run(&scene, wr), 0);
	} else {
		ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_INBAND),
				 -ENOTSUP);
		ck_assert_msg(strstr(err_text(), "in-band requests"), "%s", err_text());
		ck_assert_int_eq(wr_post(CLIENT, scene.channel, &wr, 1), -ENOTSUP);
	}
	scene_close(&scene);
}
END_TEST

/* ---- what they do ---- */

START_TEST(fill__puts_the_pattern_there_and_nowhere_else)
{
	static const uint32_t sizes[] = { 1, 2, 7, 8, 9, 15, 16, 100, 4095, 262144 };
	const unsigned char raw[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct scene scene = scene_open(FABRIC_INBAND_BYTES_MAX + 16, RW, RW);
	uint64_t pattern;
	char *expected;

	memcpy(&pattern, raw, sizeof(raw));
	for (unsigned i = 0; stage_has_inband() && i < 10; i++) {
		for (unsigned at = 0; at < 9; at++) {
			size_t start =
				(size_t)(scene.lent->addr - scene.lent->map) + at;

			expected = lent_snapshot(scene.lent);
			for (uint32_t k = 0; k < sizes[i]; k++)
				expected[start + k] = (char)raw[k % 8];
			ck_assert_int_eq(
				run(&scene, fill(scene.lent, at, sizes[i], pattern)),
				0);
			ck_assert(lent_unchanged(scene.lent, expected));
			free(expected);
		}
	}
	scene_close(&scene);
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
	struct scene scene = scene_open(FABRIC_INBAND_BYTES_MAX, FABRIC_RIGHT_WRITE,
					FABRIC_RIGHT_READ);
	char *source = lent_snapshot(scene.other), *expected;

	for (unsigned i = 0; stage_has_inband() && i < 7; i++) {
		size_t start =
			(size_t)(scene.lent->addr - scene.lent->map + cases[i].to);

		expected = lent_snapshot(scene.lent);
		memcpy(expected + start, scene.other->addr + cases[i].from,
		       cases[i].bytes);
		ck_assert_int_eq(run(&scene, copy(scene.lent, cases[i].to, scene.other,
						  cases[i].from, cases[i].bytes)),
				 0);
		ck_assert(lent_unchanged(scene.lent, expected));
		free(expected);
	}
	ck_assert(lent_unchanged(scene.other, source));
	free(source);
	scene_close(&scene);
}
END_TEST

START_TEST(crc__is_that_of_the_bytes)
{
	static const uint32_t sizes[] = { 1, 7, 8, 4096, 12288, 262143 };
	struct scene scene =
		scene_open(FABRIC_INBAND_BYTES_MAX + 8, FABRIC_RIGHT_READ, RW);
	char *before = lent_snapshot(scene.lent);

	for (unsigned i = 0; stage_has_inband() && i < 6; i++) {
		uint32_t expected = crc32c_portable(0, scene.lent->addr + i, sizes[i]);
		uint32_t result = ~expected;

		ck_assert_int_eq(run(&scene, crc(scene.lent, i, sizes[i], &result)), 0);
		ck_assert_uint_eq(result, expected);
	}
	ck_assert(lent_unchanged(scene.lent, before));
	free(before);
	scene_close(&scene);
}
END_TEST

/* Behind each other on one channel they take effect in their order, reads and writes
 * between them too. */
START_TEST(requests__take_effect_in_the_order_of_their_channel)
{
	enum { ROUNDS = 64 };
	struct scene scene = scene_open(PAGE, RW, RW);
	struct local *local = local_new(scene.party, PAGE);
	uint32_t results[ROUNDS], expected[ROUNDS];
	char bytes[PAGE];

	for (unsigned i = 0; stage_has_inband() && i < ROUNDS; i++) {
		struct wr wrs[3] = {
			op_make(FABRIC_WRITE, local, 0, scene.lent, 0, 512),
			fill(scene.lent, 256, 512, i * UINT64_C(0x0101010101010101)),
			crc(scene.lent, 0, 1024, &results[i]),
		};

		memset(local->addr, (int)i + 100, 512);
		memcpy(bytes, scene.lent->addr, 1024);
		memset(bytes, (int)i + 100, 256);
		memset(bytes + 256, (int)i, 512);
		expected[i] = crc32c(0, bytes, 1024);
		for (unsigned k = 0; k < 3; k++)
			wrs[k].cookie = k;
		op_post(scene.channel, wrs, 3);
		for (unsigned k = 0; k < 3; k++) {
			struct wc wc = op_await(scene.party);

			ck_assert_int_eq(wc.status, 0);
			ck_assert_uint_eq(wc.cookie, k);
		}
		ck_assert_uint_eq(results[i], expected[i]);
	}
	local_free(local);
	scene_close(&scene);
}
END_TEST

/* More than there are credits for, all at once. */
START_TEST(requests__come_back_each_however_many_there_are)
{
	enum { MANY = 2000 };
	struct scene scene = scene_open(PAGE, RW, RW);
	uint32_t expected = crc32c(0, scene.lent->addr, PAGE), results[MANY];
	unsigned posted = 0, done = 0;

	while (stage_has_inband() && done < MANY) {
		struct wr wr = crc(scene.lent, 0, PAGE, &results[posted % MANY]);
		int taken = 0;

		wr.cookie = posted;
		if (posted < MANY && posted - done < CLIENT->inband_max &&
		    posted - done < STAGE_DEPTH)
			taken = wr_post(CLIENT, scene.channel, &wr, 1);
		ck_assert_int_ge(taken, 0);
		posted += (unsigned)taken;
		if (taken == 0) {
			struct wc wc = op_await(scene.party);

			ck_assert_int_eq(wc.status, 0);
			ck_assert_uint_eq(wc.cookie, done);
			ck_assert_uint_eq(results[done++], expected);
		}
	}
	scene_close(&scene);
}
END_TEST

/* ---- notifications ---- */

START_TEST(notify__comes_after_the_write_before_it)
{
	struct scene scene = scene_open(PAGE, RW, RW);
	struct local *local = local_new(scene.party, PAGE);

	for (uint32_t i = 1; stage_has_inband() && i <= 200; i++) {
		struct wr wrs[2] = {
			op_make(FABRIC_WRITE, local, 0, scene.lent, 0, PAGE),
			notify(scene.lent, PAGE - 1, i),
		};

		memset(local->addr, (int)i, PAGE);
		op_post(scene.channel, wrs, 2);
		lent_await_notes(scene.lent, i);
		ck_assert_uint_eq(scene.lent->note, i);
		/* what the server's loop saw when it was told */
		ck_assert_int_eq(scene.lent->note_first, (char)i);
		ck_assert_int_eq(scene.lent->note_last, (char)i);
		for (unsigned k = 0; k < 2; k++)
			ck_assert_int_eq(op_await(scene.party).status, 0);
	}
	ck_assert_uint_eq(scene.lent->lost, 0);
	ck_assert_uint_eq(scene.other->notes, 0);
	local_free(local);
	scene_close(&scene);
}
END_TEST

struct flood {
	struct scene scene;
	unsigned n;
};

/* The loop is in here, so nothing is delivered meanwhile. */
static void call_flood(void *arg)
{
	struct flood *flood = arg;

	for (unsigned i = 0; i < flood->n; i++)
		ck_assert_int_eq(run(&flood->scene, notify(flood->scene.lent, 0, i)),
				 0);
}

START_TEST(notify__of_a_flood_keeps_the_latest_and_counts_the_others)
{
	struct flood flood = { scene_open(PAGE, RW, RW),
			       FABRIC_NOTIFICATIONS_MAX + 100 };
	struct lent *lent = flood.scene.lent;

	if (stage_has_inband()) {
		stage_call(call_flood, &flood);
		lent_await_notes(lent, FABRIC_NOTIFICATIONS_MAX + 100);
		ck_assert_uint_eq(lent->notes, FABRIC_NOTIFICATIONS_MAX);
		ck_assert_uint_eq(lent->note, flood.n - 1);
		ck_assert_uint_eq(lent->lost, 100);
		/* and then there is room again */
		ck_assert_int_eq(run(&flood.scene, notify(lent, 0, 7)), 0);
		lent_await_notes(lent, FABRIC_NOTIFICATIONS_MAX + 101);
		ck_assert_uint_eq(lent->note, 7);
	}
	scene_close(&flood.scene);
}
END_TEST

/* ---- what is refused ---- */

/* Every way to name memory that the session may not use so. */
START_TEST(requests__reach_only_what_they_may)
{
	static const unsigned rights[] = { 0, FABRIC_RIGHT_READ, FABRIC_RIGHT_WRITE,
					   RW };
	struct scene scene = scene_open(PAGE, rights[_i], rights[_i]);
	bool read = rights[_i] & FABRIC_RIGHT_READ,
	     write = rights[_i] & FABRIC_RIGHT_WRITE;
	struct lent *all = lent_new(scene.party, PAGE, RW);
	char *before = lent_snapshot(scene.lent);
	uint32_t result = 77;

	if (stage_has_inband()) {
		ck_assert_int_eq(run(&scene, crc(scene.lent, 0, PAGE, &result)),
				 read ? 0 : -EACCES);
		ck_assert(read || result == 77);
		ck_assert_int_eq(run(&scene, copy(all, 0, scene.lent, 0, PAGE)),
				 read ? 0 : -EACCES);
		ck_assert(lent_unchanged(scene.lent, before));
		ck_assert_int_eq(run(&scene, notify(scene.lent, 0, 1)),
				 write ? 0 : -EACCES);
		/* the stage looks at the range when it is told */
		if (write)
			lent_await_notes(scene.lent, 1);
		ck_assert_int_eq(run(&scene, copy(scene.lent, 0, all, 0, PAGE)),
				 write ? 0 : -EACCES);
		ck_assert_int_eq(run(&scene, fill(scene.lent, 0, PAGE, 1)),
				 write ? 0 : -EACCES);
		ck_assert(write || lent_unchanged(scene.lent, before));
		ck_assert(!write || !lent_unchanged(scene.lent, before));
		/* the channel is none the worse for it */
		ck_assert_int_eq(run(&scene, ping()), 0);
		ck_assert_uint_eq(scene.lent->notes, write ? 1 : 0);
	}
	free(before);
	lent_free(all);
	scene_close(&scene);
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
	struct scene scene = scene_open(PAGE, RW, RW);
	char *before = lent_snapshot(scene.lent), *other = lent_snapshot(scene.other);
	uint32_t result;

	for (unsigned i = 0; stage_has_inband() && i < 9; i++) {
		int64_t at = outside[i].offset;
		uint32_t bytes = outside[i].bytes;

		ck_assert_int_eq(run(&scene, fill(scene.lent, at, bytes, 1)), -EACCES);
		ck_assert_int_eq(run(&scene, crc(scene.lent, at, bytes, &result)),
				 -EACCES);
		ck_assert_int_eq(
			run(&scene, copy(scene.lent, at, scene.other, 0, bytes)),
			-EACCES);
		ck_assert_int_eq(
			run(&scene, copy(scene.lent, 0, scene.other, at, bytes)),
			-EACCES);
	}
	if (stage_has_inband()) {
		ck_assert_int_eq(run(&scene, notify(scene.lent, PAGE + 1, 1)), -EACCES);
		ck_assert_int_eq(run(&scene, notify(scene.lent, -1, 1)), -EACCES);
	}
	ck_assert(lent_unchanged(scene.lent, before));
	ck_assert(lent_unchanged(scene.other, other));
	ck_assert_uint_eq(scene.lent->notes, 0);
	free(before);
	free(other);
	scene_close(&scene);
}
END_TEST

START_TEST(requests__with_another_sessions_key_are_refused)
{
	struct scene scene = scene_open(PAGE, RW, RW);
	struct party *owner = party_new();
	struct lent *theirs = lent_new(owner, PAGE, RW);
	char *before = lent_snapshot(theirs), *mine = lent_snapshot(scene.lent);
	uint32_t result;

	if (stage_has_inband()) {
		ck_assert_int_eq(run(&scene, fill(theirs, 0, 8, 1)), -EACCES);
		ck_assert_int_eq(run(&scene, crc(theirs, 0, 8, &result)), -EACCES);
		ck_assert_int_eq(run(&scene, notify(theirs, 0, 1)), -EACCES);
		ck_assert_int_eq(run(&scene, copy(theirs, 0, scene.lent, 0, 8)),
				 -EACCES);
		ck_assert_int_eq(run(&scene, copy(scene.lent, 0, theirs, 0, 8)),
				 -EACCES);
	}
	ck_assert(lent_unchanged(theirs, before));
	ck_assert(lent_unchanged(scene.lent, mine));
	ck_assert_uint_eq(theirs->notes, 0);
	free(before);
	free(mine);
	lent_free(theirs);
	party_free(owner);
	scene_close(&scene);
}
END_TEST

/* ---- the end of what they work on ---- */

/* Fills, as many as may be outstanding, until `stop` is true of what is done. */
static unsigned fills_keep_up(struct scene *scene, unsigned outstanding)
{
	struct wr wr = fill(scene->lent, 0, FABRIC_INBAND_BYTES_MAX, 0);

	while (outstanding < 4) {
		int taken = wr_post(CLIENT, scene->channel, &wr, 1);

		if (taken <= 0)
			break;
		outstanding += (unsigned)taken;
	}
	return outstanding;
}

START_TEST(withdrawn__nothing_works_on_the_range)
{
	struct scene scene = scene_open(FABRIC_INBAND_BYTES_MAX, RW, RW);
	unsigned outstanding = 0, refused = 0;
	char *before;

	for (unsigned done = 0; stage_has_inband() && done < 20; done++) {
		outstanding = fills_keep_up(&scene, outstanding);
		ck_assert_int_eq(op_await(scene.party).status, 0);
		outstanding--;
	}
	outstanding = fills_keep_up(&scene, outstanding);
	lent_withdraw_start(scene.lent);
	lent_await_withdrawn(scene.lent);
	/* from here on nobody but us touches it */
	memset(scene.lent->addr, 0x5a, scene.lent->bytes);
	before = lent_snapshot(scene.lent);
	while (stage_has_inband() && refused < 20) {
		outstanding = fills_keep_up(&scene, outstanding);
		refused += op_await(scene.party).status == -EACCES;
		outstanding--;
	}
	for (; outstanding > 0; outstanding--)
		ck_assert_int_eq(op_await(scene.party).status, -EACCES);
	ck_assert(lent_unchanged(scene.lent, before));
	free(before);
	scene_close(&scene);
}
END_TEST

struct closing {
	struct scene *scene;
	uint32_t channel;
	bool session;
};

static void call_close(void *arg)
{
	struct closing *closing = arg;
	struct scene *scene = closing->scene;

	ck_assert_int_eq(SERVER->channel_close(scene->party->session, closing->channel),
			 0);
	/* on its return nothing of it is applied any more */
	memset(scene->lent->addr, 0x5a, scene->lent->bytes);
}

START_TEST(channel_close__leaves_nothing_that_is_applied_later)
{
	struct scene scene = scene_open(FABRIC_INBAND_BYTES_MAX, RW, RW);
	struct closing closing = { .scene = &scene };
	unsigned outstanding = 0;
	char *after;

	for (unsigned done = 0; stage_has_inband() && done < 20; done++) {
		outstanding = fills_keep_up(&scene, outstanding);
		ck_assert_int_eq(op_await(scene.party).status, 0);
		outstanding--;
	}
	outstanding = fills_keep_up(&scene, outstanding);
	closing.channel = scene.party->next_channel;
	stage_call(call_close, &closing);
	after = lent_snapshot(scene.lent);
	/* the news of it may be lost on the way, and a request that the server has taken is
	 * waited for */
	CLIENT->abort(scene.channel);
	for (; outstanding > 0; outstanding--)
		(void)op_await(scene.party);
	ck_assert(lent_unchanged(scene.lent, after));
	ck_assert(!stage_has_inband() ||
		  stage_all(scene.lent->addr, scene.lent->bytes, 0x5a));
	free(after);
	scene_close(&scene);
}
END_TEST

void inband_cases(TCase *tcase)
{
	tcase_add_test(tcase, inband__is_there_or_refused_by_name);
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
	tcase_add_test(tcase, withdrawn__nothing_works_on_the_range);
	tcase_add_test(tcase, channel_close__leaves_nothing_that_is_applied_later);
}
