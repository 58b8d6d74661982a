/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/provision/resize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/units.h"
#include "rmemd/provision/addition.h"
#include "rmemd/provision/plan.h"
#include "rmemd/system/fdstore.h"
#include "rmemd/system/progress.h"

/* The configured size of one pool. */
struct resize {
	uint64_t target; /* the pool's own size: nothing to do; 0: it is removed */
	/* deadline of POOL_RECLAIMS; UINT64_MAX: none, or passed */
	uint64_t until_ms;
	bool moving; /* its end; there is more to do in the next turn of the loop */
	struct pool_holders holders; /* POOL_RECLAIMS, after the deadline */
	uint64_t ignored; /* size configured for another node or pages; 0: none */
	/* The size to which the pool grew when the last process ended; 0: it did not grow. */
	uint64_t crashed_target;
};

struct resizes {
	struct pools *pools;
	struct ledger *ledger;
	struct fdstore *store;
	const struct resizes_events *events;
	void *ctx;
	const struct config *config; /* NULL: not configured yet */
	struct additions additions;
	struct resize by_pool[PLAN_POOLS_MAX];
	bool more; /* memory to lend was added or taken away */
	/* of one growth, or of several that overlap */
	uint64_t grown_bytes; /* added by growths that are done */
	struct progress progress;
};

static unsigned count(const struct resizes *resizes)
{
	return pools_count(resizes->pools);
}

/* ---- growing ---- */

bool resizes_growing(const struct resizes *resizes, uint64_t *ret_done,
		     uint64_t *ret_bytes)
{
	uint64_t done, bytes;
	bool any = additions_progress(&resizes->additions, &done, &bytes);

	for (unsigned i = 0; i < count(resizes); i++) {
		struct pool_status status = pools_status(resizes->pools, i);

		if (status.resizing != POOL_GROWS)
			continue;
		any = true;
		done += status.populated;
		bytes += status.bytes_to - status.bytes;
	}
	if (any) {
		*ret_done = resizes->grown_bytes + done;
		*ret_bytes = resizes->grown_bytes + bytes;
	}
	return any;
}

/* Call it before memory is added: what grows together has one progress. */
static void growth_begin(struct resizes *resizes)
{
	uint64_t done, bytes;

	if (resizes_growing(resizes, &done, &bytes))
		return;
	resizes->grown_bytes = 0;
	resizes->progress = (struct progress){ 0 };
}

void resizes_log_growth(struct resizes *resizes, uint64_t done, uint64_t bytes)
{
	progress_log(&resizes->progress, done, bytes);
}

/* The pool keeps its size until the configuration is loaded again. */
static void resize_give_up(struct resizes *resizes, unsigned i, const char *event,
			   const char *why)
{
	struct pool_status status = pools_status(resizes->pools, i);

	resizes->by_pool[i].target = status.bytes;
	log_event(LOG_WARNING, event, &(struct log_ctx){ .pool = status.name },
		  "it stays at %s: %s", UNITS_BYTES(status.bytes), why);
}

/* Record the pool's present size, and the size that it grows to; 0: it does not grow. */
static int size_record(const struct resizes *resizes, unsigned i, uint64_t bytes_grown)
{
	return plan_record_size(resizes->pools, i,
				pools_status(resizes->pools, i).bytes, bytes_grown,
				resizes->ledger);
}

/* Remove the growth from the ledger, so that the next process may begin it again at its start.  If
 * the ledger is full, the record stays, and only a reload begins the growth again. */
static void growth_record_clear(const struct resizes *resizes, unsigned i)
{
	(void)size_record(resizes, i, 0);
}

static void grow_start(struct resizes *resizes, unsigned i,
		       const struct pool_status *status)
{
	uint64_t target = resizes->by_pool[i].target;

	log_event(LOG_NOTICE, "pool-growing", &(struct log_ctx){ .pool = status->name },
		  "from %s to %s", UNITS_BYTES(status->bytes), UNITS_BYTES(target));
	if (size_record(resizes, i, target)) {
		resize_give_up(resizes, i, "pool-not-grown", err_text());
		return;
	}
	growth_begin(resizes);
	if (pools_grow(resizes->pools, i, target)) {
		resize_give_up(resizes, i, "pool-not-grown", err_text());
		growth_record_clear(resizes, i);
	}
}

