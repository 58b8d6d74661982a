/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/progress.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "rmemd/system/systemd.h"

static bool line_due(const struct progress *progress, uint64_t now_ms, uint64_t done,
		     uint64_t bytes)
{
	uint64_t since_ms = now_ms - progress->told_ms;
	/* less is done when one begins again with other pages */
	uint64_t more = done > progress->told_bytes ? done - progress->told_bytes : 0;

	if (since_ms < PROGRESS_MS)
		return false;
	return more >= bytes / 100 * PROGRESS_PERCENT || since_ms >= PROGRESS_LATE_MS;
}

void progress_log(struct progress *progress, uint64_t done, uint64_t bytes)
{
	uint64_t now_ms = clock_now_ms();
	char done_text[32], bytes_text[32];

	if (!progress->begin_ms)
		progress->begin_ms = progress->told_ms = now_ms;
	if (!line_due(progress, now_ms, done, bytes))
		return;
	log_event(LOG_INFO, "pools-populating", NULL, "%s of %s after %" PRIu64 " s",
		  units_format_bytes(done, done_text, sizeof(done_text)),
		  units_format_bytes(bytes, bytes_text, sizeof(bytes_text)),
		  (now_ms - progress->begin_ms) / 1000);
	progress->told_ms = now_ms;
	progress->told_bytes = done;
}

void progress_tell(struct progress *progress, uint64_t done, uint64_t bytes)
{
	char done_text[32], bytes_text[32];

	/* of pools of `size = auto` it is not known at once */
	if (!bytes)
		return;
	systemd_status("populating pools: %s of %s",
		       units_format_bytes(done, done_text, sizeof(done_text)),
		       units_format_bytes(bytes, bytes_text, sizeof(bytes_text)));
	progress_log(progress, done, bytes);
}
