/* SPDX-License-Identifier: BSD-3-Clause */
/* After a crash the next process restores the leases from the ledger. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "unit/rmemd/lease-stage.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/lease/origin.h"
#include "rmemd/state/ledger_value.h"
#include "rmemd/state/ledger.h"
#include "unit/borders.h"
#include "unit/unit.h"

#define ALL_MAX 100

static struct call one, two;
static unsigned lost;
static uint64_t lost_id;
static unsigned detached;
static char lost_why[64];
static bool tenant_gone, client_gone;

/* ---- a crash ---- */

static struct tenant *find_tenant(void *ctx, const char *name)
{
	(void)ctx;
	ck_assert_str_eq(name, "default");
	if (tenant_gone) {
		(void)err_set(-ENOMEM, "no memory for a tenant");
		return NULL;
	}
	tenant_ref(&stage_tenant);
	return &stage_tenant;
}

static struct lease_client *find_client(void *ctx, uint64_t session)
{
	(void)ctx;
	if (client_gone)
		return NULL;
	return session == 1 ? &stage_a : session == 2 ? &stage_b : NULL;
}

static void on_lost(void *ctx, uint64_t id, const char *name, const char *tenant,
		    const char *why)
{
	(void)ctx;
	if (tenant)
		ck_assert_str_eq(tenant, "default");
	else
		ck_assert_str_eq(name, "");
	lost_id = id;
	lost++;
	(void)snprintf(lost_why, sizeof(lost_why), "%s", why);
}

static void on_detached(void *ctx, uint64_t session, uint64_t lease)
{
	(void)ctx;
	(void)session;
	(void)lease;
	detached++;
}

/* The process dies and the next one starts: only the ledger's file and the pools stay. */
static int crash(void)
{
	const struct leases_restore with = { find_tenant, find_client, on_lost,
					     on_detached, NULL };
	const struct leases_events *events = stage_leases->events;
	int err;

	fake_fabric_close();
	leases_close(stage_leases);
	lease_client_destroy(&stage_a);
	lease_client_destroy(&stage_b);
	ck_assert_uint_eq(stage_tenant.refs, 1);
	ck_assert_uint_eq(stage_tenant.bytes + stage_tenant.n_leases +
				  stage_tenant.n_attachments + stage_tenant.n_sessions,
			  0);
	lease_client_init(&stage_a, 1, &stage_tenant);
	lease_client_set_origin(&stage_a, "a's program", "192.0.2.1:11");
	lease_client_init(&stage_b, 2, &stage_tenant);
	fake_pools_crash();
	stage_ledger = stage_ledger_again(stage_ledger);
	ck_assert_int_eq(leases_open(NULL, stage_ledger, &stage_slices, events, NULL, 7,
				     &stage_leases),
			 0);
	lost = detached = 0;
	err = leases_restore(stage_leases, &with);
	stage_connect(&stage_a, 0);
	stage_connect(&stage_b, 0);
	return err;
}

/* ---- the state of all leases ---- */

struct record {
	uint64_t id, owner, bytes, ttl_ms;
	uint32_t generation;
	enum wire_placement placement;
	int node;
	char name[64];
	char device[FABRIC_DEVICE_MAX];
	unsigned rights[2]; /* of both sessions; 0: not attached */
	bool watches[2];
	uint32_t sum; /* of its bytes */
	uint64_t creator;
	char client[64], peer[64];
};

MODULAR static uint32_t sum_of(const struct lease *lease)
{
	uint32_t sum = 1;

	for (unsigned i = 0; i < lease->n_segments; i++) {
		const struct segment *segment = lease->segments[i];
		const unsigned char *at = extent_addr(&segment->extent);

		for (uint64_t k = 0; k < segment->bytes; k++)
			sum = sum * 31 + at[k];
	}
	return sum;
}

