/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/resize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/units.h"
#include "rmemd/pool/plan.h"
#include "rmemd/system/progress.h"

/* What one pool is to be. */
struct resize {
	uint64_t target; /* its size to be; its size: nothing is to be done */
	enum pool_shrink shrink;
	uint64_t wait_ms;
	uint64_t
		until_ms; /* the deadline of POOL_RECLAIMS; UINT64_MAX: none, or it is over */
	uint64_t ignored; /* size configured for another node or pages; 0: none */
	uint64_t deadly;  /* the last process ended as it grew to this; 0: it did not */
};

struct resizes {
	struct pools *pools;
	struct ledger *ledger;
	const struct resizes_events *events;
	void *ctx;
	struct resize *each;
	unsigned n;
	bool more; /* was added, to be lent */
	/* of one growth, or of several of which each began before the last was over */
	uint64_t grown; /* bytes by pools that are ready */
	struct progress progress;
};

struct text {
	char buf[32];
};

static const char *bytes_text(uint64_t bytes, struct text *text)
{
	return units_format_bytes(bytes, text->buf, sizeof(text->buf));
}

/* ---- growing ---- */

bool resizes_growing(const struct resizes *resizes, uint64_t *ret_done,
		     uint64_t *ret_bytes)
{
	struct pool_status status;
	uint64_t done = 0, bytes = 0;
	bool any = false;

	for (unsigned i = 0; i < resizes->n; i++) {
		pools_status(resizes->pools, i, &status);
		if (status.resizing != POOL_GROWS)
			continue;
		any = true;
		done += status.populated;
		bytes += status.bytes_to - status.bytes;
	}
	if (any) {
		*ret_done = resizes->grown + done;
		*ret_bytes = resizes->grown + bytes;
	}
	return any;
}

void resizes_log_growth(struct resizes *resizes, uint64_t done, uint64_t bytes)
{
	progress_log(&resizes->progress, done, bytes);
}

/* The pool keeps its size until the configuration is loaded again. */
static void give_up(struct resizes *resizes, unsigned i, const char *event,
		    const char *why)
{
	struct pool_status status;
	struct text text;

	pools_status(resizes->pools, i, &status);
	resizes->each[i].target = status.bytes;
	log_event(LOG_WARNING, event, &(struct log_ctx){ .pool = status.name },
		  "it stays at %s: %s", bytes_text(status.bytes, &text), why);
}

/* The next process may begin the growth again.  Without room to record that, it waits for a
 * reload. */
static void growth_over(struct resizes *resizes, unsigned i)
{
	struct pool_status status;

	pools_status(resizes->pools, i, &status);
	(void)plan_record_size(resizes->pools, i, status.bytes, resizes->ledger);
}

static void grow(struct resizes *resizes, unsigned i, const struct pool_status *status)
{
	uint64_t target = resizes->each[i].target, done, bytes;
	struct text from, to;

	log_event(LOG_NOTICE, "pool-growing", &(struct log_ctx){ .pool = status->name },
		  "from %s to %s", bytes_text(status->bytes, &from),
		  bytes_text(target, &to));
	if (plan_record_growth(resizes->pools, i, target, resizes->ledger)) {
		give_up(resizes, i, "pool-not-grown", err_text());
		return;
	}
	if (!resizes_growing(resizes, &done, &bytes)) {
		resizes->grown = 0;
		resizes->progress = (struct progress){ 0 };
	}
	if (pools_grow(resizes->pools, i, target)) {
		give_up(resizes, i, "pool-not-grown", err_text());
		growth_over(resizes, i);
	}
}

static void grown(struct resizes *resizes, const struct pools_resized *resized)
{
	struct pools *pools = resizes->pools;
	const char *name = pools_params(pools, resized->i)->name;
	struct pool_status status;
	struct text text;

	if (resized->err) {
		/* one that was stopped, or is to be shorter meanwhile, goes on in step() */
		if (resized->err != -ECANCELED &&
		    resizes->each[resized->i].target >= resized->wanted)
			give_up(resizes, resized->i, "pool-not-grown", resized->text);
		growth_over(resizes, resized->i);
		return;
	}
	/* the next process must find what is lent there */
	if (plan_record_size(pools, resized->i, resized->bytes, resizes->ledger)) {
		give_up(resizes, resized->i, "pool-not-grown", err_text());
		pools_shrink(pools, resized->i);
		return;
	}
	pools_status(pools, resized->i, &status);
	resizes->grown += resized->bytes - status.bytes;
	pools_lend(pools, resized->i);
	resizes->more = true;
	log_event(LOG_NOTICE, "pool-grown", &(struct log_ctx){ .pool = name },
		  "it has %s now%s%s", bytes_text(resized->bytes, &text),
		  *resized->text ? "; " : "", resized->text);
}

/* ---- shrinking ---- */