static void on_grown(struct resizes *resizes, const struct pools_resized *resized)
{
	struct pools *pools = resizes->pools;
	const char *name = pools_params(pools, resized->i)->name;
	struct pool_status status;

	if (resized->err) {
		/* if it was stopped, or the target is smaller by now, resize_step() continues */
		if (resized->err != -ECANCELED &&
		    resizes->by_pool[resized->i].target >= resized->wanted)
			resize_give_up(resizes, resized->i, "pool-not-grown",
				       resized->text);
		growth_record_clear(resizes, resized->i);
		return;
	}
	/* before the memory is lent, so that the next process knows of it */
	if (plan_record_size(pools, resized->i, resized->bytes, 0, resizes->ledger)) {
		resize_give_up(resizes, resized->i, "pool-not-grown", err_text());
		pools_shrink(pools, resized->i);
		return;
	}
	status = pools_status(pools, resized->i);
	resizes->grown_bytes += resized->bytes - status.bytes;
	pools_lend(pools, resized->i);
	resizes->more = true;
	log_event(LOG_NOTICE, "pool-grown", &(struct log_ctx){ .pool = name },
		  "it has %s now%s%s", UNITS_BYTES(resized->bytes),
		  *resized->text ? "; " : "", resized->text);
}

/* ---- shrinking ---- */

static void close_start(struct resizes *resizes, unsigned i)
{
	struct resize *resize = &resizes->by_pool[i];
	const struct pool_params *params = pools_params(resizes->pools, i);
	bool leaves = resize->target == 0;
	uint64_t now_ms = clock_now_ms(), until_ms = now_ms + params->shrink_wait_ms;

	/* leases in a pool that is leaving may stay */
	if (pools_reclaim(resizes->pools, i, resize->target,
			  leaves ? UINT64_MAX : until_ms)) {
		resize_give_up(resizes, i,
			       leaves ? "pool-not-removed" : "pool-not-shrunk",
			       err_text());
		return;
	}
	/* they are named in the log at once */
	resize->until_ms = leaves ? now_ms : until_ms;
	resize->holders = (struct pool_holders){ .pool = params->id };
	/* requests that wait for memory of this pool wait for that of others, or fail */
	resizes->more |= leaves;
}

/* The end is closed. */
static void reclaim_start(const struct resizes *resizes, unsigned i)
{
	const struct pool_params *params = pools_params(resizes->pools, i);
	struct pool_status status = pools_status(resizes->pools, i);

	resizes->events->reclaim(resizes->ctx);
	if (status.leaving)
		return;
	log_event(
		LOG_NOTICE, "pool-shrinking", &(struct log_ctx){ .pool = status.name },
		"from %s to %s; %s of the end to cut off are in use, and after %" PRIu64
		" s %s",
		UNITS_BYTES(status.bytes), UNITS_BYTES(status.bytes_to),
		UNITS_BYTES(status.to_reclaim), params->shrink_wait_ms / 1000,
		params->shrink == POOL_SHRINK_REVOKE ? "leases there are revoked"
						     : "the pool keeps its size");
}

static void reclaim_cancel(struct resizes *resizes, unsigned i)
{
	pools_reclaim_cancel(resizes->pools, i);
	resizes->by_pool[i].until_ms = UINT64_MAX;
	resizes->events->reclaim(resizes->ctx);
}

static void reclaim_deadline(struct resizes *resizes, unsigned i)
{
	const struct pool_params *params = pools_params(resizes->pools, i);
	struct resize *resize = &resizes->by_pool[i];
	char holders[512], why[600];

	if (!resizes->events->find_leases(resizes->ctx, &resize->holders, holders,
					  sizeof(holders)))
		return;
	resize->until_ms = UINT64_MAX;
	/* without leases there, wait: the rest is being zeroed, or has dying keys */
	if (resize->holders.n == 0)
		return;
	if (resize->target == 0) {
		log_event(LOG_NOTICE, "pool-leaving",
			  &(struct log_ctx){ .pool = params->name },
			  "it has no section any more, and is removed when these are "
			  "free: %s",
			  holders);
		return;
	}
	if (params->shrink == POOL_SHRINK_REVOKE) {
		log_event(LOG_NOTICE, "pool-revokes",
			  &(struct log_ctx){ .pool = params->name },
			  "in the way are still %s", holders);
		resizes->events->reclaim(resizes->ctx);
		return;
	}
	(void)snprintf(why, sizeof(why),
		       "in the way are still %s; have them freed and reload, or say "
		       "shrink = revoke",
		       holders);
	resize_give_up(resizes, i, "pool-not-shrunk", why);
	reclaim_cancel(resizes, i);
}

