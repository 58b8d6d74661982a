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
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4096, rights[_i]);
	struct local *local = local_new(party, 8192);
	char *before = lent_snapshot(lent);
	struct wr wr = op_make(FABRIC_READ, local, 100, lent, 0, 4096);

	/* where writes are confirmed by a read, the one right brings the other; siw reads
	 * from whatever the session has, without any right */
	if ((rights[_i] & FABRIC_RIGHT_READ) || stage_confirms()) {
		ck_assert_int_eq(op_run(party, channel, wr), 0);
		ck_assert(memcmp(local->addr + 100, lent->addr, 4096) == 0);
	} else {
		channel = op_run_refused(party, channel, wr);
		ck_assert(stage_all(local->addr, local->bytes, 0));
	}
	memset(local->addr, 0x5a, local->bytes);
	wr.opcode = FABRIC_WRITE;
	if (rights[_i] & FABRIC_RIGHT_WRITE) {
		ck_assert_int_eq(op_run(party, channel, wr), 0);
		ck_assert(memcmp(local->addr, lent->addr, 4096) == 0);
	} else {
		channel = op_run_refused(party, channel, wr);
		ck_assert(lent_unchanged(lent, before));
	}
	free(before);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

START_TEST(key__works_in_its_session_alone)
{
	struct party *owner = party_new(), *thief = party_new();
	struct fabric_channel *owned = party_connect(owner, STAGE_DEPTH);
	struct fabric_channel *stolen = party_connect(thief, STAGE_DEPTH);
	struct lent *lent = lent_new(owner, 4096, RW);
	struct lent *other = lent_new(thief, 4096, RW);
	struct local *own_local = local_new(owner, 4096);
	struct local *local = local_new(thief, 4096);
	char *before = lent_snapshot(lent);

	stolen = op_run_refused(thief, stolen,
				op_make(FABRIC_READ, local, 0, lent, 0, 64));
	ck_assert(stage_all(local->addr, local->bytes, 0));
	stolen = op_run_refused(thief, stolen,
				op_make(FABRIC_WRITE, local, 0, lent, 0, 64));
	stolen = op_run_refused(thief, stolen,
				op_make(FABRIC_WRITE, local, 0, lent, 8, 8));
	ck_assert(lent_unchanged(lent, before));
	/* both carry on */
	ck_assert_int_eq(
		op_run(thief, stolen, op_make(FABRIC_READ, local, 0, other, 0, 64)), 0);
	ck_assert_int_eq(
		op_run(owner, owned, op_make(FABRIC_WRITE, own_local, 0, lent, 0, 64)),
		0);
	free(before);
	local_free(local);
	local_free(own_local);
	channel_free(owned);
	channel_free(stolen);
	lent_free(lent);
	lent_free(other);
	party_free(owner);
	party_free(thief);
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
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4096, RW);
	struct local *local = local_new(party, 8192);
	char *before = lent_snapshot(lent);

	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		channel = op_run_refused(party, channel,
					 op_make(FABRIC_WRITE, local, 0, lent,
						 outside[i].offset, outside[i].bytes));
		ck_assert(lent_unchanged(lent, before));
		channel = op_run_refused(party, channel,
					 op_make(FABRIC_READ, local, 0, lent,
						 outside[i].offset, outside[i].bytes));
		/* over iWARP short reads go in two parts, of which one may be inside */
		ck_assert(stage_confirms() || stage_all(local->addr, local->bytes, 0));
	}
	/* at the end of the address space */
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_READ, local, 0, lent,
					 (int64_t)(UINT64_MAX - lent->key.addr), 2));
	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_READ, local, 0, lent, 0, 4096)),
		0);
	free(before);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

START_TEST(exposure__may_be_odd_and_lie_at_odd_addresses)
{
	struct party *party = party_new();
	struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);
	struct lent *lent = lent_new(party, 4099, RW);
	struct local *local = local_new(party, 8192);
	char *before;

	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_WRITE, local, 1, lent, 0, 4099)),
		0);
	before = lent_snapshot(lent);
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_WRITE, local, 0, lent, 4098, 2));
	channel = op_run_refused(party, channel,
				 op_make(FABRIC_WRITE, local, 0, lent, 4099, 1));
	ck_assert(lent_unchanged(lent, before));
	ck_assert_int_eq(
		op_run(party, channel, op_make(FABRIC_WRITE, local, 0, lent, 4098, 1)),
		0);
	free(before);
	local_free(local);
	channel_free(channel);
	lent_free(lent);
	party_free(party);
}
END_TEST

void isolation_cases(TCase *tcase)
{
	tcase_add_loop_test(tcase, rights__are_enforced, 0, 4);
	tcase_add_test(tcase, key__works_in_its_session_alone);
	tcase_add_test(tcase, bounds__hold_to_the_byte);
	tcase_add_test(tcase, exposure__may_be_odd_and_lie_at_odd_addresses);
}