static unsigned record_all(struct record *record)
{
	unsigned n = 0;

	list_for_each_entry(const struct lease, lease, &stage_leases->all, all) {
		struct record *it = &record[n++];

		ck_assert_uint_le(n, ALL_MAX);
		memset(it, 0, sizeof(*it));
		it->id = lease->id;
		it->owner = lease->owner ? lease->owner->id : 0;
		it->bytes = lease->bytes;
		it->ttl_ms = lease->due_ms;
		it->generation = lease->generation;
		it->placement = lease->placement;
		it->node = lease->node;
		(void)snprintf(it->name, sizeof(it->name), "%s",
			       lease->name ? lease->name : "");
		memcpy(it->device, lease->atomic_device.name, sizeof(it->device));
		it->sum = sum_of(lease);
		if (lease->creator) {
			it->creator = lease->creator->session;
			(void)snprintf(it->client, sizeof(it->client), "%s",
				       lease->creator->client);
			(void)snprintf(it->peer, sizeof(it->peer), "%s",
				       lease->creator->peer);
		}
		list_for_each_entry(const struct attachment, attachment,
				    &lease->attachments, in_lease) {
			uint64_t i = attachment->client->id - 1;

			it->rights[i] = attachment->rights;
			it->watches[i] = !list_empty(&attachment->watching);
		}
	}
	return n;
}

static void check_crash(void)
{
	static struct record before[ALL_MAX], after[ALL_MAX];
	uint64_t next_id = stage_leases->next_id;
	unsigned n;

	ledger_commit(stage_ledger);
	n = record_all(before);
	ck_assert_msg(crash() == 0, "%s", err_text());
	ck_assert_uint_eq(lost, 0);
	ck_assert_uint_eq(record_all(after), n);
	for (unsigned i = 0; i < n; i++)
		ck_assert_msg(memcmp(&before[i], &after[i], sizeof(before[i])) == 0,
			      "lease %" PRIu64 " has changed", before[i].id);
	if (n)
		ck_assert_uint_gt(stage_leases->next_id, before[n - 1].id);
	ck_assert_uint_le(stage_leases->next_id, next_id);
	ck_assert_uint_eq(stage_tenant.n_leases, n);
	fake_pools_check(stage_leases);
	ck_assert_uint_eq(stage_tenant.bytes, fake_pools_lent() * FAKE_PAGE);
	fake_pools_scrub();
}

static void fill(const struct lease *lease)
{
	for (unsigned i = 0; i < lease->n_segments; i++)
		memset(extent_addr(&lease->segments[i]->extent),
		       (int)(random() % 255 + 1), lease->segments[i]->bytes);
}

/* ---- tests ---- */

