/* SPDX-License-Identifier: BSD-3-Clause */
/* The resource with the metrics, of the admin socket and of the address of [metrics] listen.
 * Threads: [loop]. */
#ifndef RMEMD_ADMIN_METRICS_RESOURCE_H
#define RMEMD_ADMIN_METRICS_RESOURCE_H

#include <event2/http.h>

#include "rmemd/loop/slices.h"
#include "rmemd/metrics/sample.h"

#define METRICS_PATH "/metrics"

/* Answer a GET or HEAD, in slices; borrows sources and queue while that is under way. */
void metrics_send(struct evhttp_request *request, const struct sample_sources *sources,
		  struct slice_queue *queue);

#endif
