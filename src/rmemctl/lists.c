/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl pools, sessions, leases and tenants: tables. */
#include "rmemctl/list.h"
#include "rmemctl/view.h"

/* ---- pools ---- */

static const struct column pools_columns[] = {
	{ "POOL", "name", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "NODE", "node", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "(ASKED)", "node_asked", CELL_NUMBER, "any", COLUMN_WIDE },
	{ "PAGES", "pages", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "(ASKED)", "pages_asked", CELL_TEXT, "-", COLUMN_WIDE },
	{ "SIZE", "bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "(ASKED)", "bytes_asked", CELL_BYTES, "auto", COLUMN_WIDE },
	{ "STATE", "state", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "TO", "bytes_to", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "RECALLED", "recalled_bytes", CELL_BYTES, "-", COLUMN_WIDE },
	{ "LENT", "lent_bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "SCRUBBING", "scrubbing_bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "FREE", "free_bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "LARGEST", "largest_free_bytes", CELL_BYTES, "-", COLUMN_WIDE },
	{ "FRAGMENTED", "fragmentation_percent", CELL_PERCENT, "-", COLUMN_WIDE },
	{ "DEVICES", "devices", CELL_LIST, "all", COLUMN_WIDE },
	{ "ERROR", "error", CELL_TEXT, "-", COLUMN_WIDE },
	{ 0 },
};

const struct command pools_command = {
	.name = "pools",
	.synopsis = "pools [--sort COLUMN]",
	.summary = "its memory: nodes, pages, what is lent and free",
	.options = list_sort_options,
	.args = "no argument",
	.run = view_run,
	.columns = pools_columns,
};

/* ---- sessions ---- */

static const struct column sessions_columns[] = {
	{ "SESSION", "id", CELL_ID, "-", COLUMN_ALWAYS },
	{ "STATE", "state", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "TENANT", "tenant", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "PEER", "peer", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "FABRIC", "fabric", CELL_TEXT, "-", COLUMN_WIDE },
	{ "AUTH", "auth", CELL_TEXT, "-", COLUMN_WIDE },
	{ "CHANNELS", "channels", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "LEASES", "leases", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "KEYS", "keys", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "WATCHES", "watches", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "LENT", "lent_bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "AGE", "age_ms", CELL_TIME, "-", COLUMN_WIDE },
	{ "IDLE", "idle_ms", CELL_TIME, "-", COLUMN_ALWAYS },
	{ "RESUMES", "resumes", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "CLIENT", "client", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ 0 },
};

const struct command sessions_command = {
	.name = "sessions",
	.synopsis = "sessions [OPTION...]",
	.summary = "its clients",
	.options = list_options,
	.args = "no argument",
	.run = view_run,
	.columns = sessions_columns,
};

/* ---- leases ---- */

static const struct column leases_columns[] = {
	{ "LEASE", "id", CELL_ID, "-", COLUMN_ALWAYS },
	{ "STATE", "state", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "TENANT", "tenant", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "OWNER", "owner", CELL_ID, "-", COLUMN_WIDE },
	{ "CREATOR", "creator_client", CELL_TEXT, "-", COLUMN_WIDE },
	{ "FROM", "creator_peer", CELL_TEXT, "-", COLUMN_WIDE },
	{ "SIZE", "bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "LENT", "lent_bytes", CELL_BYTES, "-", COLUMN_WIDE },
	{ "SEGMENTS", "segments", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "PLACEMENT", "placement", CELL_TEXT, "-", COLUMN_WIDE },
	{ "(NODE)", "node_asked", CELL_NUMBER, "any", COLUMN_WIDE },
	{ "NODES", "nodes", CELL_SHARES, "-", COLUMN_WIDE },
	{ "SHARED", "shares", CELL_LIST, "-", COLUMN_WIDE },
	{ "SESSIONS", "sessions", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "WRITERS", "writers", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "AGE", "age_ms", CELL_TIME, "-", COLUMN_ALWAYS },
	{ "TTL", "ttl_ms", CELL_TIME, "none", COLUMN_ALWAYS },
	{ "NAME", "name", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ 0 },
};

/* Copy a member, if there is one.  Without memory its cell stays empty. */
static void member_copy(json_t *to, const char *key, const json_t *from,
			const char *from_key)
{
	json_t *value = json_object_get(from, from_key);

	if (value)
		(void)json_object_set(to, key, value);
}

static json_t *leases_items(json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *lease = json_array_get(list, i);
		const json_t *creator = json_object_get(lease, "creator");

		member_copy(lease, "creator_client", creator, "client");
		member_copy(lease, "creator_peer", creator, "peer");
	}
	return json_incref(list);
}

const struct command leases_command = {
	.name = "leases",
	.synopsis = "leases [OPTION...]",
	.summary = "what is lent, and to whom",
	.options = list_options,
	.args = "no argument",
	.run = view_run,
	.columns = leases_columns,
	.items = leases_items,
};

/* ---- the sessions of leases ---- */

static const struct column holders_columns[] = {
	{ "LEASE", "lease", CELL_ID, "-", COLUMN_ALWAYS },
	{ "SIZE", "bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "OWNED-BY", "owned_by", CELL_TEXT, "-", COLUMN_WIDE },
	{ "SESSION", "session", CELL_ID, "-", COLUMN_ALWAYS },
	{ "STATE", "state", CELL_TEXT, "-", COLUMN_WIDE },
	{ "RIGHTS", "rights", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "TENANT", "tenant", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "PEER", "peer", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "CLIENT", "client", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "NAME", "name", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ 0 },
};

/* A row for each session of each lease, or one without a session. */
static json_t *holders_items(json_t *leases)
{
	json_t *rows = json_array();
	int err = rows ? 0 : -1;

	for (size_t i = 0; i < json_array_size(leases); i++) {
		const json_t *lease = json_array_get(leases, i);
		json_t *attached = json_object_get(lease, "attached");
		size_t n = json_array_size(attached);

		for (size_t k = 0; !err && k < (n ? n : 1); k++) {
			json_t *row = n ? json_copy(json_array_get(attached, k))
					: json_object();

			member_copy(row, "lease", lease, "id");
			member_copy(row, "bytes", lease, "bytes");
			member_copy(row, "owned_by", lease, "tenant");
			member_copy(row, "name", lease, "name");
			err = json_array_append_new(rows, row);
		}
	}
	if (!err)
		return rows;
	json_decref(rows);
	return NULL;
}

const struct command holders_command = {
	.name = "holders",
	.synopsis = "holders [OPTION...]",
	.summary = "which sessions have each lease, and from where",
	.options = list_options,
	.args = "no argument",
	.run = view_run,
	.columns = holders_columns,
	.list = "leases",
	.items = holders_items,
};

/* ---- tenants ---- */

static const struct column tenants_columns[] = {
	{ "TENANT", "name", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "STATE", "state", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "SESSIONS", "sessions", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "(MAX)", "sessions_max", CELL_NUMBER, "none", COLUMN_WIDE },
	{ "CHANNELS", "channels", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "(MAX)", "channels_max", CELL_NUMBER, "none", COLUMN_WIDE },
	{ "LEASES", "leases", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "(MAX)", "leases_max", CELL_NUMBER, "none", COLUMN_WIDE },
	{ "LENT", "lent_bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "(MAX)", "bytes_max", CELL_BYTES, "none", COLUMN_ALWAYS },
	{ "KEYS", "keys", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "(MAX)", "keys_max", CELL_NUMBER, "none", COLUMN_WIDE },
	{ "LEASE-MIN", "lease_min", CELL_BYTES, "none", COLUMN_WIDE },
	{ "LEASE-MAX", "lease_max", CELL_BYTES, "none", COLUMN_WIDE },
	{ "TTL-MAX", "ttl_max_ms", CELL_TIME, "none", COLUMN_WIDE },
	{ "ACCESS", "access", CELL_TEXT, "-", COLUMN_WIDE },
	{ "POOLS", "pools", CELL_LIST, "all", COLUMN_WIDE },
	{ "NAMES", "names", CELL_LIST, "all", COLUMN_WIDE },
	{ "REFUSED", "refused", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "NO-POOL", "denied_pools", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "NO-WRITE", "denied_access", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "NO-NAME", "denied_names", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "NO-SHARE", "denied_shares", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "ACCESSES", "accesses_refused", CELL_NUMBER, "-", COLUMN_WIDE },
	{ 0 },
};

const struct command tenants_command = {
	.name = "tenants",
	.synopsis = "tenants [--sort COLUMN]",
	.summary = "their limits and rights, and what is used of them",
	.options = list_sort_options,
	.args = "no argument",
	.run = view_run,
	.columns = tenants_columns,
};