static void reclaim_check(struct resizes *resizes, unsigned i)
{
	struct resize *resize = &resizes->by_pool[i];
	struct pool_status status = pools_status(resizes->pools, i);

	if (status.to_reclaim == 0) {
		resize->until_ms = UINT64_MAX;
		pools_shrink(resizes->pools, i);
	} else if (resize->until_ms <= clock_now_ms()) {
		reclaim_deadline(resizes, i);
	}
}

static void on_shrunk(struct resizes *resizes, const struct pools_resized *resized)
{
	struct pools *pools = resizes->pools;
	const char *name = pools_params(pools, resized->i)->name;
	struct pool_status status = pools_status(pools, resized->i);

	/* if the ledger is full, it keeps the old size; the next process uses that of the file,
	 * which is not larger */
	(void)size_record(resizes, resized->i, 0);
	/* tell clients that nothing is wanted back any more */
	resizes->events->reclaim(resizes->ctx);
	log_event(resized->err ? LOG_WARNING : LOG_NOTICE, "pool-shrunk",
		  &(struct log_ctx){ .pool = name }, "it has %s now%s%s",
		  UNITS_BYTES(status.bytes),
		  resized->err ? ", but the kernel has not all of it back: " : "",
		  resized->text);
}

/* ---- removing ---- */

/* Nothing is left of it.  If the process ends from here on, the next one gives the file up. */
static void pool_remove(struct resizes *resizes, unsigned i)
{
	plan_forget(pools_params(resizes->pools, i)->id, resizes->ledger);
	pools_remove(resizes->pools, i);
	memmove(&resizes->by_pool[i], &resizes->by_pool[i + 1],
		(count(resizes) - i) * sizeof(resizes->by_pool[0]));
	resizes->events->removed(resizes->ctx);
}

static void on_dropped(const struct resizes *resizes,
		       const struct pools_dropped *dropped)
{
	fdstore_drop_pool(resizes->store, dropped->id);
	if (dropped->entered)
		log_event(LOG_NOTICE, "pool-removed",
			  &(struct log_ctx){ .pool = dropped->name },
			  "the system has its %s back", UNITS_BYTES(dropped->bytes));
}

/* ---- adding ---- */

static void resize_init(struct resizes *resizes, unsigned i)
{
	resizes->by_pool[i] = (struct resize){
		.target = pools_status(resizes->pools, i).bytes,
		.until_ms = UINT64_MAX,
		.crashed_target = pools_params(resizes->pools, i)->bytes_grown,
	};
}

static void on_entered(void *ctx, unsigned i)
{
	struct resizes *resizes = ctx;

	resize_init(resizes, i);
	resizes->grown_bytes += resizes->by_pool[i].target;
	resizes->more = true;
	resizes->events->added(resizes->ctx, i);
}

const struct additions *resizes_additions(const struct resizes *resizes)
{
	return resizes ? &resizes->additions : NULL;
}

/* ---- the state machine ---- */

static void rest_step(struct resizes *resizes, unsigned i,
		      const struct pool_status *status)
{
	if (resizes->by_pool[i].target > status->bytes)
		grow_start(resizes, i, status);
	else if (resizes->by_pool[i].target < status->bytes)
		close_start(resizes, i);
}

static void reclaim_step(struct resizes *resizes, unsigned i,
			 const struct pool_status *status)
{
	if (resizes->by_pool[i].target != status->bytes_to)
		reclaim_cancel(resizes, i);
	else
		reclaim_check(resizes, i);
}

static void close_step(struct resizes *resizes, unsigned i,
		       const struct pool_status *status)
{
	if (resizes->by_pool[i].target != status->bytes_to)
		reclaim_cancel(resizes, i);
	else if (pools_move_end(resizes->pools, i))
		reclaim_start(resizes, i);
}

