/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/recent.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/utf8.h"
#include "rmemd/system/log_ratelimit.h"

/* The last events, in the order of their numbers. */
struct ring {
	struct recent_event *at;
	unsigned max;
	uint64_t n; /* events so far */
};

static struct recent_event events_at[RECENT_MAX], acts_at[RECENT_ACTS_MAX];
static struct ring events = { .at = events_at, .max = RECENT_MAX };
static struct ring acts = { .at = acts_at, .max = RECENT_ACTS_MAX };
static uint64_t before_first; /* the number before that of the first one */
static uint64_t last;         /* that of the last one */
static struct log_ratelimit *limit;
static void (*watcher)(void *ctx);
static void *watcher_ctx;

static uint64_t wall_ms(void)
{
	struct timespec now = { 0 };

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void text_keep(char *to, size_t bytes, const char *text)
{
	size_t n = text ? utf8_cut(text, bytes - 1) : 0;

	memcpy(to, text ? text : "", n);
	to[n] = '\0';
}

/* The place of the next event. */
static struct recent_event *ring_next(struct ring *ring)
{
	return &ring->at[ring->n++ % ring->max];
}

/* The first one with a higher number, or NULL. */
static const struct recent_event *ring_after(const struct ring *ring, uint64_t number)
{
	uint64_t from = ring->n < ring->max ? 0 : ring->n - ring->max, to = ring->n;

	while (from < to) {
		uint64_t middle = from + (to - from) / 2;

		if (ring->at[middle % ring->max].number > number)
			to = middle;
		else
			from = middle + 1;
	}
	return from < ring->n ? &ring->at[from % ring->max] : NULL;
}

static void event_keep(int level, const char *event, const struct log_ctx *ctx,
		       const char *text)
{
	static const struct log_ctx none;
	struct recent_event *kept;

	if (!ctx)
		ctx = &none;
	kept = ring_next(ctx->act ? &acts : &events);
	kept->number = ++last;
	kept->time_ms = wall_ms();
	kept->level = level;
	kept->event = event;
	kept->session = ctx->session;
	kept->lease = ctx->lease;
	text_keep(kept->tenant, sizeof(kept->tenant), ctx->tenant);
	text_keep(kept->peer, sizeof(kept->peer), ctx->peer);
	text_keep(kept->pool, sizeof(kept->pool), ctx->pool);
	text_keep(kept->device, sizeof(kept->device), ctx->device);
	text_keep(kept->text, sizeof(kept->text), text);
	if (watcher)
		watcher(watcher_ctx);
}

static bool event_wanted(int level, const char *event, const struct log_ctx *ctx)
{
	return log_ratelimit_passes(limit, level, event, ctx);
}

void recent_open(uint64_t begin)
{
	static const struct log_tap tap = { event_wanted, event_keep };

	before_first = last = begin;
	events.n = acts.n = 0;
	limit = log_ratelimit_open(LOG_RATELIMIT_RECENT, event_keep);
	log_set_tap(&tap);
}

uint64_t recent_last(void)
{
	return last;
}

uint64_t recent_resume(uint64_t number)
{
	return number >= before_first && number <= last ? number : before_first;
}

const struct recent_event *recent_after(uint64_t number)
{
	const struct recent_event *event = ring_after(&events, number);
	const struct recent_event *act = ring_after(&acts, number);

	if (!event || !act)
		return event ? event : act;
	return event->number < act->number ? event : act;
}

void recent_watch(void (*on_event)(void *ctx), void *ctx)
{
	watcher = on_event;
	watcher_ctx = ctx;
}
