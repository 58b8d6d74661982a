/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/progress.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "rmemd/system/systemd.h"

static bool line_due(const struct progress *progress, uint64_t now_ms, uint64_t done,
		     uint64_t bytes)
{
	uint64_t since_ms = now_ms - progress->reported_ms;
	/* less is done when a pool begins again with other pages */
	uint64_t more =
		done > progress->reported_bytes ? done - progress->reported_bytes : 0;

	if (since_ms < PROGRESS_MS)
		return false;
	return more >= bytes / 100 * PROGRESS_PERCENT || since_ms >= PROGRESS_LATE_MS;
}

void progress_log(struct progress *progress, uint64_t done, uint64_t bytes)
{
	uint64_t now_ms = clock_now_ms();

	if (!progress->begin_ms)
		progress->begin_ms = progress->reported_ms = now_ms;
	if (!line_due(progress, now_ms, done, bytes))
		return;
	log_event(LOG_INFO, "pools-populating", NULL, "%s of %s after %" PRIu64 " s",
		  UNITS_BYTES(done), UNITS_BYTES(bytes),
		  (now_ms - progress->begin_ms) / 1000);
	progress->reported_ms = now_ms;
	progress->reported_bytes = done;
}

void progress_report(struct progress *progress, uint64_t done, uint64_t bytes)
{
	char text[96];

	/* not known at first for pools of `size = auto` */
	if (!bytes)
		return;
	(void)snprintf(text, sizeof(text), "populating pools: %s of %s",
		       UNITS_BYTES(done), UNITS_BYTES(bytes));
	systemd_status(text);
	progress_log(progress, done, bytes);
}