static void reclaim(struct resizes *resizes, unsigned i,
		    const struct pool_status *status)
{
	struct resize *resize = &resizes->each[i];
	uint64_t until_ms = clock_now_ms() + resize->wait_ms;
	struct text from, to, lent;
	struct pool_status now;

	if (pools_reclaim(resizes->pools, i, resize->target, until_ms,
			  resize->shrink)) {
		give_up(resizes, i, "pool-not-shrunk", err_text());
		return;
	}
	resize->until_ms = until_ms;
	resizes->events->reclaim(resizes->ctx);
	pools_status(resizes->pools, i, &now);
	log_event(
		LOG_NOTICE, "pool-shrinking", &(struct log_ctx){ .pool = status->name },
		"from %s to %s; %s of what goes are in use, and after %" PRIu64 " s %s",
		bytes_text(status->bytes, &from), bytes_text(resize->target, &to),
		bytes_text(now.reclaimed, &lent), resize->wait_ms / 1000,
		resize->shrink == POOL_SHRINK_REVOKE ? "leases there are revoked"
						     : "it stays as it is");
}

static void reclaim_end(struct resizes *resizes, unsigned i)
{
	pools_reclaim_end(resizes->pools, i);
	resizes->each[i].until_ms = UINT64_MAX;
	resizes->more = true;
	resizes->events->reclaim(resizes->ctx);
}

static void reclaim_due(struct resizes *resizes, unsigned i)
{
	struct resize *resize = &resizes->each[i];
	char who[512], why[600];

	resize->until_ms = UINT64_MAX;
	/* no lease has it: it is being zeroed, or its keys are dying */
	if (!resizes->events->in_the_way(resizes->ctx,
					 pools_params(resizes->pools, i)->id, who,
					 sizeof(who)))
		return;
	if (resize->shrink == POOL_SHRINK_REVOKE) {
		log_event(LOG_NOTICE, "pool-revokes",
			  &(struct log_ctx){
				  .pool = pools_params(resizes->pools, i)->name },
			  "in the way are still %s", who);
		resizes->events->reclaim(resizes->ctx);
		return;
	}
	(void)snprintf(why, sizeof(why),
		       "in the way are still %s; have them freed and reload, or say "
		       "shrink = revoke",
		       who);
	reclaim_end(resizes, i);
	give_up(resizes, i, "pool-not-shrunk", why);
}

static void reclaimed(struct resizes *resizes, unsigned i)
{
	struct resize *resize = &resizes->each[i];
	struct pool_status status;

	pools_status(resizes->pools, i, &status);
	if (status.reclaimed == 0) {
		resize->until_ms = UINT64_MAX;
		pools_shrink(resizes->pools, i);
	} else if (resize->until_ms <= clock_now_ms()) {
		reclaim_due(resizes, i);
	}
}

static void shrunk(struct resizes *resizes, const struct pools_resized *resized)
{
	struct pools *pools = resizes->pools;
	const char *name = pools_params(pools, resized->i)->name;
	struct pool_status status;
	struct text text;

	pools_status(pools, resized->i, &status);
	/* without room for the record the file counts, which is not longer than that */
	(void)plan_record_size(pools, resized->i, status.bytes, resizes->ledger);
	/* clients hear that nothing is wanted back any more */
	resizes->events->reclaim(resizes->ctx);
	log_event(resized->err ? LOG_WARNING : LOG_NOTICE, "pool-shrunk",
		  &(struct log_ctx){ .pool = name }, "it has %s now%s%s",
		  bytes_text(status.bytes, &text),
		  resized->err ? ", but the kernel has not all of it back: " : "",
		  resized->text);
}

/* ---- the state machine ---- */

static void step(struct resizes *resizes, unsigned i)
{
	struct resize *resize = &resizes->each[i];
	struct pool_status status;

	pools_status(resizes->pools, i, &status);
	switch (status.resizing) {
	case POOL_GROWS:
		if (resize->target < status.bytes_to)
			pools_grow_stop(resizes->pools, i);
		return;
	case POOL_SHRINKS:
		return;
	case POOL_RECLAIMS:
		if (resize->target == status.bytes_to) {
			reclaimed(resizes, i);
			return;
		}
		reclaim_end(resizes, i);
		break;
	case POOL_RESTS:
		break;
	}
	if (resize->target > status.bytes) {
		grow(resizes, i, &status);
	} else if (resize->target < status.bytes) {
		reclaim(resizes, i, &status);
		pools_status(resizes->pools, i, &status);
		if (status.resizing == POOL_RECLAIMS)
			reclaimed(resizes, i);
	}
}

bool resizes_work(struct resizes *resizes)
{
	struct pools_resized resized;
	bool more;

	while (pools_resized(resizes->pools, &resized)) {
		if (resized.grown)
			grown(resizes, &resized);
		else
			shrunk(resizes, &resized);
	}
	for (unsigned i = 0; i < resizes->n; i++)
		step(resizes, i);
	more = resizes->more;
	resizes->more = false;
	return more;
}