START_TEST(restore__keeps_all_attributes_of_a_lease)
{
	static const struct fabric_endpoint endpoint = {
		.kind = FABRIC_VERBS,
		.flags = FABRIC_ENDPOINT_ATOMICS,
		.device = "able0"
	};
	struct lease_atomic_device device;
	struct lease_status status;

	fake_pools_reset(5);
	(void)new_lease(&one, &stage_a, 10 * FAKE_PAGE + 3, "name");
	ck_assert_uint_gt(one.lease.n_segments, 1);
	ck_assert_int_eq(call_attach(&two, &stage_b, "name", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(lease_watch(stage_leases, &stage_b, one.lease.lease), 0);
	ck_assert_int_eq(
		lease_renew(stage_leases, &stage_a, one.lease.lease, 5000, false), 0);
	ck_assert_int_eq(lease_fix_atomic_device(stage_leases, &stage_a,
						 one.lease.lease, &endpoint, &device),
			 0);
	(void)new_lease(&two, &stage_b, 100, "");
	list_for_each_entry(struct lease, item, &stage_leases->all, all)
		fill(item);
	check_crash();
	check_crash();
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert(origin_is(status.creator, "a's program", "192.0.2.1:11"));
	ck_assert(stage_status(two.lease.lease, &status));
	ck_assert(origin_is(status.creator, "b's program", "[2001:db8::2]:22"));
	ck_assert_uint_eq(status.creator->session, 2);
	/* the clients get new keys, as after a fence */
	ck_assert_int_eq(call_rekey(&one, &stage_a, one.lease.lease), 0);
	ck_assert_uint_eq(one.lease.n_keys, one.lease.n_segments);
	ck_assert_int_eq(call_rekey(&two, &stage_b, two.lease.lease), 0);
	/* the deadline has not changed */
	stage_pass(4999);
	ck_assert_uint_eq(stage_expired, 0);
	stage_pass(1);
	ck_assert_uint_eq(stage_expired, 1);
}
END_TEST

/* Nor one whose texts may be shown. */
START_TEST(restore__needs_no_creator)
{
	static const struct {
		uint64_t session;
		const char *client, *peer;
	} creators[] = { { 0, "", "" }, { 7, "a\x1b[31m", "" }, { 7, "a", "\n" } };
	struct lease_head head = { .head_bytes = sizeof(head),
				   .creator = creators[_i].session };
	const struct ledger_key key = { LEDGER_LEASE, 5, 0 };
	char value[sizeof(head) + 128], *end = value;
	static struct lease_record record;

	end = value_add(end, &head, sizeof(head));
	end = value_add_text(end, "tenant", 32);
	end = value_add_text(end, "name", 32);
	if (head.creator) {
		end = value_add_text(end, creators[_i].client, 32);
		end = value_add_text(end, creators[_i].peer, 32);
	}
	ck_assert_int_eq(
		lease_record_decode(&key, value, (size_t)(end - value), &record), 0);
	ck_assert_str_eq(record.name, "name");
	ck_assert_ptr_null(record.creator);
}
END_TEST

START_TEST(restore__keeps_the_nodes_of_interleaved_leases)
{
	const struct lease_params params = { .bytes = 7 * FAKE_PAGE,
					     .placement = WIRE_PLACE_INTERLEAVE,
					     .node = -1,
					     .name = "striped" };
	struct lease_part before[WIRE_SEGMENTS_MAX], after[WIRE_SEGMENTS_MAX];
	struct lease_status status;
	unsigned n;

	/* single pages, the last of them on the other node */
	fake_pools_reset(2);
	(void)new_lease(&two, &stage_b, (FAKE_NODE_PAGES / 2 - 3) * FAKE_PAGE, "");
	send_allocate_with(&one, &stage_a, &params);
	fake_fabric_settle();
	ck_assert_int_eq(one.err, 0);
	ck_assert(stage_status(one.lease.lease, &status));
	n = lease_parts(&status, before);
	ck_assert_uint_eq(n, 2);
	ck_assert_int_eq(before[0].node, 0);
	ck_assert_uint_eq(before[0].bytes, 3 * FAKE_PAGE);
	ck_assert_uint_eq(before[1].bytes, 4 * FAKE_PAGE);
	check_crash();
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_int_eq((int)status.placement, (int)WIRE_PLACE_INTERLEAVE);
	ck_assert_uint_eq(lease_parts(&status, after), n);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(before[i].node, after[i].node);
		ck_assert_uint_eq(before[i].bytes, after[i].bytes);
	}
	/* a growth is interleaved, too */
	ck_assert_int_eq(call_rekey(&one, &stage_a, one.lease.lease), 0);
	ck_assert_int_eq(call_resize(&one, &stage_a, one.lease.lease, 9 * FAKE_PAGE),
			 0);
	ck_assert(fake_pools_wish()->interleave);
}
END_TEST

START_TEST(restore__drops_leases_not_granted_yet)
{
	send_allocate(&one, &stage_a, 1, "n");
	ck_assert_uint_eq(one.replies, 0);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(crash(), 0);
	ck_assert(list_empty(&stage_leases->all));
	fake_pools_check(stage_leases);
}
END_TEST

START_TEST(restore__drops_freed_leases)
{
	(void)new_lease(&one, &stage_a, 100, "n");
	ledger_commit(stage_ledger);
	/* its keys are still dying, and that its attachment has ended is not committed */
	send_free(&two, &stage_a, one.lease.lease);
	ck_assert_uint_eq(two.replies, 0);
	ck_assert_int_eq(crash(), 0);
	ck_assert(list_empty(&stage_leases->all));
	ck_assert_uint_eq(ledger_count(stage_ledger), 0);
}
END_TEST

/* A growth is recorded before its reply, a shrinking before the memory is touched. */
START_TEST(restore__has_the_recorded_size)
{
	uint64_t bytes = _i ? 20 * FAKE_PAGE : FAKE_PAGE + 5;
	struct lease_status status;

	(void)new_lease(&one, &stage_a, 10 * FAKE_PAGE, "n");
	ledger_commit(stage_ledger);
	send_resize(&two, &stage_a, one.lease.lease, bytes);
	ck_assert_uint_eq(two.replies, 0);
	ck_assert_int_eq(crash(), 0);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.bytes, _i ? 10 * FAKE_PAGE : bytes);
	fake_pools_check(stage_leases);
}
END_TEST

