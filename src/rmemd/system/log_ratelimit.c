/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/log_ratelimit.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* More than there are names of events; the lines of further ones all pass. */
#define EVENTS_MAX 64

struct flow {
	const char *event;
	int level; /* of the last suppressed line */
	uint64_t period;
	unsigned passed;
	uint64_t suppressed;
};

static struct flow flows[EVENTS_MAX];
static unsigned n_flows;
static log_sink *next;

void log_ratelimit_open(log_sink *to)
{
	n_flows = 0;
	next = to;
}

static struct flow *flow_of(const char *event)
{
	for (unsigned i = 0; i < n_flows; i++)
		if (strcmp(flows[i].event, event) == 0)
			return &flows[i];
	if (n_flows == EVENTS_MAX)
		return NULL;
	flows[n_flows] = (struct flow){ .event = event };
	return &flows[n_flows++];
}

/* Begin a new period, if the last one is over. */
static void turn(struct flow *flow)
{
	uint64_t period = clock_now_ms() / LOG_RATELIMIT_PERIOD_MS + 1;
	char text[64];

	if (flow->period == period)
		return;
	if (flow->suppressed) {
		(void)snprintf(text, sizeof(text), "%" PRIu64 " more suppressed",
			       flow->suppressed);
		next(flow->level, flow->event, NULL, text);
	}
	flow->period = period;
	flow->passed = 0;
	flow->suppressed = 0;
}

void log_ratelimit_sink(int level, const char *event, const struct log_ctx *ctx,
			const char *text)
{
	struct flow *flow = level < LOG_DEBUG ? flow_of(event) : NULL;

	if (flow) {
		turn(flow);
		if (flow->passed == LOG_RATELIMIT_LINES) {
			flow->suppressed++;
			flow->level = level;
			return;
		}
		flow->passed++;
	}
	next(level, event, ctx, text);
}

void log_ratelimit_flush(void)
{
	for (unsigned i = 0; i < n_flows; i++)
		turn(&flows[i]);
}
