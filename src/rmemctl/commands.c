/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/commands.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/nearest.h"
#include "rmemctl/devices.h"

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
	{ "REFUSED", "refused", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "ACCESSES", "accesses_refused", CELL_NUMBER, "-", COLUMN_WIDE },
	{ 0 },
};

/* The value of json[outer][key], or of json[key], as text. */
static const char *at(const json_t *json, const char *outer, const char *key,
		      enum cell cell, char buf[CELL_CHARS])
{
	if (outer)
		json = json_object_get(json, outer);
	return cell_format(json_object_get(json, key), cell, "-", buf);
}

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

static int status_show(FILE *out, const json_t *answer)
{
	char a[CELL_CHARS], b[CELL_CHARS], c[CELL_CHARS], d[CELL_CHARS], e[CELL_CHARS];

	(void)fprintf(out, "rmemd      %s, pid %s, up %s\n",
		      at(answer, NULL, "version", CELL_TEXT, a),
		      at(answer, NULL, "pid", CELL_NUMBER, b),
		      at(answer, NULL, "uptime_ms", CELL_TIME, c));
	control_show(out, answer);
	fabric_show(out, answer, "rdma");
	fabric_show(out, answer, "tcp");
	(void)fprintf(out,
		      "memory     %s, %s lent, %s being zeroed, %s free, pools: %s\n",
		      at(answer, "memory", "bytes", CELL_BYTES, a),
		      at(answer, "memory", "lent_bytes", CELL_BYTES, b),
		      at(answer, "memory", "scrubbing_bytes", CELL_BYTES, c),
		      at(answer, "memory", "free_bytes", CELL_BYTES, d),
		      at(answer, "memory", "pools", CELL_NUMBER, e));
	(void)fprintf(out, "sessions   %s active, %s fenced, channels: %s, keys: %s\n",
		      at(answer, "sessions", "active", CELL_NUMBER, a),
		      at(answer, "sessions", "fenced", CELL_NUMBER, b),
		      at(answer, "sessions", "channels", CELL_NUMBER, c),
		      at(answer, "sessions", "keys", CELL_NUMBER, d));
	(void)fprintf(out, "leases     %s named, %s ephemeral, together %s\n",
		      at(answer, "leases", "named", CELL_NUMBER, a),
		      at(answer, "leases", "ephemeral", CELL_NUMBER, b),
		      at(answer, "leases", "bytes", CELL_BYTES, c));
	(void)fprintf(out,
		      "granted    %s, expired %s, waited for zeroed memory %s, "
		      "in all for %s\n",
		      at(answer, "counters", "leases_granted", CELL_NUMBER, a),
		      at(answer, "counters", "leases_expired", CELL_NUMBER, b),
		      at(answer, "counters", "leases_waited", CELL_NUMBER, c),
		      at(answer, "counters", "leases_waited_ms", CELL_TIME, d));
	(void)fprintf(
		out,
		"requests   %s, %s failed; sessions opened %s, fenced %s, resumed ",
		at(answer, "counters", "requests", CELL_NUMBER, a),
		at(answer, "counters", "requests_failed", CELL_NUMBER, b),
		at(answer, "counters", "sessions_opened", CELL_NUMBER, c),
		at(answer, "counters", "sessions_fenced", CELL_NUMBER, d));
	(void)fprintf(out, "%s\n",
		      at(answer, "counters", "sessions_resumed", CELL_NUMBER, a));
	(void)fprintf(out, "refused    connections %s, channels %s\n",
		      at(answer, "counters", "connections_refused", CELL_NUMBER, a),
		      at(answer, "counters", "channels_refused", CELL_NUMBER, b));
	(void)fprintf(out,
		      "turns      %s, %s too long; the longest recent one took %s us "
		      "(of the CPU %s us)\n",
		      at(answer, "turns", "count", CELL_NUMBER, a),
		      at(answer, "turns", "long", CELL_NUMBER, b),
		      at(answer, "turns", "wall_recent_us", CELL_NUMBER, c),
		      at(answer, "turns", "cpu_recent_us", CELL_NUMBER, d));
	return 0;
}

const struct command commands[] = {
	{ "status", "the daemon as a whole", "/v1/status", NULL, NULL, NULL,
	  status_show },
	{ "pools", "its memory: nodes, pages, what is lent and free", "/v1/pools",
	  "pools", pools_columns, NULL, NULL },
	{ "devices", "where it serves data: RDMA devices, and TCP", "/v1/devices",
	  "devices", devices_columns, devices_detail, NULL },
	{ "sessions", "its clients", "/v1/sessions", "sessions", sessions_columns, NULL,
	  NULL },
	{ "leases", "what is lent, and to whom", "/v1/leases", "leases", leases_columns,
	  NULL, NULL },
	{ "tenants", "their limits, and what is used of them", "/v1/tenants", "tenants",
	  tenants_columns, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL, NULL, NULL },
};

int command_find(const char *name, const struct command **ret_command)
{
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, name);
	for (const struct command *command = commands; command->name; command++) {
		if (strcmp(command->name, name) == 0) {
			*ret_command = command;
			return 0;
		}
		nearest_offer(&nearest, command->name);
	}
	meant = nearest_get(&nearest);
	if (meant)
		return err_set(-EINVAL, "unknown command '%s'; did you mean '%s'?",
			       name, meant);
	return err_set(-EINVAL, "unknown command '%s'", name);
}

int command_show(const struct command *command, const char *body, bool wide, FILE *out)
{
	json_error_t error;
	json_t *answer = json_loads(body, 0, &error), *array;
	int err = 0;

	if (!json_is_object(answer)) {
		err = err_set(-EPROTO, "rmemd does not answer in JSON: %s", error.text);
	} else if (command->show) {
		err = command->show(out, answer);
	} else {
		array = json_object_get(answer, command->list);
		if (!json_is_array(array))
			err = err_set(-EPROTO, "rmemd's answer has no list of %s",
				      command->list);
		else if (json_array_size(array) == 0)
			(void)fprintf(out, "no %s\n", command->list);
		else
			err = table_print(out, command->columns, wide, array);
		if (!err && command->detail)
			command->detail(out, array);
	}
	json_decref(answer);
	return err;
}