static void resize_step(struct resizes *resizes, unsigned i)
{
	struct pool_status status = pools_status(resizes->pools, i);

	switch (status.resizing) {
	case POOL_RESTS:
		rest_step(resizes, i, &status);
		break;
	case POOL_GROWS:
		if (resizes->by_pool[i].target < status.bytes_to)
			pools_grow_stop(resizes->pools, i);
		break;
	case POOL_CLOSES:
		close_step(resizes, i, &status);
		break;
	case POOL_RECLAIMS:
		reclaim_step(resizes, i, &status);
		break;
	case POOL_REOPENS:
		resizes->more |= pools_move_end(resizes->pools, i);
		break;
	case POOL_CUTS:
		(void)pools_move_end(resizes->pools, i);
		break;
	case POOL_SHRINKS:
	case POOL_EMPTY:
		break;
	}
}

/* Take steps until a state lasts, or a part of a longer work is done. */
static void resize_pool(struct resizes *resizes, unsigned i)
{
	enum pool_resizing before, now;

	do {
		before = pools_status(resizes->pools, i).resizing;
		resize_step(resizes, i);
		now = pools_status(resizes->pools, i).resizing;
	} while (now != before);
	resizes->by_pool[i].moving =
		now == POOL_CLOSES || now == POOL_REOPENS || now == POOL_CUTS;
}

/* What the thread has done. */
static void take_results(struct resizes *resizes)
{
	struct pools_resized resized;
	struct pools_added added;
	struct pools_dropped dropped;

	while (pools_resized(resizes->pools, &resized)) {
		if (resized.grown)
			on_grown(resizes, &resized);
		else
			on_shrunk(resizes, &resized);
	}
	while (pools_added(resizes->pools, &added))
		additions_result(&resizes->additions, &added);
	while (pools_dropped(resizes->pools, &dropped))
		on_dropped(resizes, &dropped);
}

bool resizes_work(struct resizes *resizes)
{
	bool more, removed = false;

	take_results(resizes);
	for (unsigned i = 0; i < count(resizes);) {
		resize_pool(resizes, i);
		if (pools_status(resizes->pools, i).resizing == POOL_EMPTY) {
			pool_remove(resizes, i);
			removed = true;
		} else {
			i++;
		}
	}
	/* one with its name may be configured again */
	if (removed && resizes->config)
		additions_configure(&resizes->additions, resizes->config);
	else
		additions_start(&resizes->additions);
	more = resizes->more;
	resizes->more = false;
	return more;
}

uint64_t resizes_next_ms(const struct resizes *resizes)
{
	uint64_t next_ms = UINT64_MAX;

	for (unsigned i = 0; resizes && i < count(resizes); i++) {
		const struct resize *resize = &resizes->by_pool[i];
		uint64_t due_ms = resize->moving ? 0 : resize->until_ms;

		if (due_ms < next_ms)
			next_ms = due_ms;
	}
	return next_ms;
}

/* ---- the configuration ---- */

/* Whether the last process ended during this growth: then only a reload begins it again, as this
 * process may end too. */
static bool growth_crashed_before(struct resizes *resizes, unsigned i)
{
	struct resize *resize = &resizes->by_pool[i];
	uint64_t crashed_target = resize->crashed_target;
	char why[160];

	resize->crashed_target = 0;
	if (!crashed_target || resize->target < crashed_target)
		return false;
	(void)snprintf(
		why, sizeof(why),
		"the last process ended while it made it %s; reload to try again",
		UNITS_BYTES(crashed_target));
	resize_give_up(resizes, i, "pool-not-grown", why);
	return true;
}

/* The size of a pool that is configured so. */
static uint64_t whole_pages(const struct pool_params *params, uint64_t page_bytes)
{
	return (params->bytes + page_bytes - 1) / page_bytes * page_bytes;
}

uint64_t resizes_bytes(const struct resizes *resizes, unsigned i)
{
	const struct pool_params *asked = pools_params(resizes->pools, i);
	uint64_t page_bytes = pools_status(resizes->pools, i).page_bytes,
		 target = resizes->by_pool[i].target;

	/* a pool that leaves has no other size */
	if (asked->bytes == POOL_BYTES_AUTO || target == 0 ||
	    target == whole_pages(asked, page_bytes))
		return asked->bytes;
	return target;
}

