/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/provision/plan.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_value.h"

/* A pool as configured; its name follows, then those of its devices, each ended by a zero. */
struct pool_head {
	uint32_t head_bytes;
	int32_t node;
	uint64_t bytes;
	uint32_t pages;
	uint32_t share;
	uint32_t pages_kept; /* pages that the pool got */
	uint32_t unused;
	uint64_t bytes_kept;  /* of the file that belong to the pool; 0: all */
	uint64_t bytes_grown; /* the size that the pool grows to; 0: it does not grow */
	uint64_t n_devices;
};

/* Values that have no key of their own. */
struct ids_head {
	uint32_t head_bytes;
	uint32_t next_pool; /* leases may still refer to pools that are gone */
};

static const struct ledger_key ids_key = { LEDGER_IDS, 0, 0 };

/* ---- the pools of the last process ---- */

static bool devices_parse(struct value *value, uint64_t n, struct pool_params *params)
{
	if (n > POOL_DEVICES_MAX)
		return false;
	for (; params->n_devices < n; params->n_devices++) {
		const char *device = value_parse_text(value, POOL_DEVICE_MAX);

		if (!device)
			return false;
		memcpy(params->devices[params->n_devices], device, strlen(device) + 1);
	}
	return true;
}

static int on_pool(const struct ledger_key *key, const void *data, size_t bytes,
		   void *arg)
{
	struct plan *before = arg;
	struct pool_params *params = &before->pools[before->n_pools];
	struct value value = { data, bytes };
	const char *name = NULL;
	struct pool_head head;

	if (before->n_pools == sizeof(before->pools) / sizeof(before->pools[0]))
		return err_set(-ENOSPC, "the ledger has more pools than there can be");
	if (value_parse_head(&value, &head, sizeof(head)))
		name = value_parse_text(&value, POOL_NAME_MAX);
	if (!name || key->a > UINT32_MAX || key->a == 0 || key->b ||
	    !pool_pages_name((enum pool_pages)head.pages) ||
	    !pool_pages_name((enum pool_pages)head.pages_kept))
		return value_malformed("pool", key);
	*params = (struct pool_params){ .node = head.node,
					.bytes = head.bytes,
					.pages = (enum pool_pages)head.pages,
					.share = head.share,
					.id = (uint32_t)key->a,
					.kept = true,
					.pages_kept = (enum pool_pages)head.pages_kept,
					.bytes_kept = head.bytes_kept,
					.bytes_grown = head.bytes_grown };
	memcpy(params->name, name, strlen(name) + 1);
	if (!devices_parse(&value, head.n_devices, params))
		return value_malformed("pool", key);
	before->n_pools++;
	return 0;
}

static bool params_same(const struct pool_params *a, const struct pool_params *b)
{
	return a->node == b->node && a->bytes == b->bytes && a->pages == b->pages &&
	       a->share == b->share;
}

/* Whether a pool of the last process can be resized to its configuration. */
static bool params_resizable(const struct pool_params *now,
			     const struct pool_params *before)
{
	return now->node == before->node && now->pages == before->pages &&
	       now->bytes != POOL_BYTES_AUTO;
}

/* Whether both are lent through the same devices.  Both were zero before they were filled in. */
static bool same_devices(const struct pool_params *a, const struct pool_params *b)
{
	return a->n_devices == b->n_devices &&
	       memcmp(a->devices, b->devices, sizeof(a->devices)) == 0;
}

static const struct pool_params *find_params(const struct pool_params *pools,
					     unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(pools[i].name, name) == 0)
			return &pools[i];
	return NULL;
}

void plan_forget(uint32_t id, struct ledger *ledger)
{
	struct ledger_key key = { LEDGER_POOL, id, 0 };

	ledger_remove(ledger, &key);
	ledger_commit(ledger);
}

/* Add pools of the last process that stay, and drop the others. */
static int add_kept(struct plan *plan, const struct plan *before,
		    const struct config *config, struct ledger *ledger,
		    struct fdstore *store, plan_uses_pool *uses_pool,
		    void (*stays)(const struct pool_params *params))
{
	for (unsigned i = 0; i < before->n_pools; i++) {
		const struct pool_params *params = &before->pools[i];
		const struct pool_params *now =
			find_params(config->pools, config->n_pools, params->name);
		struct pool_params *take;
		bool as_asked = now && params_same(now, params);
		bool used = uses_pool(ledger, params->id);
		int file, err = fdstore_find_pool(store, params->id, &file);

		if (err)
			return err;
		if (!file || (!as_asked && !used)) {
			plan_forget(params->id, ledger);
			fdstore_drop_pool(store, params->id);
			continue;
		}
		take = &plan->pools[plan->n_pools++];
		*take = *params;
		take->file = file;
		/* the memory does not depend on the devices */
		if (now && !same_devices(now, params)) {
			memcpy(take->devices, now->devices, sizeof(take->devices));
			take->n_devices = now->n_devices;
			plan->changed[plan->n_pools - 1] = true;
		}
		if (now && !as_asked && !params_resizable(now, params))
			stays(params);
	}
	return 0;
}

/* ---- new pools ---- */

