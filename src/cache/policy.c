/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/policy.h"

#define SHARE 10
#define SEGMENTS_A_WRITER 8
#define BLOCK_BYTES 160 /* what a block has beside its value, about */

void policy_init(struct policy *policy)
{
	policy->share = SHARE;
	policy->trial = trial_create();
}

void policy_free(struct policy *policy)
{
	trial_free(policy->trial);
	policy->trial = NULL;
}

void policy_get(struct policy *policy, uint64_t hash, uint64_t bytes, uint64_t capacity)
{
	if (policy->trial)
		policy->share =
			trial_get(policy->trial, hash, bytes + BLOCK_BYTES, capacity);
}

bool policy_has_classes(const struct policy *policy, const struct table *table)
{
	return policy->share < 100 && table->n >= SEGMENTS_A_WRITER * table->writers;
}

enum segment_class policy_class(const struct policy *policy, const struct table *table,
				bool ghost)
{
	return policy_has_classes(policy, table) && !ghost ? SEGMENT_NEW : SEGMENT_MAIN;
}

enum segment_class policy_evicts(const struct policy *policy, const struct table *table)
{
	if (!policy_has_classes(policy, table))
		return table->of_class[SEGMENT_NEW] ? SEGMENT_NEW : SEGMENT_MAIN;
	return 100ull * table->of_class[SEGMENT_NEW] >
			       (uint64_t)policy->share * table->n
		       ? SEGMENT_NEW
		       : SEGMENT_MAIN;
}

unsigned policy_moved_count(const struct policy *policy, const struct table *table,
			    enum segment_class class, unsigned count)
{
	if (class == SEGMENT_NEW || !policy_has_classes(policy, table))
		return 0;
	return count - 1;
}

unsigned policy_reserve(const struct table *table)
{
	if (table->n >= 16)
		return 2;
	return table->n >= 4;
}
