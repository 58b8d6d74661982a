/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"

START_TEST(rights__are_enforced)
{
	static const unsigned rights[] = { 0, FABRIC_RIGHT_READ, FABRIC_RIGHT_WRITE,
					   RW };
	struct scene s = scene_open(4096, rights[_i], 8192);
	char *before = remote_snapshot(s.remote);
	struct wr wr = scene_op(&s, FABRIC_READ, 100, 0, 4096);

	/* where writes are confirmed by a read, the right to write includes the right to read;
	 * siw reads without any right from all memory of the session */
	if ((rights[_i] & FABRIC_RIGHT_READ) || stage_confirms()) {
		ck_assert_int_eq(scene_run(&s, wr), 0);
		ck_assert(memcmp(s.local->addr + 100, s.remote->addr, 4096) == 0);
	} else {
		scene_run_refused(&s, wr);
		ck_assert(stage_all(s.local->addr, s.local->bytes, 0));
	}
	memset(s.local->addr, 0x5a, s.local->bytes);
	wr.opcode = FABRIC_WRITE;
	if (rights[_i] & FABRIC_RIGHT_WRITE) {
		ck_assert_int_eq(scene_run(&s, wr), 0);
		ck_assert(memcmp(s.local->addr, s.remote->addr, 4096) == 0);
	} else {
		scene_run_refused(&s, wr);
		ck_assert(remote_unchanged(s.remote, before));
	}
	free(before);
	scene_close(&s);
}
END_TEST

START_TEST(rkey__is_valid_in_its_session_only)
{
	struct scene owner = scene_open(4096, RW, 4096);
	struct scene thief = scene_open(4096, RW, 4096);
	char *before = remote_snapshot(owner.remote);

	scene_run_refused(&thief,
			  op_make(FABRIC_READ, thief.local, 0, owner.remote, 0, 64));
	ck_assert(stage_all(thief.local->addr, thief.local->bytes, 0));
	scene_run_refused(&thief,
			  op_make(FABRIC_WRITE, thief.local, 0, owner.remote, 0, 64));
	scene_run_refused(&thief,
			  op_make(FABRIC_WRITE, thief.local, 0, owner.remote, 8, 8));
	ck_assert(remote_unchanged(owner.remote, before));
	/* both sessions still work */
	ck_assert_int_eq(scene_run(&thief, scene_op(&thief, FABRIC_READ, 0, 0, 64)), 0);
	ck_assert_int_eq(scene_run(&owner, scene_op(&owner, FABRIC_WRITE, 0, 0, 64)),
			 0);
	free(before);
	scene_close(&thief);
	scene_close(&owner);
}
END_TEST

START_TEST(bounds__hold_to_the_byte)
{
	static const struct {
		int64_t offset;
		uint32_t bytes;
	} outside[] = {
		{ -1, 1 },         { -1, 2 },         { -8, 8 },      { 4096, 1 },
		{ 4095, 2 },       { 0, 4097 },       { -1, 4097 },   { 4089, 8 },
		{ 1, 4096 },       { -1, 4098 },      { 1 << 20, 8 }, { -(1 << 20), 8 },
		{ INT64_MAX, 64 }, { INT64_MIN, 64 },
	};
	struct scene s = scene_open(4096, RW, 8192);
	char *before = remote_snapshot(s.remote);

	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		scene_run_refused(&s, scene_op(&s, FABRIC_WRITE, 0, outside[i].offset,
					       outside[i].bytes));
		ck_assert(remote_unchanged(s.remote, before));
		scene_run_refused(&s, scene_op(&s, FABRIC_READ, 0, outside[i].offset,
					       outside[i].bytes));
		/* over iWARP a short read has two parts, and one of them may be inside */
		ck_assert(stage_confirms() ||
			  stage_all(s.local->addr, s.local->bytes, 0));
	}
	/* at the end of the address space */
	scene_run_refused(&s, scene_op(&s, FABRIC_READ, 0,
				       (int64_t)(UINT64_MAX - s.remote->key.addr), 2));
	ck_assert_int_eq(scene_run(&s, scene_op(&s, FABRIC_READ, 0, 0, 4096)), 0);
	free(before);
	scene_close(&s);
}
END_TEST

START_TEST(remote__may_have_an_odd_length)
{
	struct scene s = scene_open(4099, RW, 8192);
	char *before;

	ck_assert_int_eq(scene_run(&s, scene_op(&s, FABRIC_WRITE, 1, 0, 4099)), 0);
	before = remote_snapshot(s.remote);
	scene_run_refused(&s, scene_op(&s, FABRIC_WRITE, 0, 4098, 2));
	scene_run_refused(&s, scene_op(&s, FABRIC_WRITE, 0, 4099, 1));
	ck_assert(remote_unchanged(s.remote, before));
	ck_assert_int_eq(scene_run(&s, scene_op(&s, FABRIC_WRITE, 0, 4098, 1)), 0);
	free(before);
	scene_close(&s);
}
END_TEST

void isolation_cases(TCase *tcase)
{
	tcase_add_loop_test(tcase, rights__are_enforced, 0, 4);
	tcase_add_test(tcase, rkey__is_valid_in_its_session_only);
	tcase_add_test(tcase, bounds__hold_to_the_byte);
	tcase_add_test(tcase, remote__may_have_an_odd_length);
}
