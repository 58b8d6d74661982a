/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl pools, sessions, leases and tenants: tables. */
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
	.synopsis = "pools",
	.summary = "its memory: nodes, pages, what is lent and free",
	.options = options_table,
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
	.synopsis = "sessions",
	.summary = "its clients",
	.options = options_table,
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

const struct command leases_command = {
	.name = "leases",
	.synopsis = "leases",
	.summary = "what is lent, and to whom",
	.options = options_table,
	.args = "no argument",
	.run = view_run,
	.columns = leases_columns,
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
	.synopsis = "tenants",
	.summary = "their limits and rights, and what is used of them",
	.options = options_table,
	.args = "no argument",
	.run = view_run,
	.columns = tenants_columns,
};