START_TEST(restore__reports_lost_leases_once)
{
	(void)new_lease(&one, &stage_a, 3 * FAKE_PAGE, _i == 0 ? "" : "n");
	ledger_commit(stage_ledger);
	client_gone = _i == 0;
	if (_i == 1)
		fake_pools_take_away(true);
	ck_assert_int_eq(crash(), 0);
	/* without its session an ephemeral lease ends, which is no loss */
	ck_assert_uint_eq(lost, (unsigned)_i);
	if (_i == 1)
		ck_assert_str_eq(lost_why, "the pool it was in is gone");
	ck_assert(list_empty(&stage_leases->all));
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(stage_tenant.bytes + stage_tenant.n_leases, 0);
	client_gone = false;
	fake_pools_take_away(false);
	/* so it is not reported again */
	ck_assert_uint_eq(ledger_count(stage_ledger), 0);
}
END_TEST

/* The next start may succeed. */
START_TEST(restore__without_memory_keeps_the_ledger)
{
	(void)new_lease(&one, &stage_a, 3 * FAKE_PAGE, "n");
	ledger_commit(stage_ledger);
	tenant_gone = true;
	ck_assert_int_eq(crash(), -ENOMEM);
	ck_assert_uint_eq(fake_pools_given(), 0);
	tenant_gone = false;
	ck_assert_int_eq(crash(), 0);
	ck_assert_uint_eq(stage_tenant.n_leases, 1);
}
END_TEST

#define RECORD_MAX 512
static const struct ledger_key record_key = { LEDGER_LEASE, 9000, 0 };

/* Encode the record of a lease "m" in one piece at this offset of the pool; returns its size. */
static size_t encode_bytes(unsigned char buf[RECORD_MAX], uint64_t offset,
			   uint64_t bytes)
{
	const struct lease_head head = { .head_bytes = sizeof(head),
					 .n_segments = 1,
					 .bytes = bytes };
	const struct segment_row row = {
		.offset = offset, .bytes = bytes, .dirty = bytes, .pool = 1
	};

	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), &row, sizeof(row));
	memcpy(buf + sizeof(head) + sizeof(row), "default\0m", 10);
	return sizeof(head) + sizeof(row) + 10;
}

static size_t encode_record(unsigned char buf[RECORD_MAX], uint64_t offset)
{
	return encode_bytes(buf, offset, 100);
}

/* Restore with this value in the ledger, twice: the second time nothing is lost. */
static void crash_with(const struct ledger_key *key, const void *value, size_t bytes,
		       unsigned n_lost)
{
	ck_assert_int_eq(ledger_put(stage_ledger, key, value, bytes), 0);
	ledger_commit(stage_ledger);
	ck_assert_msg(crash() == 0, "%s", err_text());
	ck_assert_uint_eq(lost, n_lost);
	fake_pools_check(stage_leases);
	check_crash();
}

START_TEST(restore__grants_no_lease_in_the_future)
{
	unsigned char value[RECORD_MAX];
	size_t bytes = encode_record(value, 0);
	struct lease_head head;
	struct lease_status status;

	memcpy(&head, value, sizeof(head));
	head.granted_ms = UINT64_MAX;
	memcpy(value, &head, sizeof(head));
	crash_with(&record_key, value, bytes, 0);
	ck_assert(leases_find_status(stage_leases, record_key.a, &status));
	ck_assert_uint_lt(status.age_ms, 60000);
}
END_TEST