static int on_ids(const struct ledger_key *key, const void *data, size_t bytes,
		  void *arg)
{
	struct value value = { data, bytes };
	struct ids_head head;

	(void)key;
	if (!value_parse_head(&value, &head, sizeof(head)) || !head.next_pool)
		return err_set(-EBADMSG, "the ledger's ids are malformed");
	*(uint32_t *)arg = head.next_pool;
	return 0;
}

int plan_next_id(const struct ledger *ledger, uint32_t *ret_id)
{
	*ret_id = 1;
	return ledger_each(ledger, LEDGER_IDS, on_ids, ret_id);
}

static int add_new(struct plan *plan, const struct config *config,
		   struct fdstore *store)
{
	int err = 0;

	for (unsigned i = 0; !err && i < config->n_pools; i++) {
		struct pool_params *params = &plan->pools[plan->n_pools];

		if (find_params(plan->pools, plan->n_pools, config->pools[i].name))
			continue;
		if (plan->n_pools == PLAN_POOLS_MAX)
			return err_set(-ENOSPC,
				       "%u pools besides those that stay, as there are "
				       "leases in them: too many",
				       config->n_pools);
		*params = config->pools[i];
		params->id = plan->next_id++;
		err = fdstore_make_pool(store, params->id, &params->file);
		plan->fresh[plan->n_pools++] = true;
	}
	return err;
}

int plan_make(struct plan *plan, const struct config *config, struct ledger *ledger,
	      struct fdstore *store, plan_uses_pool *uses_pool,
	      void (*stays)(const struct pool_params *params))
{
	static struct plan before;
	uint32_t ids[PLAN_POOLS_MAX];
	int err;

	before.n_pools = plan->n_pools = 0;
	memset(plan->fresh, 0, sizeof(plan->fresh));
	memset(plan->changed, 0, sizeof(plan->changed));
	err = ledger_each(ledger, LEDGER_POOL, on_pool, &before);
	if (!err)
		err = plan_next_id(ledger, &plan->next_id);
	if (err)
		return err;
	for (unsigned i = 0; i < before.n_pools; i++)
		ids[i] = before.pools[i].id;
	/* first, as new pools may need the memory of such files */
	/* cppcheck-suppress uninitvar ; as many as there are */
	err = fdstore_sweep(store, ids, before.n_pools);
	if (!err)
		err = add_kept(plan, &before, config, ledger, store, uses_pool, stays);
	return err ? err : add_new(plan, config, store);
}

static int pool_put(const struct pool_params *params, enum pool_pages got,
		    uint64_t bytes, uint64_t bytes_grown, struct ledger *ledger)
{
	const struct ledger_key key = { LEDGER_POOL, params->id, 0 };
	const struct pool_head head = {
		.head_bytes = sizeof(head),
		.node = params->node,
		/* at most the size it got, so that a larger size counts as a change */
		.bytes = bytes < params->bytes ? bytes : params->bytes,
		.pages = params->pages,
		.share = params->share,
		.pages_kept = got,
		.bytes_kept = bytes,
		.bytes_grown = bytes_grown,
		.n_devices = params->n_devices,
	};
	char value[sizeof(head) + POOL_NAME_MAX + 1 +
		   POOL_DEVICES_MAX * (POOL_DEVICE_MAX + 1)];
	char *end = value_add(value, &head, sizeof(head));

	end = value_add_text(end, params->name, POOL_NAME_MAX);
	for (unsigned i = 0; i < params->n_devices; i++)
		end = value_add_text(end, params->devices[i], POOL_DEVICE_MAX);
	return ledger_put(ledger, &key, value, (size_t)(end - value));
}

static int next_id_put(uint32_t next_id, struct ledger *ledger)
{
	const struct ids_head ids = { sizeof(ids), next_id };

	return ledger_put(ledger, &ids_key, &ids, sizeof(ids));
}

int plan_record_added(const struct pool_params *params,
		      const struct pool_status *status, uint32_t next_id,
		      struct ledger *ledger, struct fdstore *store)
{
	int err = next_id_put(next_id, ledger);

	if (err)
		return err;
	/* before the record, as in plan_record() */
	fdstore_store_pool(store, params->id, status->file);
	err = pool_put(params, status->pages_got, status->bytes, 0, ledger);
	if (!err)
		ledger_commit(ledger);
	return err;
}

int plan_record(const struct plan *plan, const struct pools *pools,
		struct ledger *ledger, struct fdstore *store)
{
	int err = next_id_put(plan->next_id, ledger);

	for (unsigned i = 0; i < plan->n_pools && !err; i++) {
		const struct pool_params *params = &plan->pools[i];
		struct pool_status status = pools_status(pools, i);

		if (!plan->fresh[i] && !plan->changed[i])
			continue;
		/* before the record: a file without one is dropped, a record needs its file */
		if (plan->fresh[i])
			fdstore_store_pool(store, params->id, status.file);
		err = pool_put(params, status.pages_got, status.bytes,
			       params->bytes_grown, ledger);
	}
	if (!err)
		ledger_commit(ledger);
	return err;
}

int plan_record_size(const struct pools *pools, unsigned i, uint64_t bytes,
		     uint64_t bytes_grown, struct ledger *ledger)
{
	int err = pool_put(pools_params(pools, i), pools_status(pools, i).pages_got,
			   bytes, bytes_grown, ledger);

	if (!err)
		ledger_commit(ledger);
	return err;
}
