/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/commands.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/nearest.h"

static const struct column pools_columns[] = {
	{ "POOL", "name", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "NODE", "node", CELL_NUMBER, "several", COLUMN_ALWAYS },
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
	{ 0 },
};

static const struct column devices_columns[] = {
	{ "DEVICE", "device", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "FABRIC", "fabric", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "ADDRESS", "address", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "PORT", "port", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "NODE", "node", CELL_NUMBER, "unknown", COLUMN_ALWAYS },
	{ "CHANNELS", "channels", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "KERNEL-TLS", "tls_in_kernel", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "EXPOSURES", "exposures", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "EXPOSED", "exposed_bytes", CELL_BYTES, "-", COLUMN_WIDE },
	{ "REFUSED", "refused", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "ERRORS", "errors", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ 0 },
};

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

static void fabric_show(FILE *out, const json_t *answer, const char *name)
{
	const json_t *fabric =
		json_object_get(json_object_get(answer, "fabrics"), name);
	const char *why = json_string_value(json_object_get(fabric, "why"));

	if (json_is_true(json_object_get(fabric, "serving"))) {
		(void)fprintf(out, "%-10s serving\n", name);
		return;
	}
	(void)fprintf(out, "%-10s not serving: ", name);
	text_print(out, why ? why : "-");
	(void)fputc('\n', out);
}

/* The addresses for control connections. */
static void control_show(FILE *out, const json_t *answer)
{
	const json_t *names = json_object_get(answer, "control");
	char name[CELL_CHARS];

	(void)fprintf(out, "control    ");
	for (size_t i = 0; i < json_array_size(names); i++)
		(void)fprintf(
			out, "%s%s", i ? ", " : "",
			cell_format(json_array_get(names, i), CELL_TEXT, "-", name));
	(void)fprintf(out, "%s\n", json_array_size(names) ? "" : "-");
}

