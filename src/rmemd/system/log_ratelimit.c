/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/log_ratelimit.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "rmemd/config/config.h"

/* More than there are pairs of an event and a tenant, so that in practice a place is
 * always free; what finds none shares a limit. */
#define FLOWS_MAX 1024

struct flow {
	const char *event;
	char tenant[TENANT_NAME_MAX + 1]; /* "": lines without one */
	int level;                        /* of the last suppressed line */
	uint64_t period;
	unsigned passed;
	uint64_t suppressed;
};

static struct flow flows[FLOWS_MAX];
static uint64_t hashes[FLOWS_MAX]; /* of event and tenant, to compare these alone */
static unsigned n_flows;
static unsigned oldest; /* where the search for a flow to replace begins */
static struct flow others;
static log_sink *next;

void log_ratelimit_open(log_sink *to)
{
	n_flows = oldest = 0;
	others = (struct flow){ .event = "other-events" };
	next = to;
}

static uint64_t period_now(void)
{
	return clock_now_ms() / LOG_RATELIMIT_PERIOD_MS + 1;
}

/* A place for a new flow: an unused one, or that of a flow without lines in this period that has
 * nothing to report. */
static unsigned place_find(void)
{
	uint64_t period = period_now();

	if (n_flows < FLOWS_MAX)
		return n_flows++;
	for (unsigned i = 0; i < FLOWS_MAX; i++) {
		unsigned place = (oldest + i) % FLOWS_MAX;

		if (flows[place].suppressed ||
		    (flows[place].period == period && flows[place].passed))
			continue;
		oldest = place + 1;
		return place;
	}
	return FLOWS_MAX;
}

static struct flow *flow_of(const char *event, const char *tenant)
{
	uint64_t hash = map_hash_string(event) ^ map_hash_u64(map_hash_string(tenant));
	unsigned place;

	for (unsigned i = 0; i < n_flows; i++)
		if (hashes[i] == hash && strcmp(flows[i].event, event) == 0 &&
		    strcmp(flows[i].tenant, tenant) == 0)
			return &flows[i];
	place = place_find();
	if (place == FLOWS_MAX)
		return &others;
	hashes[place] = hash;
	flows[place] = (struct flow){ .event = event };
	(void)snprintf(flows[place].tenant, sizeof(flows[place].tenant), "%s", tenant);
	return &flows[place];
}

/* Begin a new period, if the last one is over. */
static void turn(struct flow *flow)
{
	const struct log_ctx ctx = { .tenant = flow->tenant };
	uint64_t period = period_now();
	char text[64];

	if (flow->period == period)
		return;
	if (flow->suppressed) {
		(void)snprintf(text, sizeof(text), "%" PRIu64 " more suppressed",
			       flow->suppressed);
		next(flow->level, flow->event, *flow->tenant ? &ctx : NULL, text);
	}
	flow->period = period;
	flow->passed = 0;
	flow->suppressed = 0;
}

void log_ratelimit_sink(int level, const char *event, const struct log_ctx *ctx,
			const char *text)
{
	const char *tenant = ctx && ctx->tenant ? ctx->tenant : "";
	struct flow *flow = level < LOG_DEBUG ? flow_of(event, tenant) : NULL;

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
	turn(&others);
}