/* Whose the memory is, is not known: both end, and no other. */
START_TEST(restore__ends_leases_with_the_same_memory)
{
	unsigned char value[RECORD_MAX];

	(void)new_lease(&one, &stage_a, 100, "n");
	(void)new_lease(&two, &stage_a, 100, "other");
	crash_with(&record_key, value, encode_record(value, 0), 2);
	ck_assert_str_eq(lost_why, "another lease has the same memory");
	ck_assert_uint_eq(stage_tenant.n_leases, 1);
	ck_assert_ptr_nonnull(leases_find_id(stage_leases, two.lease.lease));
}
END_TEST

/* A lease whose memory is not inside of its pool ends, wherever the record says that it is. */
START_TEST(restore__ends_a_lease_outside_of_its_pool)
{
	const uint64_t lengths[] = { FAKE_PAGES * FAKE_PAGE };
	const struct borders borders = { lengths, 1 };

	(void)new_lease(&one, &stage_a, 100, "n");
	for (unsigned i = 0; i < borders_count(&borders); i++) {
		unsigned char value[RECORD_MAX];
		uint64_t offset = border_at(&borders, i);
		size_t bytes = encode_record(value, offset);

		if (offset % FAKE_PAGE == 0 && offset < FAKE_PAGES * FAKE_PAGE)
			continue;
		crash_with(&record_key, value, bytes, 1);
		ck_assert_str_eq(lost_why, "its memory is not inside of its pool");
		ck_assert_uint_eq(lost_id, record_key.a);
		/* as long as half of the address space, in one piece */
		encode_bytes(value, 0, offset);
		if (offset <= FAKE_PAGES * FAKE_PAGE)
			continue;
		crash_with(&record_key, value, bytes, 1);
		ck_assert_uint_eq(lost_id, record_key.a);
	}
	ck_assert_uint_eq(stage_tenant.n_leases, 1);
}
END_TEST

/* Segments whose sum goes round 2^64 are not a lease of 100 bytes. */
START_TEST(restore__adds_segments_up_without_wrapping)
{
	const uint64_t rows[] = { 60, UINT64_MAX - 19, 60 };
	const struct lease_head head = { .head_bytes = sizeof(head),
					 .n_segments = 3,
					 .bytes = 100 };
	char value[RECORD_MAX], *end = value_add(value, &head, sizeof(head));
	static struct lease_record record;

	for (unsigned i = 0; i < 3; i++) {
		const struct segment_row row = { .offset = i * FAKE_PAGE,
						 .bytes = rows[i],
						 .dirty = rows[i],
						 .pool = 1 };

		end = value_add(end, &row, sizeof(row));
	}
	end = value_add_text(end, "default", 32);
	end = value_add_text(end, "m", 32);
	ck_assert_int_eq(
		lease_record_decode(&record_key, value, (size_t)(end - value), &record),
		-EBADMSG);
}
END_TEST

/* Records of a lease or an attachment with random bytes, or truncated. */
START_TEST(restore__ends_what_is_malformed_alone)
{
	const struct ledger_key attachment_key = { LEDGER_ATTACHMENT, 9000, 0 };
	const struct ledger_key id_0 = { LEDGER_LEASE, 0, 0 };
	const struct ledger_key id_max = { LEDGER_LEASE, UINT64_MAX, 0 };
	const struct ledger_key again = { LEDGER_LEASE, record_key.a, 1 };
	unsigned char good[RECORD_MAX], value[RECORD_MAX];
	size_t bytes = encode_record(good, 50 * FAKE_PAGE);
	unsigned accepted = 0;

	for (unsigned i = 0; i < 20000; i++) {
		struct lease_record record;
		size_t cut = random() % 4 ? bytes : (size_t)random() % (bytes + 1);

		memcpy(value, good, bytes);
		for (unsigned k = 0; k < i % 3; k++)
			value[(size_t)random() % bytes] = (unsigned char)random();
		if (lease_record_decode(&record_key, value, cut, &record))
			continue;
		accepted++;
		ck_assert_uint_le(record.head.n_segments, WIRE_SEGMENTS_MAX);
		ck_assert_uint_le(strlen(record.name), WIRE_NAME_MAX);
	}
	ck_assert_uint_gt(accepted, 1000);
	(void)new_lease(&one, &stage_a, 100, "n");
	crash_with(&record_key, good, bytes - 1, 1);
	ck_assert_str_eq(lost_why, "the ledger's lease 9000 is malformed");
	ck_assert_int_eq(ledger_put(stage_ledger, &attachment_key, good, 3), 0);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(crash(), 0);
	ck_assert_uint_eq(detached, 1);
	/* no lease has the id 0, or one that is not a number of JSON */
	crash_with(&id_0, good, bytes, 1);
	crash_with(&id_max, good, bytes, 1);
	/* no lease has two records */
	crash_with(&again, good, bytes, 1);
	/* nor has it a name that no request may have */
	good[bytes - 2] = 0x80;
	crash_with(&record_key, good, bytes, 1);
	good[bytes - 2] = 'm';
	/* nor this alignment, with which it could grow */
	((struct lease_head *)good)->align = 3;
	crash_with(&record_key, good, bytes, 1);
	ck_assert_uint_eq(stage_tenant.n_leases, 1);
	ck_assert_uint_eq(detached, 0);
}
END_TEST

