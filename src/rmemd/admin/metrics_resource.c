/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/metrics_resource.h"

#include "rmemd/admin/http.h"
#include "rmemd/admin/stream.h"
#include "rmemd/metrics/scrape.h"

static const struct stream_source source = {
	.type = HTTP_TYPE_METRICS,
	.part = scrape_part,
	.end = scrape_free,
};

void metrics_send(struct evhttp_request *request, const struct sample_sources *sources,
		  struct slice_queue *queue)
{
	struct scrape *scrape = scrape_new(sources);

	if (scrape)
		stream_start(request, &source, scrape, sources->slices, queue);
	else
		http_send_no_memory(request);
}
