/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/report.h"

#include <stdarg.h>
#include <stdio.h>

#include "fabric/verbs/server/endpoint.h"

#define REPORT_TEXT 256

void verbs_endpoint_report(struct verbs_endpoint *endpoint, const char *fmt, ...)
{
	struct fabric_server *server = endpoint->server;
	char text[REPORT_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	server->events->endpoint_event(server->ctx, endpoint->number, text);
}
