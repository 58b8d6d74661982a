/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"

/* Whether the device has atomics; otherwise they are refused with its name. */
static bool stage_has_atomics(void)
{
	return (stage_endpoint()->flags & FABRIC_ENDPOINT_ATOMICS) != 0;
}

static struct wr cas(const struct local *local, const struct remote *remote,
		     int64_t offset, uint64_t compare, uint64_t operand)
{
	struct wr wr = op_make(FABRIC_CAS, local, 0, remote, offset, 8);

	wr.atomic = (struct fabric_atomic){ .compare = compare, .operand = operand };
	return wr;
}

static struct wr fetch_add(const struct local *local, const struct remote *remote,
			   int64_t offset, uint64_t operand)
{
	struct wr wr = op_make(FABRIC_FETCH_ADD, local, 0, remote, offset, 8);

	wr.atomic.operand = operand;
	return wr;
}

static uint64_t word_at(const char *addr)
{
	uint64_t word;

	memcpy(&word, addr, sizeof(word));
	return word;
}

static void word_set(char *addr, uint64_t word)
{
	memcpy(addr, &word, sizeof(word));
}

static struct scene words_open(unsigned rights)
{
	struct scene scene = scene_open(4096, rights, 4096);

	ck_assert_uint_eq((uintptr_t)scene.remote->addr % 8, 0);
	ck_assert_uint_eq(scene.remote->key.addr % 8, 0);
	return scene;
}

START_TEST(atomics__work_or_are_refused_with_the_device)
{
	struct scene scene = words_open(RW);
	struct fabric_domain *domain = scene.party->domain;
	struct wr wr = fetch_add(scene.local, scene.remote, 0, 1);

	if (stage_has_atomics()) {
		ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_ATOMICS),
				 0);
		ck_assert_int_eq(op_run(scene.party, scene.channel, wr), 0);
	} else {
		ck_assert_int_eq(CLIENT->domain_supports(domain, FABRIC_CAN_ATOMICS),
				 -ENOTSUP);
		ck_assert_msg(strstr(err_text(), CLIENT->domain_device(domain)) &&
				      strstr(err_text(), "has no atomics"),
			      "%s", err_text());
		ck_assert_int_eq(wr_post(CLIENT, scene.channel, &wr, 1), -ENOTSUP);
		/* the channel still works */
		ck_assert_int_eq(op_run(scene.party, scene.channel,
					op_make(FABRIC_READ, scene.local, 0,
						scene.remote, 0, 8)),
				 0);
	}
	scene_close(&scene);
}
END_TEST

START_TEST(cas__swaps_what_it_compares_and_tells_what_was_there)
{
	const uint64_t first = 0x1122334455667788u, second = 0x99aabbccddeeff00u;
	struct scene scene = words_open(RW);
	char *at = scene.remote->addr + 4088; /* the last word */
	char *before;

	if (stage_has_atomics()) {
		word_set(at, first);
		before = remote_snapshot(scene.remote);
		ck_assert_int_eq(
			op_run(scene.party, scene.channel,
			       cas(scene.local, scene.remote, 4088, first ^ 1, second)),
			0);
		ck_assert_uint_eq(word_at(scene.local->addr), first);
		ck_assert(remote_unchanged(scene.remote, before));
		free(before);
		ck_assert_int_eq(
			op_run(scene.party, scene.channel,
			       cas(scene.local, scene.remote, 4088, first, second)),
			0);
		ck_assert_uint_eq(word_at(scene.local->addr), first);
		ck_assert_uint_eq(word_at(at), second);
		/* the bytes after the old value are unchanged */
		ck_assert_uint_eq(word_at(scene.local->addr + 8), 0);
	}
	scene_close(&scene);
}
END_TEST

