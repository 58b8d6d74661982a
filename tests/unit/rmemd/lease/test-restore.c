/* SPDX-License-Identifier: BSD-3-Clause */
/* What the next process has of the leases of the last one, whatever state they were in. */
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
#include "rmemd/state/ledger_kinds.h"
#include "rmemd/state/ledger.h"
#include "unit/unit.h"

#define ALL_MAX 100

static struct asked one, two;
static unsigned lost;
static char lost_why[64];
static bool tenant_gone, holder_gone;

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

static struct lease_client *find_holder(void *ctx, uint64_t session)
{
	(void)ctx;
	if (holder_gone)
		return NULL;
	return session == 1 ? &stage_a : session == 2 ? &stage_b : NULL;
}

static void on_lost(void *ctx, uint64_t id, const char *name, const char *why)
{
	(void)ctx;
	(void)name;
	ck_assert_uint_ne(id, 0);
	lost++;
	(void)snprintf(lost_why, sizeof(lost_why), "%s", why);
}

/* All that is in the process's own memory goes; what was staged, too. */
static int crash(void)
{
	const struct leases_restore with = { find_tenant, find_holder, on_lost, NULL };
	const struct leases_events *events = stage_leases->events;
	int err;

	/* as if every session had vanished with the process */
	fake_fabric_close();
	leases_close(stage_leases);
	lease_client_destroy(&stage_a);
	lease_client_destroy(&stage_b);
	/* nothing of it is left in this process */
	ck_assert_uint_eq(stage_tenant.refs, 1);
	ck_assert_uint_eq(stage_tenant.bytes + stage_tenant.n_leases +
				  stage_tenant.n_attachments + stage_tenant.n_sessions,
			  0);
	lease_client_init(&stage_a, 1, &stage_tenant);
	lease_client_init(&stage_b, 2, &stage_tenant);
	fake_pools_crash();
	stage_ledger = fake_ledger_again(stage_ledger);
	ck_assert_int_eq(
		leases_open(NULL, stage_ledger, events, NULL, 7, &stage_leases), 0);
	lost = 0;
	err = leases_restore(stage_leases, &with);
	stage_connect(&stage_a, 0);
	stage_connect(&stage_b, 0);
	return err;
}

/* ---- what there is ---- */

struct seen {
	uint64_t id, owner, bytes, ttl_ms;
	uint32_t generation;
	enum wire_placement placement;
	int node;
	char name[64];
	char home[FABRIC_DEVICE_MAX];
	unsigned rights[2]; /* of both sessions; 0: it has not attached it */
	bool watches[2];
	uint32_t sum; /* of its bytes */
};

static uint32_t sum_of(const struct lease *lease)
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

static unsigned look(struct seen *seen)
{
	unsigned n = 0;

	list_for_each(node, &stage_leases->all) {
		const struct lease *lease = container_of(node, struct lease, all);
		struct seen *it = &seen[n++];

		ck_assert_uint_le(n, ALL_MAX);
		memset(it, 0, sizeof(*it));
		it->id = lease->id;
		it->owner = lease->owner ? lease->owner->id : 0;
		it->bytes = lease->bytes;
		it->ttl_ms = lease->deadline.place ? lease->deadline.due_ms : 0;
		it->generation = lease->generation;
		it->placement = lease->placement;
		it->node = lease->node;
		(void)snprintf(it->name, sizeof(it->name), "%s",
			       lease->name ? lease->name : "");
		memcpy(it->home, lease->atomic_device.name, sizeof(it->home));
		it->sum = sum_of(lease);
		list_for_each(other, &lease->attachments) {
			const struct attachment *attachment =
				container_of(other, struct attachment, in_lease);
			uint64_t i = attachment->client->id - 1;

			it->rights[i] = attachment->rights;
			it->watches[i] = !list_empty(&attachment->watching);
		}
	}
	return n;
}

static void check_crash(void)
{
	static struct seen before[ALL_MAX], after[ALL_MAX];
	uint64_t next_id = stage_leases->next_id;
	unsigned n;

	ledger_commit(stage_ledger);
	n = look(before);
	ck_assert_msg(crash() == 0, "%s", err_text());
	ck_assert_uint_eq(lost, 0);
	ck_assert_uint_eq(look(after), n);
	for (unsigned i = 0; i < n; i++)
		ck_assert_msg(memcmp(&before[i], &after[i], sizeof(before[i])) == 0,
			      "lease %" PRIu64 " is another", before[i].id);
	if (n)
		ck_assert_uint_gt(stage_leases->next_id, before[n - 1].id);
	ck_assert_uint_le(stage_leases->next_id, next_id);
	ck_assert_uint_eq(stage_tenant.n_leases, n);
	fake_pools_check(stage_leases);
	ck_assert_uint_eq(stage_tenant.bytes, fake_pools_lent() * FAKE_PAGE);
	/* and the others are clean before anybody has them */
	fake_pools_scrub();
}