uint64_t resizes_next_ms(const struct resizes *resizes)
{
	uint64_t next_ms = UINT64_MAX;

	for (unsigned i = 0; resizes && i < resizes->n; i++)
		if (resizes->each[i].until_ms < next_ms)
			next_ms = resizes->each[i].until_ms;
	return next_ms;
}

/* ---- the configuration ---- */

/* A growth during which the process ended is not begun again by each process that follows, only by
 * a reload. */
static bool is_deadly(struct resizes *resizes, unsigned i)
{
	struct resize *resize = &resizes->each[i];
	uint64_t deadly = resize->deadly;
	struct text to;
	char why[160];

	resize->deadly = 0;
	if (!deadly || resize->target < deadly)
		return false;
	(void)snprintf(
		why, sizeof(why),
		"the last process ended while it made it %s; reload to try again",
		bytes_text(deadly, &to));
	give_up(resizes, i, "pool-not-grown", why);
	return true;
}

static void configure_one(struct resizes *resizes, unsigned i,
			  const struct pool_params *params)
{
	struct resize *resize = &resizes->each[i];
	bool new_terms = resize->shrink != params->shrink ||
			 resize->wait_ms != params->shrink_wait_ms;
	bool new_size = pools_params(resizes->pools, i)->bytes != params->bytes;
	struct pool_status status;

	resize->target = pools_round(resizes->pools, i, params->bytes);
	resize->shrink = params->shrink;
	resize->wait_ms = params->shrink_wait_ms;
	pools_set_asked(resizes->pools, i, params->bytes);
	pools_status(resizes->pools, i, &status);
	if (status.resizing == POOL_RECLAIMS && new_terms)
		reclaim_end(resizes, i);
	if (is_deadly(resizes, i))
		return;
	/* The next process is not to take it for a pool that was configured otherwise.  Without room
	 * for the record it finds that nothing is to be done. */
	if (status.resizing == POOL_RESTS && new_size && resize->target == status.bytes)
		(void)plan_record_size(resizes->pools, i, status.bytes,
				       resizes->ledger);
}

/* Another node or other pages are configured for it.  When it was opened, the log said that these
 * have no effect; a size configured later has none either. */
static void ignore_one(struct resizes *resizes, unsigned i,
		       const struct pool_params *params)
{
	struct resize *resize = &resizes->each[i];
	bool new_size = resize->ignored && resize->ignored != params->bytes;
	struct pool_status status;
	struct text text;

	resize->ignored = params->bytes;
	if (!new_size)
		return;
	pools_status(resizes->pools, i, &status);
	log_event(LOG_WARNING, "pool-stays", &(struct log_ctx){ .pool = status.name },
		  "it stays at %s, too, as its node or page_size is configured "
		  "otherwise",
		  bytes_text(status.bytes, &text));
}

void resizes_configure(struct resizes *resizes, const struct config *config)
{
	for (unsigned i = 0; i < resizes->n; i++) {
		const struct pool_params *is = pools_params(resizes->pools, i);

		for (unsigned k = 0; k < config->n_pools; k++) {
			const struct pool_params *params = &config->pools[k];

			if (strcmp(params->name, is->name) != 0)
				continue;
			if (params->node != is->node || params->pages != is->pages)
				ignore_one(resizes, i, params);
			else if (params->bytes != POOL_BYTES_AUTO)
				configure_one(resizes, i, params);
		}
	}
}

int resizes_open(struct pools *pools, struct ledger *ledger,
		 const struct resizes_events *events, void *ctx,
		 struct resizes **ret_resizes)
{
	unsigned n = pools_count(pools);
	struct resizes *resizes = calloc(1, sizeof(*resizes));

	if (!resizes || !(resizes->each = calloc(n, sizeof(*resizes->each)))) {
		free(resizes);
		return err_set(-ENOMEM, "no memory for the pools' sizes");
	}
	resizes->pools = pools;
	resizes->ledger = ledger;
	resizes->events = events;
	resizes->ctx = ctx;
	resizes->n = n;
	for (unsigned i = 0; i < n; i++) {
		struct pool_status status;

		pools_status(pools, i, &status);
		resizes->each[i].target = status.bytes;
		resizes->each[i].until_ms = UINT64_MAX;
		resizes->each[i].deadly = pools_params(pools, i)->bytes_grown;
	}
	*ret_resizes = resizes;
	return 0;
}

void resizes_close(struct resizes *resizes)
{
	struct pool_status status;

	if (!resizes)
		return;
	/* the next process begins a growth again that is stopped now */
	for (unsigned i = 0; i < resizes->n; i++) {
		pools_status(resizes->pools, i, &status);
		if (status.resizing == POOL_GROWS)
			growth_over(resizes, i);
	}
	free(resizes->each);
	free(resizes);
}