START_TEST(fetch_add__adds_modulo_two_to_the_64)
{
	struct scene scene = words_open(RW);
	char *at = scene.remote->addr + 8;

	if (stage_has_atomics()) {
		word_set(at, UINT64_MAX - 1);
		for (int64_t expected = -2; expected < 2; expected++) {
			ck_assert_int_eq(
				op_run(scene.party, scene.channel,
				       fetch_add(scene.local, scene.remote, 8, 1)),
				0);
			ck_assert_uint_eq(word_at(scene.local->addr),
					  (uint64_t)expected);
		}
		ck_assert_uint_eq(word_at(at), 2);
		ck_assert_int_eq(
			op_run(scene.party, scene.channel,
			       fetch_add(scene.local, scene.remote, 8, (uint64_t)-5)),
			0);
		ck_assert_uint_eq(word_at(at), (uint64_t)-3);
	}
	scene_close(&scene);
}
END_TEST

START_TEST(atomics__need_both_rights)
{
	static const unsigned rights[] = { 0, FABRIC_RIGHT_READ, FABRIC_RIGHT_WRITE };
	struct scene scene = words_open(rights[_i]);
	char *before = remote_snapshot(scene.remote);

	if (stage_has_atomics()) {
		scene.channel =
			op_run_refused(scene.party, scene.channel,
				       fetch_add(scene.local, scene.remote, 0, 1));
		scene.channel = op_run_refused(scene.party, scene.channel,
					       cas(scene.local, scene.remote, 0,
						   word_at(scene.remote->addr), 1));
		ck_assert(remote_unchanged(scene.remote, before));
		ck_assert_uint_eq(word_at(scene.local->addr), 0);
	}
	free(before);
	scene_close(&scene);
}
END_TEST

START_TEST(atomics__stay_within_bounds)
{
	static const int64_t outside[] = { -8, 4096, 1 << 20, INT64_MIN };
	struct scene scene = words_open(RW);
	char *before = remote_snapshot(scene.remote);

	for (size_t i = 0; i < 4 && stage_has_atomics(); i++) {
		scene.channel = op_run_refused(
			scene.party, scene.channel,
			fetch_add(scene.local, scene.remote, outside[i], 1));
		ck_assert(remote_unchanged(scene.remote, before));
	}
	free(before);
	scene_close(&scene);
}
END_TEST

START_TEST(atomics__need_a_multiple_of_8)
{
	struct scene scene = words_open(RW);

	for (int64_t offset = 1; offset < 8 && stage_has_atomics(); offset++) {
		struct wr wr = fetch_add(scene.local, scene.remote, offset, 1);

		ck_assert_int_eq(wr_post(CLIENT, scene.channel, &wr, 1), -EINVAL);
	}
	/* the channel still works */
	ck_assert_int_eq(
		op_run(scene.party, scene.channel,
		       op_make(FABRIC_READ, scene.local, 0, scene.remote, 0, 8)),
		0);
	scene_close(&scene);
}
END_TEST

START_TEST(key_of_another_session__does_not_take_atomics)
{
	struct scene owner = words_open(RW), thief = words_open(RW);
	char *before = remote_snapshot(owner.remote);

	if (stage_has_atomics()) {
		thief.channel =
			op_run_refused(thief.party, thief.channel,
				       fetch_add(thief.local, owner.remote, 0, 1));
		ck_assert(remote_unchanged(owner.remote, before));
	}
	free(before);
	scene_close(&thief);
	scene_close(&owner);
}
END_TEST

/* Atomics, reads and writes in one batch: executed in order, none lost, each old value at its
 * address. */
