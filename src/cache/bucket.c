/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/bucket.h"

#include "cache/table.h"

int bucket_final(const unsigned char *bucket, unsigned print)
{
	for (unsigned i = 0; i < FORMAT_SLOTS; i++) {
		uint64_t slot = bucket_slot(bucket, i);

		if (slot_is_final(slot) && slot_print(slot) == print)
			return (int)i;
	}
	return -1;
}

int bucket_find(const unsigned char *bucket, uint64_t slot)
{
	for (unsigned i = 0; i < FORMAT_SLOTS; i++)
		if (bucket_slot(bucket, i) == slot)
			return (int)i;
	return -1;
}

int bucket_tentative(const unsigned char *bucket, unsigned print, unsigned except)
{
	for (unsigned i = 0; i < FORMAT_SLOTS; i++) {
		uint64_t slot = bucket_slot(bucket, i);

		if (i != except && slot != 0 && slot_code(slot) == SLOT_TENTATIVE &&
		    slot_print(slot) == print)
			return (int)i;
	}
	return -1;
}

/* How much a slot is worth, the least first. */
static uint64_t slot_worth(const unsigned char *bucket, unsigned i,
			   const struct table *table, const struct geometry *geometry)
{
	uint64_t slot = bucket_slot(bucket, i);
	unsigned segment = geometry_place_segment(geometry, slot_place(slot));
	uint64_t stamp = UINT64_C(1) << 36; /* of those that are not FULL yet */

	if (slot == 0)
		return 0;
	if (slot_code(slot) == SLOT_TENTATIVE)
		return 1;
	if (table_is_stale(table, geometry, slot, NULL))
		return 2;
	if (segment < table->n && table->segments[segment].state == SEGMENT_FULL)
		stamp = table->segments[segment].stamp;
	return 3 + ((uint64_t)(bucket_count(bucket, i) > 0) << 40) + stamp;
}

unsigned bucket_victim(const unsigned char *bucket, const struct table *table,
		       const struct geometry *geometry)
{
	uint64_t least = UINT64_MAX;
	unsigned victim = 0;

	for (unsigned i = 0; i < FORMAT_SLOTS; i++) {
		uint64_t worth = slot_worth(bucket, i, table, geometry);

		if (worth < least) {
			least = worth;
			victim = i;
		}
	}
	return victim;
}
