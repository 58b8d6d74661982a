/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/metrics_address.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/address.h"
#include "fabric/listen.h"
#include "rmemd/admin/admin.h"
#include "rmemd/admin/http.h"
#include "rmemd/admin/metrics_resource.h"
#include "rmemd/admin/resource.h"
#include "rmemd/admin/visitor.h"
#include "rmemd/control/control.h"
#include "rmemd/loop/slices.h"

struct metrics_address {
	const struct admin_sources *sources;
	struct http_server *http;
	struct slice_queue slices;
	int fd;
};

/* The metrics, and what the status page needs.  NULL: there is none of this path here. */
static const struct resource *resource_here(const struct config *config,
					    const char *path)
{
	const struct resource *resource = resource_find(path);

	if (resource && (strcmp(path, METRICS_PATH) == 0 ||
			 (config->metrics_page && resource_is_of_page(resource))))
		return resource;
	return NULL;
}

static void on_request(struct evhttp_request *request, void *ctx)
{
	struct metrics_address *address = ctx;
	const struct admin_sources *sources = address->sources;
	const struct config *config = sources->control->config;
	const struct resource *resource = resource_here(config, http_path(request));

	if (!visitor_names_host(request, config)) {
		sources->control->counters.http_refused++;
		http_send_error(request, HTTP_FORBIDDEN, "Forbidden",
				"this name is not one of this host: ask by its IP "
				"address, or add the name to [metrics] names");
	} else if (!resource) {
		http_send_error(request, HTTP_NOTFOUND, "Not Found",
				config->metrics_page
					? "no such resource; rmemd.conf(5) has those "
					  "that there are"
					: "no such resource; there is " METRICS_PATH);
	} else if (!http_reads(request)) {
		http_refuse_method(request);
	} else {
		resource_send(resource, request, sources, NULL, &address->slices);
	}
}

/* A descriptor, or -errno with text. */
static int listen_at(const struct fabric_address *address)
{
	char name[FABRIC_ADDRESS_TEXT];
	int fd = fabric_listen(address);

	(void)fabric_address_text(address, name);
	if (fd == -EADDRINUSE)
		return err_set(fd,
			       "[metrics] listen = %s: the port is taken, perhaps by "
			       "another rmemd: choose another one",
			       name);
	return fd < 0 ? err_errno(fd, "[metrics] listen = %s", name) : fd;
}

int metrics_address_open(struct event_base *base, const struct admin_sources *sources,
			 const struct fabric_address *at,
			 struct metrics_address **ret_address)
{
	struct metrics_address *address = calloc(1, sizeof(*address));
	int err;

	if (!address)
		return err_errno(-ENOMEM, "[metrics] listen");
	address->sources = sources;
	slice_queue_init(&address->slices, SLICE_STRANGERS);
	address->fd = listen_at(at);
	err = address->fd;
	if (address->fd >= 0)
		err = http_open(base, address->fd, on_request, address,
				&sources->control->counters.http_refused,
				&address->http);
	if (err) {
		metrics_address_close(address);
		return err;
	}
	*ret_address = address;
	return 0;
}

void metrics_address_close(struct metrics_address *address)
{
	if (!address)
		return;
	http_close(address->http);
	if (address->fd >= 0)
		(void)close(address->fd);
	free(address);
}