static const struct field status_head[] = {
	{ "rmemd      ", NULL, "version", CELL_TEXT, "-" },
	{ ", pid ", NULL, "pid", CELL_NUMBER, "-" },
	{ ", up ", NULL, "uptime_ms", CELL_TIME, "-" },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static const struct field status_rest[] = {
	{ "memory     ", "memory", "bytes", CELL_BYTES, "-" },
	{ ", ", "memory", "lent_bytes", CELL_BYTES, "-" },
	{ " lent, ", "memory", "scrubbing_bytes", CELL_BYTES, "-" },
	{ " being zeroed, ", "memory", "free_bytes", CELL_BYTES, "-" },
	{ " free, pools: ", "memory", "pools", CELL_NUMBER, "-" },
	{ "\nsessions   ", "sessions", "active", CELL_NUMBER, "-" },
	{ " active, ", "sessions", "fenced", CELL_NUMBER, "-" },
	{ " fenced, channels: ", "sessions", "channels", CELL_NUMBER, "-" },
	{ ", keys: ", "sessions", "keys", CELL_NUMBER, "-" },
	{ "\nleases     ", "leases", "named", CELL_NUMBER, "-" },
	{ " named, ", "leases", "ephemeral", CELL_NUMBER, "-" },
	{ " ephemeral, together ", "leases", "bytes", CELL_BYTES, "-" },
	{ "\ngranted    ", "counters", "leases_granted", CELL_NUMBER, "-" },
	{ ", expired ", "counters", "leases_expired", CELL_NUMBER, "-" },
	{ ", waited for zeroed memory ", "counters", "leases_waited", CELL_NUMBER,
	  "-" },
	{ ", in all for ", "counters", "leases_waited_ms", CELL_TIME, "-" },
	{ "\nrequests   ", "counters", "requests", CELL_NUMBER, "-" },
	{ ", ", "counters", "requests_failed", CELL_NUMBER, "-" },
	{ " failed; sessions opened ", "counters", "sessions_opened", CELL_NUMBER,
	  "-" },
	{ ", fenced ", "counters", "sessions_fenced", CELL_NUMBER, "-" },
	{ ", resumed ", "counters", "sessions_resumed", CELL_NUMBER, "-" },
	{ "\nrefused    connections ", "counters", "connections_refused", CELL_NUMBER,
	  "-" },
	{ ", channels ", "counters", "channels_refused", CELL_NUMBER, "-" },
	{ ", of rmemctl ", "counters", "admin_views_refused", CELL_NUMBER, "-" },
	{ " to look and ", "counters", "admin_acts_refused", CELL_NUMBER, "-" },
	{ " to act", NULL, NULL, CELL_TEXT, NULL },
	{ "\nturns      ", "turns", "count", CELL_NUMBER, "-" },
	{ ", ", "turns", "long", CELL_NUMBER, "-" },
	{ " too long; the longest recent one took ", "turns", "wall_recent_us",
	  CELL_NUMBER, "-" },
	{ " us (of the CPU ", "turns", "cpu_recent_us", CELL_NUMBER, "-" },
	{ " us)\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

/* The reasons for which connections were refused, if there are any. */
static void refused_show(FILE *out, const json_t *answer)
{
	json_t *reasons =
		json_object_get(json_object_get(answer, "counters"), "refused");
	const char *reason, *before = "refusals   ";
	json_t *number;

	json_object_foreach(reasons, reason, number)
	{
		if (json_integer_value(number) == 0)
			continue;
		(void)fprintf(out, "%s%s %" JSON_INTEGER_FORMAT, before, reason,
			      json_integer_value(number));
		before = ", ";
	}
	if (*before == ',')
		(void)fputc('\n', out);
}

static void status_show(FILE *out, const json_t *answer)
{
	fields_print(out, status_head, answer);
	control_show(out, answer);
	fabric_show(out, answer, "rdma");
	fabric_show(out, answer, "tcp");
	fields_print(out, status_rest, answer);
	refused_show(out, answer);
}

static const struct field device_fields[] = {
	{ ": ", "can", "transport", CELL_TEXT, "unknown" },
	{ ", port ", "device_port", "number", CELL_NUMBER, "unknown" },
	{ " ", "device_port", "state", CELL_TEXT, "unknown" },
	{ ", MTU ", "device_port", "active_mtu", CELL_NUMBER, "unknown" },
	{ " of ", "device_port", "max_mtu", CELL_NUMBER, "unknown" },
	{ ", NUMA node ", NULL, "node", CELL_NUMBER, "unknown" },
	{ "\n  atomics ", "can", "atomics", CELL_TEXT, "unknown" },
	{ ", ", "can", "write_immediate", CELL_UNLESS, "no " },
	{ "write with immediate, inline ", "can", "inline_bytes", CELL_BYTES,
	  "unknown" },
	{ ", relaxed ordering ", "can", "relaxed_ordering", CELL_IF, "accepted" },
	{ "", "can", "relaxed_ordering", CELL_UNLESS, "refused" },
	{ ", ", "can", "on_demand_paging", CELL_UNLESS, "no " },
	{ "on-demand paging\n  at most ", "can", "max_qp", CELL_NUMBER, "unknown" },
	{ " QPs of ", "can", "max_qp_wr", CELL_NUMBER, "unknown" },
	{ " requests and ", "can", "max_sge", CELL_NUMBER, "unknown" },
	{ " SGEs, ", "can", "max_cq", CELL_NUMBER, "unknown" },
	{ " CQs of ", "can", "max_cqe", CELL_NUMBER, "unknown" },
	{ ", ", "can", "max_mr", CELL_NUMBER, "unknown" },
	{ " MRs of ", "can", "max_mr_bytes", CELL_BYTES, "unknown" },
	{ "\n  rd_atomic: of peers ", "can", "responder_resources", CELL_NUMBER,
	  "unknown" },
	{ ", its own ", "can", "initiator_depth", CELL_NUMBER, "unknown" },
	{ "\n  in effect: MTU ", "knobs", "mtu", CELL_NUMBER, "auto" },
	{ ", traffic class ", "knobs", "traffic_class", CELL_NUMBER, "auto" },
	{ ", service level ", "knobs", "service_level", CELL_NUMBER, "auto" },
	{ "\n  ACK timeout ", "knobs", "ack_timeout", CELL_NUMBER, "auto" },
	{ ", retries ", "knobs", "retry_count", CELL_NUMBER, "auto" },
	{ ", RNR retries ", "knobs", "rnr_retry_count", CELL_NUMBER, "auto" },
	{ ", rd_atomic ", "knobs", "rd_atomic", CELL_NUMBER, "auto" },
	{ ", relaxed ordering ", "knobs", "relaxed_ordering", CELL_IF, "on" },
	{ "", "knobs", "relaxed_ordering", CELL_UNLESS, "off" },
	{ "\n  connect ", "knobs", "connect", CELL_TEXT, "unknown" },
	{ ", GID index ", "knobs", "gid_index", CELL_NUMBER, NULL },
	{ ", P_Key ", "knobs", "pkey", CELL_HEX, NULL },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static const struct field gid_fields[] = {
	{ "  GID ", NULL, "index", CELL_NUMBER, "unknown" },
	{ "  ", NULL, "gid", CELL_TEXT, "unknown" },
	{ "  ", NULL, "type", CELL_TEXT, "unknown" },
	{ "", NULL, "served", CELL_IF, "  served" },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static void device_show(FILE *out, const json_t *device)
{
	const json_t *port = json_object_get(device, "device_port"),
		     *gids = json_object_get(port, "gids");
	json_int_t more = json_integer_value(json_object_get(port, "gids_more"));

	(void)fputc('\n', out);
	text_print(out, json_string_value(json_object_get(device, "device")));
	if (!json_is_object(json_object_get(device, "can"))) {
		(void)fprintf(out, ": was removed\n");
		return;
	}
	fields_print(out, device_fields, device);
	for (size_t i = 0; i < json_array_size(gids); i++)
		fields_print(out, gid_fields, json_array_get(gids, i));
	if (more > 0)
		(void)fprintf(out, "  GIDs not shown: %" JSON_INTEGER_FORMAT "\n",
			      more);
}

/* A paragraph for each RDMA device. */
static void devices_show(FILE *out, const json_t *answer)
{
	const json_t *array = json_object_get(answer, "devices");

	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *device = json_array_get(array, i);

		if (json_is_string(json_object_get(device, "device")))
			device_show(out, device);
	}
}

/* The daemon has read its configuration again. */
static void reload_show(FILE *out, const json_t *answer)
{
	const char *keys = json_string_value(json_object_get(answer, "needs_restart"));

	if (!keys || !*keys)
		return;
	(void)fprintf(out, "needs a restart: ");
	text_print(out, keys);
	(void)fputc('\n', out);
}

const struct command commands[] = {
	{ .name = "status", .summary = "the daemon as a whole", .show = status_show },
	{ .name = "pools",
	  .summary = "its memory: nodes, pages, what is lent and free",
	  .columns = pools_columns },
	{ .name = "devices",
	  .summary = "where it serves data: RDMA devices, and TCP",
	  .columns = devices_columns,
	  .show = devices_show },
	{ .name = "sessions", .summary = "its clients", .columns = sessions_columns },
	{ .name = "leases",
	  .summary = "what is lent, and to whom",
	  .columns = leases_columns },
	{ .name = "tenants",
	  .summary = "their limits and rights, and what is used of them",
	  .columns = tenants_columns },
	{ .name = "reload",
	  .summary = "read the configuration again",
	  .show = reload_show,
	  .acts = true },
	{ .name = "revoke",
	  .summary = "end the lease with this number, for all clients",
	  .acts = true,
	  .takes = "lease" },
	{ .name = NULL },
};

int command_find(const char *name, const struct command **ret_command)
{
	struct nearest nearest;

	nearest_init(&nearest, name);
	for (const struct command *command = commands; command->name; command++) {
		if (strcmp(command->name, name) == 0) {
			*ret_command = command;
			return 0;
		}
		nearest_offer(&nearest, command->name);
	}
	return nearest_unknown(&nearest, "command");
}

/* Print the array of the command's name. */
static int list_show(const struct command *command, const json_t *answer, bool wide,
		     FILE *out)
{
	const json_t *array = json_object_get(answer, command->name);

	if (!json_is_array(array))
		return err_set(-EPROTO, "rmemd's answer has no list of %s",
			       command->name);
	if (json_array_size(array) > 0)
		return table_print(out, command->columns, wide, array);
	(void)fprintf(out, "no %s\n", command->name);
	return 0;
}

int command_show(const struct command *command, const char *body, bool wide, FILE *out)
{
	json_error_t error;
	json_t *answer = json_loads(body, 0, &error);
	int err = 0;

	if (!json_is_object(answer))
		err = err_set(-EPROTO, "rmemd does not answer in JSON: %s", error.text);
	else if (command->columns)
		err = list_show(command, answer, wide, out);
	if (!err && command->show)
		command->show(out, answer);
	json_decref(answer);
	return err;
}
