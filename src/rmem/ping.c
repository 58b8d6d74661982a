/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "rmem/command.h"
#include "rmem/histogram.h"
#include "rmem/interrupt.h"
#include "rmem/session.h"

#define INTERVAL_MAX_MS (UINT64_C(3600) * 1000)

static unsigned count; /* 0: until a signal comes */
static uint64_t interval_ms = 1000;
static bool data; /* on a data channel, instead of the control connection */

static void summary_print(const char *server, uint64_t sent,
			  const struct histogram *times)
{
	(void)printf("--- %s ---\n%" PRIu64 " sent, %" PRIu64 " answered\n", server,
		     sent, times->count);
	if (times->count)
		(void)printf("round trip min/avg/max = %.3f/%.3f/%.3f ms\n",
			     (double)times->min / 1e6, histogram_mean(times) / 1e6,
			     (double)times->max / 1e6);
}

static int session_ping(rmem *session)
{
	struct rmem_info info = rmem_info_init();
	static struct histogram times;
	uint64_t sent = 0, ns;
	int err = session_result(rmem_info(session, &info)), failed = 0;

	if (err)
		return err;
	if (!options.quiet)
		(void)printf("rmem ping %s (%s)%s\n", info.server,
			     session_fabric_name(info.fabric),
			     data ? ", on a data channel" : "");
	do {
		err = data ? rmem_ping_data(session, &ns) : rmem_ping(session, &ns);
		sent++;
		if (err) {
			failed = session_result(err);
			(void)printf("seq=%" PRIu64 " %s\n", sent, err_text());
		} else {
			histogram_add(&times, ns);
			if (!options.quiet)
				(void)printf("seq=%" PRIu64 " time=%.3f ms\n", sent,
					     (double)ns / 1e6);
		}
		(void)fflush(stdout);
		if (sent == count)
			break;
	} while (!interrupt_wait((int)interval_ms));
	summary_print(info.server, sent, &times);
	return failed;
}

static int ping_run(rmem *session, char **args)
{
	/* the summary is printed after a signal too */
	int err = interrupt_catch("");

	(void)args;
	return err ? err : session_ping(session);
}

static const struct option_row ping_options[] = {
	{ "count", 'c', OPTION_NUMBER, &count, 1, UINT32_MAX, .argument = "N",
	  .help = "stop after N round trips" },
	{ "interval", 'i', OPTION_MS, &interval_ms, 0, INTERVAL_MAX_MS, .argument = "T",
	  .help = "time between them, as 200ms or 2s (default 1s)" },
	{ "data", 0, OPTION_FLAG, &data,
	  .help = "on a data channel, answered by the thread that" OPTION_INDENT
		  "serves it" },
	{ .more = options_table },
	{ 0 },
};

const struct command ping_command = {
	.name = "ping",
	.synopsis = "ping [-c N] [-i INTERVAL] [--data]",
	.summary = "measure round trips on the control connection, or a data channel",
	.options = ping_options,
	.args = "no argument but options",
	.run = ping_run,
};
