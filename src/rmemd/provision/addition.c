/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/provision/addition.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "rmemd/pool/capacity.h"
#include "rmemd/provision/plan.h"

int additions_open(struct additions *additions)
{
	list_init(&additions->all);
	return plan_next_id(additions->ledger, &additions->next_id);
}

static void addition_delete(struct addition *addition)
{
	list_remove(&addition->link);
	free(addition);
}

void additions_close(struct additions *additions)
{
	while (!list_empty(&additions->all))
		addition_delete(list_first(&additions->all, struct addition, link));
}

/* ---- results ---- */

/* The error is set.  Without a pool the next process would not start: so it is an error. */
static void addition_fail(struct addition *addition, int err)
{
	err_save(&addition->failed, err);
	addition->state = ADDITION_FAILED;
	addition->pool = NULL;
	log_event(LOG_ERR, "pool-not-added",
		  &(struct log_ctx){ .pool = addition->params.name },
		  "%s; fix that and reload: rmemd would not start with this "
		  "configuration",
		  err_text());
}

static struct addition *addition_of(const struct additions *additions,
				    const struct pool *pool)
{
	list_for_each_entry(struct addition, addition, &additions->all, link)
		if (addition->pool == pool)
			return addition;
	return NULL;
}

static void addition_enter(struct additions *additions, struct addition *addition,
			   const struct pools_added *added)
{
	const struct pool_status *status = &added->status;

	pools_enter(additions->pools, added->pool);
	additions->entered(additions->ctx, pools_count(additions->pools) - 1);
	log_event(LOG_NOTICE, "pool-added", &(struct log_ctx){ .pool = status->name },
		  "%s on pages of %s (%s), node %d%s%s", UNITS_BYTES(status->bytes),
		  UNITS_BYTES(status->page_bytes), pool_pages_name(status->pages_got),
		  status->node_got, *added->text ? "; " : "", added->text);
	addition_delete(addition);
}

void additions_result(struct additions *additions, const struct pools_added *added)
{
	struct addition *addition = addition_of(additions, added->pool);
	int err = added->err;

	if (err)
		err = err_set(err, "%s", added->text);
	else if (addition->state == ADDITION_OPENS)
		err = plan_record_added(&addition->params, &added->status,
					additions->next_id, additions->ledger,
					additions->store);
	if (!err && addition->state == ADDITION_OPENS) {
		addition_enter(additions, addition, added);
		return;
	}
	if (addition->state == ADDITION_STOPS)
		addition_delete(addition);
	else
		addition_fail(addition, err);
	pools_drop(additions->pools, added->pool);
}

/* ---- one after the other ---- */

/* How free memory is divided among pools of `size = auto` that are added together. */
struct division {
	struct pool_params pools[CONFIG_POOLS_MAX];
	size_t n;
	int node; /* of `unused` */
	uint64_t unused[CAPACITY_KINDS];
};

/* The memory that is free on the node; it is read once for pools of one node. */
static void division_set_node(struct division *division, int node, bool first)
{
	if (first || node != division->node)
		capacity_free(node, division->unused);
	division->node = node;
}

static unsigned count_opening(const struct additions *additions)
{
	unsigned n = 0;

	list_for_each_entry(const struct addition, addition, &additions->all, link)
		n += addition->pool != NULL;
	return n;
}

static int addition_open(struct additions *additions, struct addition *addition,
			 const struct share shares[CAPACITY_KINDS],
			 const uint64_t unused[CAPACITY_KINDS])
{
	struct pool_params *params = &addition->params;
	int err;

	/* as many as the next process can open */
	if (pools_count(additions->pools) + count_opening(additions) >= PLAN_POOLS_MAX)
		return err_set(-ENOSPC,
			       "there are %d pools with those that are leaving, and no "
			       "room for more: have leases of these freed",
			       PLAN_POOLS_MAX);
	params->id = additions->next_id++;
	err = fdstore_make_pool(additions->store, params->id, &params->file);
	if (err)
		return err;
	err = pools_add(additions->pools, params, shares, unused, &addition->pool);
	if (err)
		fdstore_drop_pool(additions->store, params->id);
	return err;
}

static void addition_start(struct additions *additions, struct addition *addition,
			   const struct share shares[CAPACITY_KINDS],
			   const uint64_t unused[CAPACITY_KINDS])
{
	int err = addition_open(additions, addition, shares, unused);

	if (err) {
		addition_fail(addition, err);
		return;
	}
	addition->state = ADDITION_OPENS;
	log_event(LOG_NOTICE, "pool-adding",
		  &(struct log_ctx){ .pool = addition->params.name },
		  "it has a section now, and gets its memory");
}

