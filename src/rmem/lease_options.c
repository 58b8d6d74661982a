/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/lease_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/units.h"
#include "rmem/session.h"

#define NODE_MAX 1023

struct rmem_alloc_params new_lease = { .size = sizeof(new_lease),
				       .node = RMEM_NODE_ANY };
uint64_t range_offset;
static uint64_t range_length = UINT64_MAX; /* to the end */
static bool if_absent;

/* The text behind the prefix, or NULL. */
static const char *behind(const char *text, const char *word)
{
	size_t len = strlen(word);

	return strncmp(text, word, len) == 0 ? text + len : NULL;
}

static int place_parse(const char *text, void *value)
{
	const char *node = behind(text, "node:"), *device = behind(text, "device:");
	struct rmem_alloc_params *params = value;
	unsigned number = 0;
	int err = 0;

	params->placement = RMEM_PLACE_NODE;
	params->node = RMEM_NODE_ANY;
	params->device = NULL;
	if (node) {
		err = option_number("--place node", node, 0, NODE_MAX, &number);
		params->node = (int)number;
	} else if (device) {
		params->placement = RMEM_PLACE_DEVICE;
		params->device = device;
	} else if (strcmp(text, "interleave") == 0) {
		params->placement = RMEM_PLACE_INTERLEAVE;
	} else if (strcmp(text, "any") != 0) {
		err = err_set(-EINVAL,
			      "--place: '%s' is not any, node:N, device:NAME or "
			      "interleave",
			      text);
	}
	return err;
}

const struct option_row place_options[] = {
	{ "place", 0, OPTION_OTHER, &new_lease, .parse = place_parse,
	  .argument = "PLACE",
	  .help = "node:N, device:NAME for the node of a device, or" OPTION_INDENT
		  "interleave for stripes over all (default any)" },
	{ 0 },
};

const struct option_row naming_options[] = {
	{ "if-absent", 0, OPTION_FLAG, &if_absent,
	  .help = "fail if the name is taken, replace nothing" },
	{ .more = options_table },
	{ 0 },
};

const struct option_row new_lease_options[] = {
	{ .more = place_options },
	{ "ttl", 0, OPTION_MS, &new_lease.ttl_ms, 1, OPTIONS_TTL_MAX_MS,
	  .argument = "T",
	  .help = "time to live, as 90s or 7d (default: no limit, or" OPTION_INDENT
		  "that of the tenant)" },
	{ .more = naming_options },
	{ 0 },
};

const struct option_row range_options[] = {
	{ "offset", 0, OPTION_BYTES, &range_offset, 0, UINT64_MAX, .argument = "BYTES",
	  .help = "first byte (default 0)" },
	{ "length", 0, OPTION_BYTES, &range_length, 0, UINT64_MAX - 1,
	  .argument = "BYTES", .help = "number of bytes (default: to the end)" },
	{ .more = options_table },
	{ 0 },
};

void place_show(rmem_lease *lease)
{
	struct rmem_layout layout = rmem_layout_init();

	if (!options.verbose || rmem_lease_layout(lease, &layout))
		return;
	if (layout.placement == RMEM_PLACE_INTERLEAVE)
		(void)fprintf(stderr, "rmem: asked for interleaved, got");
	else if (layout.node == RMEM_NODE_ANY)
		(void)fprintf(stderr, "rmem: asked for anywhere, got");
	else
		(void)fprintf(stderr, "rmem: asked for on node %d, got", layout.node);
	for (unsigned i = 0; i < layout.nodes; i++) {
		(void)fprintf(stderr, "%s %s on ", i ? "," : "",
			      UNITS_BYTES(layout.share[i].bytes));
		if (layout.share[i].node == RMEM_NODE_ANY)
			(void)fputs("an unknown node", stderr);
		else
			(void)fprintf(stderr, "node %d", layout.share[i].node);
	}
	(void)fprintf(stderr, "%s, %u segment%s\n", layout.nodes ? "" : " nothing",
		      layout.segments, layout.segments == 1 ? "" : "s");
}

int naming_prepare(rmem *session, const char *name)
{
	struct rmem_stat stat = rmem_stat_init();
	int err;

	if (!if_absent)
		return 0;
	err = rmem_stat(session, name, &stat);
	if (!err)
		return err_set(-EEXIST, "\"%s\" is stored already", name);
	return err == -ENOENT ? 0 : session_result(err);
}

int naming_give(rmem_lease *lease, const char *name)
{
	return session_result(
		rmem_rename(lease, name, if_absent ? 0 : RMEM_RENAME_REPLACE));
}

int range_resolve(const rmem_lease *lease, uint64_t *ret_bytes)
{
	uint64_t stored = rmem_lease_bytes(lease), bytes = range_length;

	if (range_offset > stored)
		return err_set(-EINVAL,
			       "--offset %" PRIu64 " is beyond the lease of %" PRIu64
			       " bytes",
			       range_offset, stored);
	if (bytes == UINT64_MAX)
		bytes = stored - range_offset;
	if (!range_inside(stored, range_offset, bytes))
		return err_set(-EINVAL,
			       "--length %" PRIu64 " at offset %" PRIu64
			       " goes beyond the lease of %" PRIu64 " bytes",
			       range_length, range_offset, stored);
	*ret_bytes = bytes;
	return 0;
}