static void fill(const struct lease *lease)
{
	for (unsigned i = 0; i < lease->n_segments; i++)
		memset(extent_addr(&lease->segments[i]->extent),
		       (int)(random() % 255 + 1), lease->segments[i]->bytes);
}

/* ---- tests ---- */

START_TEST(restore__has_all_of_a_lease)
{
	static const struct fabric_endpoint place = { .kind = FABRIC_VERBS,
						      .flags = FABRIC_ENDPOINT_ATOMICS,
						      .device = "able0" };
	struct lease_atomic_device home;

	fake_pools_reset(5);
	ck_assert_int_eq(granted(&one, &stage_a, 10 * FAKE_PAGE + 3, "name"), 0);
	ck_assert_uint_gt(one.lease.n_segments, 1);
	ck_assert_int_eq(attached(&two, &stage_b, "name", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(lease_watch(stage_leases, &stage_b, one.lease.lease), 0);
	ck_assert_int_eq(lease_renew(stage_leases, &stage_a, one.lease.lease, 5000), 0);
	ck_assert_int_eq(lease_fix_atomic_device(stage_leases, &stage_a,
						 one.lease.lease, &place, &home),
			 0);
	ck_assert_int_eq(granted(&two, &stage_b, 100, ""), 0);
	list_for_each(node, &stage_leases->all)
		fill(container_of(node, struct lease, all));
	check_crash();
	check_crash();
	/* their keys are asked for as after a fence */
	ck_assert_int_eq(rekeyed(&one, &stage_a, one.lease.lease), 0);
	ck_assert_uint_eq(one.lease.n_keys, one.lease.n_segments);
	ck_assert_int_eq(rekeyed(&two, &stage_b, two.lease.lease), 0);
	/* the deadline is the one it was */
	stage_now_ms += 4999;
	leases_tick(stage_leases);
	ck_assert_uint_eq(stage_expired, 0);
	stage_now_ms += 1;
	leases_tick(stage_leases);
	ck_assert_uint_eq(stage_expired, 1);
}
END_TEST

START_TEST(restore__has_interleaved_leases_on_their_nodes)
{
	const struct lease_params params = { .bytes = 7 * FAKE_PAGE,
					     .placement = WIRE_PLACE_INTERLEAVE,
					     .node = -1,
					     .name = "striped" };
	struct lease_share before[WIRE_SEGMENTS_MAX], after[WIRE_SEGMENTS_MAX];
	struct lease_status status;
	unsigned n;

	/* single pages, the last of them on the other node */
	fake_pools_reset(2);
	ck_assert_int_eq(
		granted(&two, &stage_b, (FAKE_NODE_PAGES / 2 - 3) * FAKE_PAGE, ""), 0);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	fake_fabric_settle();
	ck_assert_int_eq(one.err, 0);
	ck_assert(stage_status(one.lease.lease, &status));
	n = lease_shares(&status, before);
	ck_assert_uint_eq(n, 2);
	ck_assert_int_eq(before[0].node, 0);
	ck_assert_uint_eq(before[0].bytes, 3 * FAKE_PAGE);
	ck_assert_uint_eq(before[1].bytes, 4 * FAKE_PAGE);
	check_crash();
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_int_eq((int)status.placement, (int)WIRE_PLACE_INTERLEAVE);
	ck_assert_uint_eq(lease_shares(&status, after), n);
	ck_assert_int_eq(memcmp(before, after, n * sizeof(before[0])), 0);
	/* and what is added is again */
	ck_assert_int_eq(rekeyed(&one, &stage_a, one.lease.lease), 0);
	ck_assert_int_eq(resized(&one, &stage_a, one.lease.lease, 9 * FAKE_PAGE), 0);
	ck_assert(fake_pools_wish()->interleave);
}
END_TEST

START_TEST(restore__has_nothing_that_was_not_granted)
{
	const struct lease_params params = { .bytes = 1, .node = -1, .name = "n" };

	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	ck_assert_uint_eq(one.answers, 0);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(crash(), 0);
	ck_assert(list_empty(&stage_leases->all));
	fake_pools_check(stage_leases);
}
END_TEST

START_TEST(restore__has_nothing_that_was_freed)
{
	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	ledger_commit(stage_ledger);
	/* its keys are still dying, but it is over */
	ck_assert_int_eq(lease_free(stage_leases, &stage_a, one.lease.lease, ask(&two)),
			 0);
	ck_assert_uint_eq(two.answers, 0);
	ck_assert_int_eq(crash(), 0);
	ck_assert(list_empty(&stage_leases->all));
	ck_assert_uint_eq(ledger_count(stage_ledger), 0);
}
END_TEST

/* A lease that becomes longer is not before it is answered; one that becomes shorter is before
 * its memory is touched. */
START_TEST(restore__knows_how_long_it_was)
{
	uint64_t asked = _i ? 20 * FAKE_PAGE : FAKE_PAGE + 5;
	struct lease_status status;

	ck_assert_int_eq(granted(&one, &stage_a, 10 * FAKE_PAGE, "n"), 0);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(
		lease_resize(stage_leases, &stage_a, one.lease.lease, asked, ask(&two)),
		0);
	ck_assert_uint_eq(two.answers, 0);
	ck_assert_int_eq(crash(), 0);
	ck_assert(stage_status(one.lease.lease, &status));
	ck_assert_uint_eq(status.bytes, _i ? 10 * FAKE_PAGE : asked);
	fake_pools_check(stage_leases);
}
END_TEST

START_TEST(restore__tells_what_is_lost)
{
	ck_assert_int_eq(granted(&one, &stage_a, 3 * FAKE_PAGE, _i == 0 ? "" : "n"), 0);
	ledger_commit(stage_ledger);
	holder_gone = _i == 0;
	if (_i == 1)
		fake_pools_take_away(true);
	ck_assert_int_eq(crash(), 0);
	/* whose session has ended was on its way out */
	ck_assert_uint_eq(lost, (unsigned)_i);
	if (_i == 1)
		ck_assert_str_eq(lost_why, "the pool it was in is gone");
	ck_assert(list_empty(&stage_leases->all));
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(stage_tenant.bytes + stage_tenant.n_leases, 0);
	holder_gone = false;
	fake_pools_take_away(false);
	/* told once */
	ck_assert_uint_eq(ledger_count(stage_ledger), 0);
}
END_TEST

/* Then nothing is lost: another start may have it. */
START_TEST(restore__fails_without_memory)
{
	ck_assert_int_eq(granted(&one, &stage_a, 3 * FAKE_PAGE, "n"), 0);
	ledger_commit(stage_ledger);
	tenant_gone = true;
	ck_assert_int_eq(crash(), -ENOMEM);
	ck_assert_uint_eq(fake_pools_given(), 0);
	tenant_gone = false;
	ck_assert_int_eq(crash(), 0);
	ck_assert_uint_eq(stage_tenant.n_leases, 1);
}
END_TEST

START_TEST(restore__refuses_what_overlaps)
{
	static char value[1024];
	struct lease_head head = { .head_bytes = sizeof(head),
				   .n_segments = 1,
				   .bytes = 100 };
	const struct segment_row row = { .bytes = 100, .dirty = 100, .pool = 1 };
	struct ledger_key key = { LEDGER_LEASE, 9000, 0 };
	size_t bytes = 0;

	ck_assert_int_eq(granted(&one, &stage_a, 100, "n"), 0);
	memcpy(value, &head, sizeof(head));
	bytes += sizeof(head);
	memcpy(value + bytes, &row, sizeof(row));
	bytes += sizeof(row);
	memcpy(value + bytes, "default\0m", 10);
	bytes += 10;
	ck_assert_int_eq(ledger_put(stage_ledger, &key, value, bytes), 0);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(crash(), -EINVAL);
	/* and leaves everything as it is, all that is lent, too */
	ck_assert_uint_eq(fake_pools_given(), 0);
	ck_assert_uint_eq(ledger_count(stage_ledger), 3);
	ledger_remove(stage_ledger, &key);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(crash(), 0);
	ck_assert_uint_eq(stage_tenant.n_leases, 1);
}
END_TEST

/* Any bytes where a lease or an attachment should be. */
START_TEST(restore__survives_any_record)
{
	unsigned char good[512], value[512];
	struct ledger_key key = { LEDGER_LEASE, 9000, 0 };
	size_t bytes = 0;
	struct lease_head head = { .head_bytes = sizeof(head),
				   .n_segments = 1,
				   .bytes = 100 };
	const struct segment_row row = {
		.offset = 50 * FAKE_PAGE, .bytes = 100, .dirty = 100, .pool = 1
	};
	unsigned taken = 0;

	memcpy(good, &head, sizeof(head));
	bytes += sizeof(head);
	memcpy(good + bytes, &row, sizeof(row));
	bytes += sizeof(row);
	memcpy(good + bytes, "default\0m", 10);
	bytes += 10;
	for (unsigned i = 0; i < 20000; i++) {
		struct lease_record record;
		size_t cut = random() % 4 ? bytes : (size_t)random() % (bytes + 1);

		memcpy(value, good, bytes);
		for (unsigned k = 0; k < i % 3; k++)
			value[(size_t)random() % bytes] = (unsigned char)random();
		if (lease_record_decode(&key, value, cut, &record))
			continue;
		taken++;
		ck_assert_uint_le(record.head.n_segments, WIRE_SEGMENTS_MAX);
		ck_assert_uint_le(strlen(record.name), WIRE_NAME_MAX);
	}
	ck_assert_uint_gt(taken, 1000);
	ck_assert_int_eq(ledger_put(stage_ledger, &key, good, bytes - 1), 0);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(crash(), -EBADMSG);
	ledger_remove(stage_ledger, &key);
	key.kind = LEDGER_ATTACHMENT;
	ck_assert_int_eq(ledger_put(stage_ledger, &key, good, 3), 0);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(crash(), -EBADMSG);
	ledger_remove(stage_ledger, &key);
	ledger_commit(stage_ledger);
	ck_assert_int_eq(crash(), 0);
}
END_TEST

/* ---- at random ---- */

static struct lease *any_lease(void)
{
	unsigned n = (unsigned)stage_leases->by_id.n_nodes;
	unsigned pick = n ? (unsigned)random() % n : 0;

	list_for_each(node, &stage_leases->all)
		if (pick-- == 0)
			return container_of(node, struct lease, all);
	return NULL;
}

static void random_step(void)
{
	struct lease_client *client = random() % 2 ? &stage_a : &stage_b;
	struct lease *lease = any_lease();
	uint64_t id = lease ? lease->id : 0;
	char name[16];

	(void)snprintf(name, sizeof(name), "n%ld", random() % 12);
	switch (random() % 12) {
	case 0:
	case 1:
	case 2:
		(void)granted(&one, client, (uint64_t)random() % (12 * FAKE_PAGE),
			      random() % 2 ? name : "");
		break;
	case 3:
		(void)freed(client, id);
		break;
	case 4:
		(void)renamed(client, id, name, random() % 2);
		break;
	case 5:
	case 6:
		(void)resized(&one, client, id, (uint64_t)random() % (12 * FAKE_PAGE));
		break;
	case 7:
		(void)lease_renew(stage_leases, client, id, (uint64_t)random() % 2000);
		break;
	case 8:
		(void)attached(&one, client, name,
			       random() % 2 ? WIRE_RIGHT_READ : STAGE_RW);
		break;
	case 9:
		if (random() % 2)
			(void)lease_watch(stage_leases, client, id);
		else
			(void)lease_unwatch(stage_leases, client, id);
		break;
	case 10:
		stage_now_ms += (uint64_t)random() % 300;
		leases_tick(stage_leases);
		break;
	default:
		if (lease)
			fill(lease);
		break;
	}
	fake_fabric_settle();
	fake_pools_scrub();
	leases_retry(stage_leases);
	fake_fabric_settle();
}

START_TEST(random__a_crash_changes_nothing)
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
	Suite *suite = suite_create("restore");
	TCase *tc = tcase_create("restore");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, stage_setup, stage_teardown);
	tcase_add_test(tc, restore__has_all_of_a_lease);
	tcase_add_test(tc, restore__has_interleaved_leases_on_their_nodes);
	tcase_add_test(tc, restore__has_nothing_that_was_not_granted);
	tcase_add_test(tc, restore__has_nothing_that_was_freed);
	tcase_add_loop_test(tc, restore__knows_how_long_it_was, 0, 2);
	tcase_add_loop_test(tc, restore__tells_what_is_lost, 0, 2);
	tcase_add_test(tc, restore__fails_without_memory);
	tcase_add_test(tc, restore__refuses_what_overlaps);
	tcase_add_test(tc, restore__survives_any_record);
	tcase_add_test(tc, random__a_crash_changes_nothing);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
