/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/metrics/scrape.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>

#include "rmemd/metrics/exposition.h"

struct scrape {
	const struct sample_sources *from;
	struct sample sample;
	bool begun, taken;
	struct exposition at;
	char text[EXPOSITION_BYTES];
};

struct scrape *scrape_new(const struct sample_sources *from)
{
	struct scrape *scrape = calloc(1, sizeof(*scrape));

	if (scrape)
		scrape->from = from;
	return scrape;
}

void scrape_free(void *ctx)
{
	struct scrape *scrape = ctx;

	if (scrape)
		sample_end(&scrape->sample);
	free(scrape);
}

static int sample_take(struct scrape *scrape)
{
	int more;

	if (!scrape->begun) {
		sample_begin(&scrape->sample, scrape->from);
		scrape->begun = true;
		return 1;
	}
	more = sample_go_on(&scrape->sample, scrape->from);
	if (more)
		return more;
	scrape->taken = true;
	return 1;
}

int scrape_part(void *ctx, struct evbuffer *body)
{
	struct scrape *scrape = ctx;
	size_t bytes;

	if (!scrape->taken)
		return sample_take(scrape);
	bytes = exposition_write(&scrape->at, &scrape->sample, scrape->text);
	if (bytes && evbuffer_add(body, scrape->text, bytes))
		return -ENOMEM;
	return bytes > 0;
}
