/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attack.h"
#include "base/clock.h"
#include "base/err.h"
#include "peer.h"

/* What is refused on another thread or by a device is counted a moment later. */
#define COUNT_MS 5000
#define COUNT_POLL_US 5000

static struct {
	const char *what, *counter;
	uint64_t times, before;
} now;
static unsigned n_attempts, n_refused;

_Noreturn void attack_fail(const char *what, const char *file, int line)
{
	(void)printf("FAIL: %s:%d: %s, in \"%s\" (%s)\n", file, line, what,
		     now.what ? now.what : "the beginning", err_text());
	(void)fflush(stdout);
	_exit(1);
}

static void row(const char *by, const char *counted)
{
	const char *fabric = attack_options.fabric == FABRIC_TCP ? "tcp" : "rdma";

	(void)printf("%-56s | %-6s | %-60.60s | %s\n", now.what, fabric, by, counted);
	(void)fflush(stdout);
}

void attempt(const char *what, const char *counter, uint64_t times)
{
	peers_keep();
	now.what = what;
	now.counter = counter;
	now.times = times;
	now.before = counter ? counter_get(counter) : 0;
	n_attempts++;
}

void attempt_times(uint64_t times)
{
	now.times = times;
}

/* Whether the counter has risen as it must, perhaps after a while. */
static bool counted(uint64_t *ret_more)
{
	uint64_t until_ms = clock_now_ms() + COUNT_MS;

	for (;;) {
		*ret_more = counter_get(now.counter) - now.before;
		if (*ret_more >= now.times)
			return true;
		if (clock_now_ms() >= until_ms)
			return false;
		peers_keep();
		(void)usleep(COUNT_POLL_US);
	}
}

void attempt_refused(const char *by)
{
	char text[160];
	uint64_t more;

	if (!now.counter) {
		n_refused++;
		row(by, "by the client's error");
		return;
	}
	if (counted(&more)) {
		n_refused++;
		(void)snprintf(text, sizeof(text), "%s +%" PRIu64, now.counter, more);
	} else {
		(void)snprintf(text, sizeof(text),
			       "UNCOUNTED: %s +%" PRIu64 " of %" PRIu64, now.counter,
			       more, now.times);
	}
	row(by, text);
}

void attempt_admitted(const char *how)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "ADMITTED: %s", how);
	row(text, "-");
}

void attempt_measured(uint64_t kept, uint64_t limit, const char *unit)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "%s%" PRIu64 " %s, at most %" PRIu64,
		       kept <= limit ? "" : "ADMITTED: ", kept, unit, limit);
	n_refused += kept <= limit;
	row(text, "measured");
}

void attempt_result(int result, const char *by)
{
	if (result < 0)
		attempt_refused(by);
	else
		attempt_admitted("it was done");
}

void attempt_void(const char *what, const char *why)
{
	now.what = what;
	row(why, "does not apply");
}

void daemon_restart(const char *signal_name)
{
	char line[16];

	(void)printf("restart %s\n", signal_name);
	(void)fflush(stdout);
	must(fgets(line, sizeof(line), stdin), "the daemon was not started again");
}

int attempts_end(void)
{
	(void)printf("%u attempts, %u refused\n", n_attempts, n_refused);
	return n_attempts > 0 && n_attempts == n_refused ? 0 : 1;
}
