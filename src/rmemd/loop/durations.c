/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/loop/durations.h"

/* clang-format off */
const struct durations_limit durations_limits[DURATIONS_LIMITS] = {
	{ 1000, "1e-06" }, { 2000, "2e-06" }, { 5000, "5e-06" },
	{ 10000, "1e-05" }, { 20000, "2e-05" }, { 50000, "5e-05" },
	{ 100000, "0.0001" }, { 200000, "0.0002" }, { 500000, "0.0005" },
	{ 1000000, "0.001" }, { 2000000, "0.002" }, { 5000000, "0.005" },
	{ 10000000, "0.01" }, { 20000000, "0.02" }, { 50000000, "0.05" },
	{ 100000000, "0.1" }, { 1000000000, "1" }, { 10000000000, "10" },
};
/* clang-format on */

void durations_add(struct durations *durations, uint64_t ns)
{
	unsigned i = 0;

	while (i < DURATIONS_LIMITS && ns > durations_limits[i].ns)
		i++;
	durations->n[i]++;
	durations->sum_ns += ns;
}
