/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon logs about an endpoint.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_REPORT_H
#define FABRIC_VERBS_SERVER_REPORT_H

struct verbs_endpoint;

/* Call endpoint_event() with this text. */
void verbs_endpoint_report(struct verbs_endpoint *endpoint, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
