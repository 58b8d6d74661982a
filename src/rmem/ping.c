/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/histogram.h"
#include "rmem/interrupt.h"
#include "rmem/options.h"
#include "rmem/session.h"

struct ping {
	unsigned count; /* 0: until a signal comes */
	int interval_ms;
	bool data; /* on a data channel, instead of the control connection */
};

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

/* Wait for the interval; true: a signal came. */
static bool interval_pass(int interval_ms)
{
	struct pollfd pfd = { .fd = interrupt_fd(), .events = POLLIN };

	return poll(&pfd, 1, interval_ms) > 0;
}

static int session_ping(rmem *session, const struct ping *ping)
{
	struct rmem_info info = { .size = sizeof(info) };
	static struct histogram times;
	uint64_t sent = 0, ns;
	int err = rmem_info(session, &info), failed = 0;

	if (err)
		return session_failed(err);
	(void)printf("rmem ping %s (%s)%s\n", info.server,
		     session_fabric_name(info.fabric),
		     ping->data ? ", on a data channel" : "");
	do {
		err = ping->data ? rmem_ping_data(session, &ns)
				 : rmem_ping(session, &ns);
		sent++;
		if (err) {
			failed = session_failed(err);
			(void)printf("seq=%" PRIu64 " %s\n", sent, err_text());
		} else {
			histogram_add(&times, ns);
			(void)printf("seq=%" PRIu64 " time=%.3f ms\n", sent,
				     (double)ns / 1e6);
		}
		(void)fflush(stdout);
		if (sent == ping->count)
			break;
	} while (!interval_pass(ping->interval_ms));
	summary_print(info.server, sent, &times);
	return failed;
}

static int ping_parse(struct options *options, int argc, char **argv, struct ping *ping)
{
	enum { OPTION_DATA = OPTIONS_OWN };
	static const struct option table[] = {
		{ "data", no_argument, NULL, OPTION_DATA },
		{ "count", required_argument, NULL, 'c' },
		{ "interval", required_argument, NULL, 'i' },
		OPTIONS_LONG,
	};
	uint64_t ms;
	int opt, err;

	while ((opt = getopt_long(argc, argv, ":c:i:" OPTIONS_SHORT, table, NULL)) !=
	       -1) {
		switch (opt) {
		case OPTION_DATA:
			ping->data = true;
			err = 0;
			break;
		case 'c':
			err = options_number(options, "-c", optarg, 1, UINT32_MAX,
					     &ping->count);
			break;
		case 'i':
			if (units_parse_ms(optarg, &ms) || ms > 3600 * 1000)
				err = options_usage(options,
						    "-i: '%s' is not a time up to "
						    "1h, as 200ms or 2s",
						    optarg);
			else {
				ping->interval_ms = (int)ms;
				err = 0;
			}
			break;
		default:
			err = options_handle(options, opt, argv);
		}
		if (err)
			return err;
	}
	if (optind < argc)
		return options_usage(options, "it takes no argument but options");
	return 0;
}

static int ping_run(struct options *options, int argc, char **argv)
{
	struct ping ping = { .interval_ms = 1000 };
	rmem *session;
	int err = ping_parse(options, argc, argv, &ping);

	if (err)
		return err;
	err = session_open(options, &session);
	if (err)
		return err;
	/* the summary is printed after a signal too */
	err = interrupt_catch();
	if (!err)
		err = session_ping(session, &ping);
	rmem_close(session);
	return err;
}

const struct command ping_command = {
	.name = "ping",
	.synopsis = "ping [-c N] [-i INTERVAL] [--data]",
	.summary = "measure round trips on the control connection, or a data channel",
	.details =
		"  -c, --count N       stop after N round trips\n"
		"  -i, --interval T    time between them, as 200ms or 2s "
		"(default 1s)\n"
		"  --data              on a data channel, answered by the thread that\n"
		"                      serves it\n",
	.run = ping_run,
};