/* ---- random requests ---- */

static struct lease *random_lease(void)
{
	unsigned n = leases_count(stage_leases);
	unsigned pick = n ? (unsigned)random() % n : 0;

	list_for_each_entry(struct lease, item, &stage_leases->all, all) {
		if (pick == 0)
			return item;
		pick--;
	}
	return NULL;
}

static void random_step(void)
{
	struct lease_client *client = random() % 2 ? &stage_a : &stage_b;
	struct lease *lease = random_lease();
	uint64_t id = lease ? lease->id : 0;
	char name[16];

	(void)snprintf(name, sizeof(name), "n%ld", random() % 12);
	switch (random() % 12) {
	case 0:
	case 1:
	case 2:
		(void)call_allocate(&one, client, (uint64_t)random() % (12 * FAKE_PAGE),
				    random() % 2 ? name : "");
		break;
	case 3:
		(void)call_free(client, id);
		break;
	case 4:
		(void)call_rename(client, id, name, random() % 2);
		break;
	case 5:
	case 6:
		(void)call_resize(&one, client, id,
				  (uint64_t)random() % (12 * FAKE_PAGE));
		break;
	case 7:
		(void)lease_renew(stage_leases, client, id, (uint64_t)random() % 2000,
				  false);
		break;
	case 8:
		(void)call_attach(&one, client, name,
				  random() % 2 ? WIRE_RIGHT_READ : STAGE_RW);
		break;
	case 9:
		if (random() % 2)
			(void)lease_watch(stage_leases, client, id);
		else
			(void)lease_unwatch(stage_leases, client, id);
		break;
	case 10:
		stage_pass((uint64_t)random() % 300);
		break;
	default:
		if (lease)
			fill(lease);
		break;
	}
	fake_fabric_settle();
	stage_scrub();
}

START_TEST(random_requests__survive_crashes)
{
	uint64_t seed = random_u64();

	printf("# seed %" PRIu64 "\n", seed);
	srandom((unsigned)seed);
	for (unsigned i = 0; i < 20000; i++) {
		random_step();
		if (random() % 20 == 0)
			check_crash();
	}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("restore", stage_setup, stage_teardown);

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, restore__keeps_all_attributes_of_a_lease);
	tcase_add_loop_test(tc, restore__needs_no_creator, 0, 3);
	tcase_add_test(tc, restore__keeps_the_nodes_of_interleaved_leases);
	tcase_add_test(tc, restore__drops_leases_not_granted_yet);
	tcase_add_test(tc, restore__drops_freed_leases);
	tcase_add_loop_test(tc, restore__has_the_recorded_size, 0, 2);
	tcase_add_loop_test(tc, restore__reports_lost_leases_once, 0, 2);
	tcase_add_test(tc, restore__without_memory_keeps_the_ledger);
	tcase_add_test(tc, restore__grants_no_lease_in_the_future);
	tcase_add_test(tc, restore__ends_leases_with_the_same_memory);
	tcase_add_test(tc, restore__ends_a_lease_outside_of_its_pool);
	tcase_add_test(tc, restore__adds_segments_up_without_wrapping);
	tcase_add_test(tc, restore__ends_what_is_malformed_alone);
	tcase_add_test(tc, random_requests__survive_crashes);
	return unit_main();
}