static void configure_pool(struct resizes *resizes, unsigned i,
			   const struct pool_params *params)
{
	struct resize *resize = &resizes->by_pool[i];
	const struct pool_params *is = pools_params(resizes->pools, i);
	bool new_terms = is->shrink != params->shrink ||
			 is->shrink_wait_ms != params->shrink_wait_ms;
	bool new_size = is->bytes != params->bytes;
	struct pool_status status = pools_status(resizes->pools, i);

	resize->target = whole_pages(params, status.page_bytes);
	pools_set_asked(resizes->pools, i, params);
	if ((status.resizing == POOL_CLOSES || status.resizing == POOL_RECLAIMS) &&
	    new_terms)
		reclaim_cancel(resizes, i);
	if (growth_crashed_before(resizes, i))
		return;
	/* so that the next process does not see a change; if the ledger is full, it sees one, and
	 * finds that the pool has this size */
	if (status.resizing == POOL_RESTS && new_size && resize->target == status.bytes)
		(void)size_record(resizes, i, 0);
}

/* Another node or other pages are configured.  The log told at the start that these have no effect;
 * a size configured later has none either. */
static void ignore_pool(struct resizes *resizes, unsigned i,
			const struct pool_params *params)
{
	struct resize *resize = &resizes->by_pool[i];
	bool new_size = resize->ignored && resize->ignored != params->bytes;
	struct pool_status status;

	resize->ignored = params->bytes;
	if (!new_size)
		return;
	status = pools_status(resizes->pools, i);
	log_event(LOG_WARNING, "pool-stays", &(struct log_ctx){ .pool = status.name },
		  "it stays at %s, too, as its node or page_size is configured "
		  "otherwise",
		  UNITS_BYTES(status.bytes));
}

static const struct pool_params *find_params(const struct config *config,
					     const char *name)
{
	for (unsigned i = 0; i < config->n_pools; i++)
		if (strcmp(config->pools[i].name, name) == 0)
			return &config->pools[i];
	return NULL;
}

/* It was leaving, and is configured again. */
static void return_pool(struct resizes *resizes, unsigned i)
{
	struct pool_status status = pools_status(resizes->pools, i);

	resizes->by_pool[i].target = status.bytes;
	/* otherwise it is removed, and then added */
	if (status.resizing != POOL_CUTS)
		log_event(LOG_NOTICE, "pool-returns",
			  &(struct log_ctx){ .pool = status.name },
			  "it has a section again, and stays");
}

void resizes_configure(struct resizes *resizes, const struct config *config)
{
	resizes->config = config;
	for (unsigned i = 0; i < count(resizes); i++) {
		const struct pool_params *is = pools_params(resizes->pools, i);
		const struct pool_params *params = find_params(config, is->name);

		if (!params) {
			resizes->by_pool[i].target = 0;
			continue;
		}
		if (resizes->by_pool[i].target == 0)
			return_pool(resizes, i);
		if (params->node != is->node || params->pages != is->pages)
			ignore_pool(resizes, i, params);
		else if (params->bytes != POOL_BYTES_AUTO)
			configure_pool(resizes, i, params);
		else if (is->bytes == POOL_BYTES_AUTO && is->share == params->share)
			/* the size stays, and the terms hold when the pool is removed */
			pools_set_asked(resizes->pools, i, params);
	}
	growth_begin(resizes);
	additions_configure(&resizes->additions, config);
}

int resizes_open(struct pools *pools, struct ledger *ledger, struct fdstore *store,
		 const struct resizes_events *events, void *ctx,
		 struct resizes **ret_resizes)
{
	struct resizes *resizes = calloc(1, sizeof(*resizes));
	int err;

	if (!resizes)
		return err_set(-ENOMEM, "no memory for the pools' sizes");
	resizes->pools = pools;
	resizes->ledger = ledger;
	resizes->store = store;
	resizes->events = events;
	resizes->ctx = ctx;
	resizes->additions = (struct additions){ .pools = pools,
						 .ledger = ledger,
						 .store = store,
						 .entered = on_entered,
						 .ctx = resizes };
	err = additions_open(&resizes->additions);
	if (err) {
		free(resizes);
		return err;
	}
	for (unsigned i = 0; i < pools_count(pools); i++)
		resize_init(resizes, i);
	*ret_resizes = resizes;
	return 0;
}

void resizes_close(struct resizes *resizes)
{
	if (!resizes)
		return;
	/* the next process begins growths again that are stopped now */
	for (unsigned i = 0; i < count(resizes); i++)
		if (pools_status(resizes->pools, i).resizing == POOL_GROWS)
			growth_record_clear(resizes, i);
	additions_close(&resizes->additions);
	free(resizes);
}
