/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer to one GET of /metrics, made in parts: first a sample is taken, then it is written.
 * Threads: [loop]. */
#ifndef RMEMD_METRICS_SCRAPE_H
#define RMEMD_METRICS_SCRAPE_H

#include "rmemd/metrics/sample.h"

struct evbuffer;
struct scrape;

/* Borrows the sources.  NULL: no memory. */
struct scrape *scrape_new(const struct sample_sources *from);
void scrape_free(void *scrape);
/* Add the next part to the body, which may be nothing: 1: there are more; 0: it was the last one;
 * -ENOMEM */
int scrape_part(void *scrape, struct evbuffer *body);

#endif
