/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/endpoints.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "fabric/address.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"
#include "rmemd/loop/events.h"

struct served_fabric {
	struct served_fabric *next;
	struct control *control;
	const struct fabric_server_ops *ops;
	struct fabric_server *server;
	struct event *event;
	unsigned first; /* the number of its first endpoint */
};

/* ---- events of the fabrics ---- */

static int on_admit(void *ctx, unsigned endpoint, struct fabric_hello *hello,
		    struct fabric_session **ret_session)
{
	const struct served_fabric *served = ctx;

	if (served->first + endpoint >= served->control->endpoints.n)
		return err_set(-ENODEV, "the endpoint is not served");
	return sessions_admit(served->control->sessions, served->first + endpoint,
			      hello, ret_session);
}

static const void *on_tenant(void *, void *session_cookie)
{
	const struct session_port *port = session_cookie;

	return port->session->lease_client.tenant;
}

static void on_device_removed(void *ctx, unsigned endpoint)
{
	const struct served_fabric *served = ctx;

	if (served->first + endpoint < served->control->endpoints.n)
		sessions_leave_endpoint(served->control->sessions,
					served->first + endpoint);
}

static void on_endpoint_event(void *ctx, unsigned endpoint, const char *text)
{
	const struct served_fabric *served = ctx;
	struct control *control = served->control;
	const struct fabric_endpoint *info =
		served->ops->endpoint(served->server, endpoint);

	log_event(LOG_WARNING, "endpoint-news",
		  &(struct log_ctx){ .device = info ? info->device : NULL }, "%s: %s",
		  served->ops->name, text);
	/* a device may be there for the first time, or be another one; while the daemon starts
	 * there are no pools */
	if (control->pools)
		endpoints_follow(control);
}

static void on_access_refused(void *, void *session_cookie, uint64_t n)
{
	const struct session_port *port = session_cookie;

	port->session->lease_client.tenant->accesses_refused += n;
}

static const struct fabric_server_events server_events = {
	.admit = on_admit,
	.tenant = on_tenant,
	.channel_key = session_channel_key,
	.channel_connected = session_channel_connected,
	.channel_up = session_channel_up,
	.channel_down = session_channel_down,
	.mr_registered = lease_mr_registered,
	.mr_deregistered = lease_mr_deregistered,
	.session_closed = session_closed,
	.device_removed = on_device_removed,
	.endpoint_event = on_endpoint_event,
	.notified = lease_notified,
	.access_refused = on_access_refused,
};

static void on_ready(evutil_socket_t, short, void *arg)
{
	struct served_fabric *served = arg;

	served->ops->process(served->server);
}

static void log_left_out(const struct served_fabric *served,
			 const struct fabric_endpoint *info)
{
	char address[FABRIC_ADDRESS_TEXT];

	log_event(LOG_WARNING, "endpoint-left-out",
		  &(struct log_ctx){ .device = info->device },
		  "%s at %s is not served: clients are told of %d endpoints at most; "
		  "name fewer in [rdma] devices or [server] listen",
		  served->ops->name, fabric_address_text(&info->address, address),
		  WIRE_ENDPOINTS_MAX);
}

static void number_endpoints(struct endpoints *endpoints, struct served_fabric *served)
{
	unsigned n = served->ops->n_endpoints(served->server);

	served->first = endpoints->n;
	for (unsigned i = 0; i < n; i++) {
		const struct fabric_endpoint *info =
			served->ops->endpoint(served->server, i);

		if (endpoints->n == WIRE_ENDPOINTS_MAX) {
			log_left_out(served, info);
			continue;
		}
		endpoints->at[endpoints->n++] = (struct endpoint){
			.ops = served->ops,
			.server = served->server,
			.local = i,
			.info = info,
		};
	}
}

int endpoints_serve(struct control *control, const struct fabric_server_ops *ops,
		    const struct fabric_server_params *params)
{
	struct served_fabric *served = malloc(sizeof(*served));
	int err;

	if (!served)
		return err_set(-ENOMEM, "no memory for the %s fabric", ops->name);
	*served = (struct served_fabric){ .next = control->endpoints.served,
					  .control = control,
					  .ops = ops };
	err = ops->open(params, &server_events, served, &served->server);
	if (err) {
		free(served);
		return err;
	}
	control->endpoints.served = served;
	served->event = event_make(control->base, ops->fd(served->server),
				   EV_READ | EV_PERSIST, on_ready, served);
	if (!served->event || event_add(served->event, NULL))
		return err_set(-ENOMEM, "no memory for the %s fabric", ops->name);
	number_endpoints(&control->endpoints, served);
	return 0;
}

