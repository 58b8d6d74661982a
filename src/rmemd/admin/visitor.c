/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/visitor.h"

#include <arpa/inet.h>
#include <event2/keyvalq_struct.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "rmemd/config/config.h"

/* Written as in a URI. */
static bool is_address(const char *host)
{
	struct in6_addr address;
	char inner[INET6_ADDRSTRLEN] = "";
	size_t len = strlen(host);

	if (*host != '[')
		return inet_pton(AF_INET, host, &address) == 1;
	if (host[len - 1] != ']' || len - 1 > sizeof(inner))
		return false;
	memcpy(inner, host + 1, len - 2);
	return inet_pton(AF_INET6, inner, &address) == 1;
}

static bool is_this_host(const char *host)
{
	char name[HOST_NAME_MAX + 1];

	return gethostname(name, sizeof(name)) == 0 && strcasecmp(host, name) == 0;
}

static bool is_configured(const char *host, const struct config *config)
{
	for (unsigned i = 0; i < config->n_metrics_names; i++)
		if (strcasecmp(host, config->metrics_names[i]) == 0)
			return true;
	return false;
}

bool visitor_names_host(struct evhttp_request *request, const struct config *config)
{
	const char *host = evhttp_request_get_host(request); /* without the port */

	return !host || !strchr(host, '.') || is_address(host) || is_this_host(host) ||
	       is_configured(host, config);
}

bool visitor_is_page(struct evhttp_request *request)
{
	const struct evkeyvalq *headers = evhttp_request_get_input_headers(request);

	return evhttp_find_header(headers, "Origin") ||
	       evhttp_find_header(headers, "Sec-Fetch-Site");
}