static bool is_auto(const struct addition *addition)
{
	return addition->params.bytes == POOL_BYTES_AUTO;
}

/* Pools of a fixed size do not depend on what is free. */
static void start_fixed(struct additions *additions)
{
	static const struct share no_shares[CAPACITY_KINDS];
	static const uint64_t nothing[CAPACITY_KINDS];

	list_for_each_entry(struct addition, addition, &additions->all, link)
		if (addition->state == ADDITION_WAITS && !is_auto(addition))
			addition_start(additions, addition, no_shares, nothing);
}

static void start_auto(struct additions *additions)
{
	static struct division division;
	size_t i = 0;

	division.n = 0;
	list_for_each_entry(const struct addition, addition, &additions->all, link)
		if (addition->state == ADDITION_WAITS && division.n < CONFIG_POOLS_MAX)
			division.pools[division.n++] = addition->params;
	list_for_each_entry(struct addition, addition, &additions->all, link) {
		struct share shares[CAPACITY_KINDS];

		if (addition->state != ADDITION_WAITS)
			continue;
		for (unsigned kind = 0; kind < CAPACITY_KINDS; kind++)
			shares[kind] =
				capacity_share(division.pools, division.n, i, kind);
		division_set_node(&division, addition->params.node, i == 0);
		addition_start(additions, addition, shares, division.unused);
		i++;
	}
}

void additions_start(struct additions *additions)
{
	start_fixed(additions);
	/* free memory is divided when pools of a fixed size have theirs */
	if (count_opening(additions) == 0)
		start_auto(additions);
}

/* ---- the configuration ---- */

static bool in_table(const struct additions *additions, const char *name)
{
	for (unsigned i = 0; i < pools_count(additions->pools); i++)
		if (strcmp(pools_params(additions->pools, i)->name, name) == 0)
			return true;
	return false;
}

/* Whether the addition makes the pool as it is configured now. */
static bool makes(const struct addition *addition, const struct pool_params *params)
{
	struct pool_params asked = addition->params;

	/* those are not configured; all other bytes were zero before they were set */
	asked.id = params->id;
	asked.file = params->file;
	return addition->state == ADDITION_OPENS &&
	       memcmp(&asked, params, sizeof(asked)) == 0;
}

static bool is_made(const struct additions *additions, const struct pool_params *params)
{
	list_for_each_entry(const struct addition, addition, &additions->all, link)
		if (makes(addition, params))
			return true;
	return false;
}

static bool is_wanted(const struct addition *addition, const struct config *config)
{
	for (unsigned i = 0; i < config->n_pools; i++)
		if (makes(addition, &config->pools[i]))
			return true;
	return false;
}

/* Forget those that failed or have not begun, and stop others that are made otherwise. */
static void drop_unwanted(struct additions *additions, const struct config *config)
{
	list_for_each_entry_safe(struct addition, addition, &additions->all, link) {
		if (addition->state == ADDITION_STOPS || is_wanted(addition, config))
			continue;
		if (addition->state != ADDITION_OPENS) {
			addition_delete(addition);
			continue;
		}
		addition->state = ADDITION_STOPS;
		pools_add_stop(addition->pool);
	}
}

static void addition_want(struct additions *additions, const struct pool_params *params)
{
	struct addition *addition = calloc(1, sizeof(*addition));

	if (!addition) {
		log_event(LOG_ERR, "pool-not-added",
			  &(struct log_ctx){ .pool = params->name },
			  "no memory; reload to try again");
		return;
	}
	memcpy(&addition->params, params, sizeof(*params));
	list_init(&addition->link);
	list_append(&additions->all, &addition->link);
	/* cppcheck-suppress memleak ; the list has it */
}

void additions_configure(struct additions *additions, const struct config *config)
{
	drop_unwanted(additions, config);
	for (unsigned i = 0; i < config->n_pools; i++) {
		const struct pool_params *params = &config->pools[i];

		if (!in_table(additions, params->name) && !is_made(additions, params))
			addition_want(additions, params);
	}
	additions_start(additions);
}

bool additions_progress(const struct additions *additions, uint64_t *ret_done,
			uint64_t *ret_bytes)
{
	bool any = false;

	*ret_done = *ret_bytes = 0;
	list_for_each_entry(const struct addition, addition, &additions->all, link) {
		uint64_t bytes;

		if (addition->state != ADDITION_OPENS)
			continue;
		any = true;
		*ret_done += pools_add_progress(addition->pool, &bytes);
		*ret_bytes += bytes;
	}
	return any;
}
