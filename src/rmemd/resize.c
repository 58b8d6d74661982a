/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/resize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/units.h"
#include "rmemd/plan.h"
#include "rmemd/lease/lease.h"
#include "rmemd/system/progress.h"

/* So many leases that are in the way a line of the log names. */
#define NAMED_MAX 4

/* One pool. */
struct resize {
	uint64_t target; /* its size to be; what it has: nothing is to be done */
	enum pool_shrink shrink;
	uint64_t wait_ms;
	uint64_t until_ms; /* of what is reclaimed; UINT64_MAX: nothing is due */
	uint64_t left;     /* size configured for another node or pages; 0: none */
	uint64_t deadly;   /* another process ended as it became so long; 0: none */
};

struct resizes {
	struct pools *pools;
	struct leases *leases;
	struct ledger *ledger;
	struct resize *each;
	unsigned n;
	bool more; /* was added, to be lent */
	/* of one growth, or several of which each began before the last was over */
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

/* ---- what is in the way ---- */

struct holding {
	uint64_t lease, bytes;
	char tenant[TENANT_NAME_MAX + 1];
};

struct holdings {
	struct holding most[NAMED_MAX]; /* the largest first */
	unsigned n;
	uint64_t bytes;
};

static int holding_add(const struct lease_status *status, uint64_t bytes, void *arg)
{
	struct holdings *all = arg;
	unsigned i = all->n < NAMED_MAX ? all->n : NAMED_MAX;

	all->n++;
	all->bytes += bytes;
	for (; i > 0 && all->most[i - 1].bytes < bytes; i--)
		if (i < NAMED_MAX)
			all->most[i] = all->most[i - 1];
	if (i == NAMED_MAX)
		return 0;
	all->most[i].lease = status->id;
	all->most[i].bytes = bytes;
	(void)snprintf(all->most[i].tenant, sizeof(all->most[i].tenant), "%s",
		       status->tenant);
	return 0;
}

/* False: what is in the way is nobody's any more. */
static bool holdings_text(const struct resizes *resizes, unsigned i, char *buf,
			  size_t buf_bytes)
{
	struct holdings all = { .n = 0 };
	struct text text;
	size_t used;

	(void)leases_each_reclaimed(resizes->leases,
				    pools_params(resizes->pools, i)->id, holding_add,
				    &all);
	used = (size_t)snprintf(buf, buf_bytes, "%s of %u lease%s",
				bytes_text(all.bytes, &text), all.n,
				all.n == 1 ? "" : "s");
	for (unsigned k = 0; k < all.n && k < NAMED_MAX && used < buf_bytes; k++)
		used += (size_t)snprintf(buf + used, buf_bytes - used,
					 "%s %" PRIu64 " of tenant %s has %s",
					 k ? "," : ":", all.most[k].lease,
					 all.most[k].tenant,
					 bytes_text(all.most[k].bytes, &text));
	if (all.n > NAMED_MAX && used < buf_bytes)
		(void)snprintf(buf + used, buf_bytes - used, ", ...");
	return all.n > 0;
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

/* It stays as it is until it is told again. */
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

/* Another process may begin it, too; without room to say so it waits to be told again. */
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
		/* when it was stopped, or is to be less meanwhile, step() goes on */
		if (resized->err != -ECANCELED &&
		    resizes->each[resized->i].target >= resized->wanted)
			give_up(resizes, resized->i, "pool-not-grown", resized->text);
		growth_over(resizes, resized->i);
		return;
	}
	/* what is lent there must be found by another process */
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
	leases_reclaim(resizes->leases);
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
	leases_reclaim(resizes->leases);
}

static void reclaim_due(struct resizes *resizes, unsigned i)
{
	struct resize *resize = &resizes->each[i];
	char who[512], why[600];

	resize->until_ms = UINT64_MAX;
	/* what is only being zeroed, or has keys that die, comes back by itself */
	if (!holdings_text(resizes, i, who, sizeof(who)))
		return;
	if (resize->shrink == POOL_SHRINK_REVOKE) {
		log_event(LOG_NOTICE, "pool-revokes",
			  &(struct log_ctx){
				  .pool = pools_params(resizes->pools, i)->name },
			  "in the way are still %s", who);
		leases_reclaim(resizes->leases);
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
	/* when there is no room for it the file tells, which is as long as that or shorter */
	(void)plan_record_size(pools, resized->i, status.bytes, resizes->ledger);
	/* nothing is wanted back any more */
	leases_reclaim(resizes->leases);
	log_event(resized->err ? LOG_WARNING : LOG_NOTICE, "pool-shrunk",
		  &(struct log_ctx){ .pool = name }, "it has %s now%s%s",
		  bytes_text(status.bytes, &text),
		  resized->err ? ", but the kernel has not all of it back: " : "",
		  resized->text);
}

/* ---- both ---- */

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

/* ---- what they are to be ---- */

/* What ended a process is not begun again by each that takes its place, but when whoever looks
 * after it says so. */
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

static void take_one(struct resizes *resizes, unsigned i,
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
	/* another process is not to take it for one that was configured otherwise; without room
	 * for that it finds that there is nothing to do */
	if (status.resizing == POOL_RESTS && new_size && resize->target == status.bytes)
		(void)plan_record_size(resizes->pools, i, status.bytes,
				       resizes->ledger);
}

/* It is configured as another one.  That it is not made so was said when it was opened, but not
 * that a size of later has no effect either. */
static void leave_one(struct resizes *resizes, unsigned i,
		      const struct pool_params *params)
{
	struct resize *resize = &resizes->each[i];
	bool new_size = resize->left && resize->left != params->bytes;
	struct pool_status status;
	struct text text;

	resize->left = params->bytes;
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
				leave_one(resizes, i, params);
			else if (params->bytes != POOL_BYTES_AUTO)
				take_one(resizes, i, params);
		}
	}
}

int resizes_open(struct pools *pools, struct leases *leases, struct ledger *ledger,
		 struct resizes **ret_resizes)
{
	unsigned n = pools_count(pools);
	struct resizes *resizes = calloc(1, sizeof(*resizes));

	if (!resizes || !(resizes->each = calloc(n, sizeof(*resizes->each)))) {
		free(resizes);
		return err_set(-ENOMEM, "no memory for the pools' sizes");
	}
	resizes->pools = pools;
	resizes->leases = leases;
	resizes->ledger = ledger;
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
	/* what is growing is stopped now, and goes on in the next process */
	for (unsigned i = 0; i < resizes->n; i++) {
		pools_status(resizes->pools, i, &status);
		if (status.resizing == POOL_GROWS)
			growth_over(resizes, i);
	}
	free(resizes->each);
	free(resizes);
}
