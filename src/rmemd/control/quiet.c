/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/quiet.h"

#include "base/clock.h"

#define LINES_PER_SECOND 10

bool quiet_pass(struct quiet *quiet, uint64_t *ret_dropped)
{
	uint64_t second = clock_now_ms() / 1000 + 1;

	if (second != quiet->second) {
		quiet->second = second;
		quiet->passed = 0;
	}
	if (quiet->passed == LINES_PER_SECOND) {
		quiet->dropped++;
		return false;
	}
	quiet->passed++;
	*ret_dropped = quiet->dropped;
	quiet->dropped = 0;
	return true;
}