void endpoints_close(struct endpoints *endpoints)
{
	struct served_fabric *served;

	while ((served = endpoints->served)) {
		endpoints->served = served->next;
		event_drop(&served->event);
		served->ops->close(served->server);
		free(served);
	}
}

/* ---- the endpoints ---- */

static bool pool_names(const struct pool_params *pool, const char *device)
{
	for (unsigned i = 0; i < pool->n_devices; i++)
		if (strcmp(pool->devices[i], device) == 0)
			return true;
	return false;
}

unsigned endpoints_of_pool(const struct endpoints *endpoints,
			   const struct pool_params *pool)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < endpoints->n; i++) {
		const struct fabric_endpoint *info = endpoints->at[i].info;

		if (info->kind == FABRIC_TCP || !pool->n_devices ||
		    pool_names(pool, info->device))
			bits |= 1u << i;
	}
	return bits;
}

static const struct fabric_endpoint *device_find(const struct endpoints *endpoints,
						 const char *device)
{
	for (unsigned i = 0; i < endpoints->n; i++)
		if (strcmp(endpoints->at[i].info->device, device) == 0)
			return endpoints->at[i].info;
	return NULL;
}

const char *endpoints_missing(const struct endpoints *endpoints,
			      const struct pool_params *pool)
{
	for (unsigned i = 0; i < pool->n_devices; i++)
		if (!device_find(endpoints, pool->devices[i]))
			return pool->devices[i];
	return NULL;
}

unsigned endpoints_n_tcp(const struct endpoints *endpoints)
{
	unsigned n = 0;

	for (unsigned i = 0; i < endpoints->n; i++)
		n += endpoints->at[i].info->kind == FABRIC_TCP;
	return n;
}

/* The number of endpoints with the device of this one; all over TCP have none. */
static unsigned count_siblings(const struct endpoints *endpoints,
			       const struct fabric_endpoint *info)
{
	unsigned n = 0;

	for (unsigned i = 0; i < endpoints->n; i++)
		n += endpoints->at[i].info->kind == info->kind &&
		     strcmp(endpoints->at[i].info->device, info->device) == 0;
	return n;
}

/* Divide the channels of each device, and those over TCP, equally by their endpoints. */
static void divide_channels(struct endpoints *endpoints)
{
	for (unsigned i = 0; i < endpoints->n; i++) {
		struct endpoint *at = &endpoints->at[i];
		uint64_t max = at->info->kind == FABRIC_TCP ? endpoints->tcp_channels
							    : at->info->channels_max;
		uint64_t each = max / count_siblings(endpoints, at->info);

		/* 0 stands for no limit */
		if (max && !each)
			each = 1;
		at->channels_max = each < UINT32_MAX ? (unsigned)each : UINT32_MAX;
	}
}

void endpoints_set_channels(struct endpoints *endpoints, uint64_t tcp_channels)
{
	endpoints->tcp_channels = tcp_channels;
	divide_channels(endpoints);
}

unsigned endpoints_all(const struct endpoints *endpoints)
{
	return wire_endpoint_bits(endpoints->n);
}

int endpoints_node(const struct endpoints *endpoints, const char *device, int *ret_node)
{
	const struct fabric_endpoint *info = device_find(endpoints, device);

	if (!info)
		return err_set(-ENODEV, "no RDMA device '%s' is served here", device);
	*ret_node = info->node;
	return 0;
}

uint64_t endpoints_segment_max(const struct endpoints *endpoints)
{
	uint64_t max = 0;

	for (unsigned i = 0; i < endpoints->n; i++) {
		const struct endpoint *at = &endpoints->at[i];
		const struct fabric_device_attr *attr;
		struct fabric_port_attr port;

		if (!at->ops->device ||
		    at->ops->device(at->server, at->local, &attr, &port))
			continue;
		if (attr->max_mr_bytes && (!max || attr->max_mr_bytes < max))
			max = attr->max_mr_bytes;
	}
	return max;
}

void endpoints_follow(struct control *control)
{
	struct endpoints *endpoints = &control->endpoints;

	divide_channels(endpoints);
	control->sole = 0;
	for (unsigned i = 0; i < pools_count(control->pools); i++) {
		unsigned through =
			endpoints_of_pool(endpoints, pools_params(control->pools, i));

		pools_set_endpoints(control->pools, i, through);
		if (through != endpoints_all(endpoints))
			control->sole |= through;
	}
	pools_set_extent_max(control->pools, endpoints_segment_max(endpoints));
}
