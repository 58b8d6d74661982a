/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define NODE_MAX 1023

/* The text behind the prefix, or NULL. */
static const char *behind(const char *text, const char *word)
{
	size_t len = strlen(word);

	return strncmp(text, word, len) == 0 ? text + len : NULL;
}

int place_parse(const char *text, void *value)
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

static const char *placement_text(const struct rmem_layout *layout, char *buf,
				  size_t buf_bytes)
{
	if (layout->placement == RMEM_PLACE_INTERLEAVE)
		return "interleaved";
	if (layout->node == RMEM_NODE_ANY)
		return "anywhere";
	(void)snprintf(buf, buf_bytes, "on node %d", layout->node);
	return buf;
}

void place_show(rmem_lease *lease)
{
	struct rmem_layout layout = rmem_layout_init();
	char node[32], bytes[32];

	if (!options.verbose || rmem_lease_layout(lease, &layout))
		return;
	(void)fprintf(stderr, "rmem: asked for %s, got",
		      placement_text(&layout, node, sizeof(node)));
	for (unsigned i = 0; i < layout.nodes; i++) {
		(void)fprintf(stderr, "%s %s on ", i ? "," : "",
			      units_format_bytes(layout.share[i].bytes, bytes,
						 sizeof(bytes)));
		if (layout.share[i].node == RMEM_NODE_ANY)
			(void)fputs("an unknown node", stderr);
		else
			(void)fprintf(stderr, "node %d", layout.share[i].node);
	}
	(void)fprintf(stderr, "%s, %u segment%s\n", layout.nodes ? "" : " nothing",
		      layout.segments, layout.segments == 1 ? "" : "s");
}