START_TEST(batch__of_everything_keeps_its_order)
{
	enum { N = 48 };
	struct scene scene = words_open(RW);
	struct wr wrs[N];

	if (stage_has_atomics()) {
		word_set(scene.remote->addr, 0);
		memset(scene.local->addr, 0, 4096);
		for (unsigned i = 0; i < N; i++) {
			if (i % 3 == 0)
				wrs[i] = fetch_add(scene.local, scene.remote, 0, 1);
			else
				wrs[i] =
					op_make(i % 3 == 1 ? FABRIC_WRITE : FABRIC_READ,
						scene.local, 8 * (i + 1), scene.remote,
						8 * (int64_t)(i + 1), 8);
			wrs[i].addr = scene.local->addr + 8 * (size_t)i;
			wrs[i].cookie = i;
			if (i % 3 == 1)
				word_set(wrs[i].addr, 1000 + i);
			else if (i % 3 == 2)
				/* read the word of the write before it */
				wrs[i].remote_addr -= 8;
		}
		op_post(scene.channel, wrs, N);
		for (unsigned i = 0; i < N; i++) {
			struct wc wc = op_await(scene.party);

			ck_assert_int_eq(wc.status, 0);
			ck_assert_uint_eq(wc.cookie, i);
		}
		for (unsigned i = 0; i < N; i++)
			ck_assert_uint_eq(word_at(scene.local->addr + 8 * (size_t)i),
					  i % 3 == 0 ? i / 3 : 1000 + i - (i % 3 == 2));
		ck_assert_uint_eq(word_at(scene.remote->addr), N / 3);
	}
	scene_close(&scene);
}
END_TEST

/* Two sessions add to one word, each with many outstanding operations. */
struct adder {
	struct scene scene;
	struct remote *remote;
	pthread_t thread;
};

enum { ADDS_DEPTH = 16 };

static void *adder_run(void *arg)
{
	struct adder *adder = arg;
	struct scene *scene = &adder->scene;
	const unsigned adds = stage_rounds(2000);
	unsigned posted = 0, done = 0;

	while (done < adds) {
		while (posted < adds && posted - done < ADDS_DEPTH) {
			struct wr wr = fetch_add(scene->local, adder->remote, 0, 1);

			wr.addr = scene->local->addr + 8 * (posted % ADDS_DEPTH);
			wr.cookie = posted++;
			op_post(scene->channel, &wr, 1);
		}
		ck_assert_int_eq(op_await(scene->party).status, 0);
		done++;
	}
	return NULL;
}

START_TEST(fetch_adds__of_two_channels_are_all_counted)
{
	struct scene base = words_open(RW);
	struct adder adders[2];

	if (stage_has_atomics()) {
		word_set(base.remote->addr, 0);
		for (unsigned i = 0; i < 2; i++) {
			struct party *party = party_new();

			adders[i] = (struct adder){ .scene = { .party = party } };
			adders[i].scene.channel = party_connect(party, STAGE_DEPTH);
			adders[i].scene.local = local_new(party, 4096);
			adders[i].remote = remote_share(party, base.remote);
		}
		for (unsigned i = 0; i < 2; i++)
			ck_assert_int_eq(pthread_create(&adders[i].thread, NULL,
							adder_run, &adders[i]),
					 0);
		for (unsigned i = 0; i < 2; i++)
			ck_assert_int_eq(pthread_join(adders[i].thread, NULL), 0);
		ck_assert_uint_eq(word_at(base.remote->addr), 2 * stage_rounds(2000));
		for (unsigned i = 0; i < 2; i++) {
			local_free(adders[i].scene.local);
			channel_free(adders[i].scene.channel);
			remote_free(adders[i].remote);
			party_free(adders[i].scene.party);
		}
	}
	scene_close(&base);
}
END_TEST

void atomic_cases(TCase *tcase)
{
	tcase_add_test(tcase, atomics__work_or_are_refused_with_the_device);
	tcase_add_test(tcase, cas__swaps_what_it_compares_and_tells_what_was_there);
	tcase_add_test(tcase, fetch_add__adds_modulo_two_to_the_64);
	tcase_add_loop_test(tcase, atomics__need_both_rights, 0, 3);
	tcase_add_test(tcase, atomics__stay_within_bounds);
	tcase_add_test(tcase, atomics__need_a_multiple_of_8);
	tcase_add_test(tcase, key_of_another_session__does_not_take_atomics);
	tcase_add_test(tcase, batch__of_everything_keeps_its_order);
	tcase_add_test(tcase, fetch_adds__of_two_channels_are_all_counted);
}
