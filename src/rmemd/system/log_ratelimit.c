/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/log_ratelimit.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "rmemd/config/config.h"

struct flow {
	const char *event;
	char tenant[TENANT_NAME_MAX + 1]; /* "": lines without one */
	int level;                        /* of the last suppressed line */
	uint64_t period;
	unsigned passed;
	uint64_t suppressed;
};

/* More than there are pairs of an event and a tenant, so that in practice a slot is
 * always free; what finds none shares a limit. */
#define FLOWS_MAX 1024

struct log_ratelimit {
	struct flow flows[FLOWS_MAX];
	uint64_t hashes[FLOWS_MAX]; /* of event and tenant, to compare these alone */
	unsigned n_flows;
	unsigned oldest; /* where the search for a flow to replace begins */
	struct flow others;
	log_sink *report;
};

/* Of the log, and of the events that are kept for the administrator. */
static struct log_ratelimit limits[LOG_RATELIMITS];

struct log_ratelimit *log_ratelimit_open(enum log_ratelimit_of of, log_sink *report)
{
	struct log_ratelimit *limit = &limits[of];

	limit->n_flows = limit->oldest = 0;
	limit->others = (struct flow){ .event = "other-events" };
	limit->report = report;
	return limit;
}

static uint64_t period_now(void)
{
	return clock_now_ms() / LOG_RATELIMIT_PERIOD_MS + 1;
}

/* A slot for a new flow: an unused one, or that of a flow without lines in this period that has
 * nothing to report. */
static unsigned slot_find(struct log_ratelimit *limit)
{
	uint64_t period = period_now();

	if (limit->n_flows < FLOWS_MAX)
		return limit->n_flows++;
	for (unsigned i = 0; i < FLOWS_MAX; i++) {
		unsigned slot = (limit->oldest + i) % FLOWS_MAX;
		const struct flow *flow = &limit->flows[slot];

		if (flow->suppressed || (flow->period == period && flow->passed))
			continue;
		limit->oldest = slot + 1;
		return slot;
	}
	return FLOWS_MAX;
}

static struct flow *flow_of(struct log_ratelimit *limit, const char *event,
			    const char *tenant)
{
	uint64_t hash = map_hash_string(event) ^ map_hash_u64(map_hash_string(tenant));
	struct flow *flow = limit->flows;
	unsigned slot;

	for (unsigned i = 0; i < limit->n_flows; i++, flow++)
		if (limit->hashes[i] == hash && strcmp(flow->event, event) == 0 &&
		    strcmp(flow->tenant, tenant) == 0)
			return flow;
	slot = slot_find(limit);
	if (slot == FLOWS_MAX)
		return &limit->others;
	limit->hashes[slot] = hash;
	flow = &limit->flows[slot];
	*flow = (struct flow){ .event = event };
	(void)snprintf(flow->tenant, sizeof(flow->tenant), "%s", tenant);
	return flow;
}

/* Begin a new period, if the last one is over. */
static void turn(const struct log_ratelimit *limit, struct flow *flow)
{
	const struct log_ctx ctx = { .tenant = flow->tenant };
	uint64_t period = period_now();
	char text[64];

	if (flow->period == period)
		return;
	if (flow->suppressed) {
		(void)snprintf(text, sizeof(text), "%" PRIu64 " more suppressed",
			       flow->suppressed);
		limit->report(flow->level, flow->event, *flow->tenant ? &ctx : NULL,
			      text);
	}
	flow->period = period;
	flow->passed = 0;
	flow->suppressed = 0;
}

bool log_ratelimit_passes(struct log_ratelimit *limit, int level, const char *event,
			  const struct log_ctx *ctx)
{
	struct flow *flow;

	if (ctx && ctx->act)
		return true;
	flow = flow_of(limit, event, ctx && ctx->tenant ? ctx->tenant : "");
	turn(limit, flow);
	if (flow->passed == LOG_RATELIMIT_LINES) {
		flow->suppressed++;
		flow->level = level;
		return false;
	}
	flow->passed++;
	return true;
}

void log_ratelimit_sink(int level, const char *event, const struct log_ctx *ctx,
			const char *text)
{
	struct log_ratelimit *limit = &limits[LOG_RATELIMIT_LOG];

	if (level >= LOG_DEBUG || log_ratelimit_passes(limit, level, event, ctx))
		limit->report(level, event, ctx, text);
}

void log_ratelimit_flush(void)
{
	for (unsigned k = 0; k < LOG_RATELIMITS; k++) {
		struct log_ratelimit *limit = &limits[k];

		for (unsigned i = 0; i < limit->n_flows; i++)
			turn(limit, &limit->flows[i]);
		turn(limit, &limit->others);
	}
}
