/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/place.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define NODE_MAX 1023

enum { OPTION_PLACE = OPTIONS_OWN };

/* The text behind the prefix, or NULL. */
static const char *behind(const char *text, const char *word)
{
	size_t len = strlen(word);

	return strncmp(text, word, len) == 0 ? text + len : NULL;
}

int place_parse(struct options *options, const char *text,
		struct rmem_alloc_params *params)
{
	const char *node = behind(text, "node:"), *device = behind(text, "device:");
	unsigned number = 0;
	int err = 0;

	params->placement = RMEM_PLACE_NODE;
	params->node = RMEM_NODE_ANY;
	params->device = NULL;
	if (node) {
		err = options_number(options, "--place node", node, 0, NODE_MAX,
				     &number);
		params->node = (int)number;
	} else if (device) {
		params->placement = RMEM_PLACE_DEVICE;
		params->device = device;
	} else if (strcmp(text, "interleave") == 0) {
		params->placement = RMEM_PLACE_INTERLEAVE;
	} else if (strcmp(text, "any") != 0) {
		err = options_usage(options,
				    "--place: '%s' is not any, node:N, device:NAME or "
				    "interleave",
				    text);
	}
	return err;
}

int place_options(struct options *options, int argc, char **argv,
		  struct rmem_alloc_params *params)
{
	static const struct option table[] = {
		{ "place", required_argument, NULL, OPTION_PLACE },
		OPTIONS_LONG,
	};
	int opt, err;

	while ((opt = getopt_long(argc, argv, ":" OPTIONS_SHORT, table, NULL)) != -1) {
		err = opt == OPTION_PLACE ? place_parse(options, optarg, params)
					  : options_handle(options, opt, argv);
		if (err)
			return err;
	}
	return 0;
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

void place_show(const struct options *options, rmem_lease *lease)
{
	struct rmem_layout layout = { .size = sizeof(layout) };
	char node[32], bytes[32];

	if (!options->verbose || rmem_lease_layout(lease, &layout))
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
