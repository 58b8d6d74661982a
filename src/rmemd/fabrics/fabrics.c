/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/fabrics/fabrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/listener.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"

/* One for each address to listen on, and verbs. */
#define SERVERS_MAX (CONFIG_LIST_MAX + 1)

struct served {
	struct fabrics *fabrics;
	const struct fabric_server_ops *ops;
	struct fabric_server *server;
	struct event *event;
	unsigned first; /* the global number of its first endpoint */
};

struct fabrics {
	struct event_base *base;
	struct control *control;
	struct endpoints endpoints;
	struct served served[SERVERS_MAX];
	unsigned n;
	char verbs_missing[256];
};

static struct fabric_session *on_admit(void *ctx, unsigned endpoint,
				       const struct fabric_hello *hello)
{
	const struct served *served = ctx;
	const struct fabrics *fabrics = served->fabrics;

	if (served->first + endpoint >= fabrics->endpoints.n)
		return NULL;
	return sessions_admit(fabrics->control->sessions, served->first + endpoint,
			      hello);
}

static void on_channel_up(void *ctx, void *session_cookie, uint32_t channel)
{
	(void)ctx;
	session_channel_up(session_cookie, channel);
}

static void on_channel_down(void *ctx, void *session_cookie, uint32_t channel,
			    const char *why)
{
	(void)ctx;
	session_channel_down(session_cookie, channel, why);
}

static void on_exposed(void *ctx, void *mr_cookie, int err, const char *text,
		       const struct fabric_key *key)
{
	(void)ctx;
	lease_mr_registered(mr_cookie, err, text, key);
}

static void on_withdrawn(void *ctx, void *mr_cookie)
{
	(void)ctx;
	lease_mr_deregistered(mr_cookie);
}

static void on_session_closed(void *ctx, void *session_cookie)
{
	(void)ctx;
	session_closed(session_cookie);
}

static void on_endpoint_gone(void *ctx, unsigned endpoint)
{
	const struct served *served = ctx;
	const struct fabrics *fabrics = served->fabrics;

	if (served->first + endpoint < fabrics->endpoints.n)
		sessions_leave(fabrics->control->sessions, served->first + endpoint);
}

static void on_endpoint_news(void *ctx, unsigned endpoint, const char *text)
{
	const struct served *served = ctx;
	const struct fabric_endpoint *facts =
		served->ops->endpoint(served->server, endpoint);

	log_event(LOG_WARNING, "endpoint-news",
		  &(struct log_ctx){ .device = facts ? facts->device : NULL }, "%s: %s",
		  served->ops->name, text);
}

static void on_notified(void *ctx, void *session_cookie, void *mr_cookie,
			uint32_t value, uint32_t lost)
{
	(void)ctx;
	(void)session_cookie;
	lease_notified(mr_cookie, value, lost);
}

static const struct fabric_server_events server_events = {
	.admit = on_admit,
	.channel_up = on_channel_up,
	.channel_down = on_channel_down,
	.mr_registered = on_exposed,
	.mr_deregistered = on_withdrawn,
	.session_closed = on_session_closed,
	.device_removed = on_endpoint_gone,
	.endpoint_event = on_endpoint_news,
	.notified = on_notified,
};

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct served *served = arg;

	(void)fd;
	(void)what;
	served->ops->process(served->server);
	sessions_deliver(served->fabrics->control->sessions);
}

static void number_endpoints(struct fabrics *fabrics, struct served *served)
{
	struct endpoints *endpoints = &fabrics->endpoints;
	unsigned n = served->ops->n_endpoints(served->server);

	served->first = endpoints->n;
	for (unsigned i = 0; i < n; i++) {
		const struct fabric_endpoint *facts =
			served->ops->endpoint(served->server, i);

		if (endpoints->n == WIRE_ENDPOINTS_MAX) {
			log_event(LOG_WARNING, "endpoint-left-out",
				  &(struct log_ctx){ .device = facts->device },
				  "the protocol has room for %d endpoints",
				  WIRE_ENDPOINTS_MAX);
			return;
		}
		endpoints->at[endpoints->n++] = (struct endpoint){
			.ops = served->ops,
			.server = served->server,
			.local = i,
			.facts = facts,
		};
	}
}

static int serve(struct fabrics *fabrics, const struct fabric_server_ops *ops,
		 const struct fabric_server_params *params)
{
	struct served *served = &fabrics->served[fabrics->n];
	int err;

	*served = (struct served){ .fabrics = fabrics, .ops = ops };
	err = ops->open(params, &server_events, served, &served->server);
	if (err)
		return err;
	fabrics->n++;
	served->event = event_new(fabrics->base, ops->fd(served->server),
				  EV_READ | EV_PERSIST, on_ready, served);
	if (!served->event || event_add(served->event, NULL))
		return err_set(-ENOMEM, "no memory for the %s fabric", ops->name);
	number_endpoints(fabrics, served);
	return 0;
}

/* A port that is taken is the commonest thing to go wrong: say where it is set. */
static int name_key(int err, const char *section)
{
	if (err != -EADDRINUSE)
		return err;
	return err_set(err, "%s; stop who has it, or set [%s] port", err_text(),
		       section);
}

static bool is_any(const struct fabric_address *address)
{
	for (size_t i = 0; i < sizeof(address->bytes); i++)
		if (address->bytes[i])
			return false;
	return true;
}

/* Whether both families are served on every address: then one socket does it, lest one
 * endpoint's clients come in at the other. */
static bool serves_any(const struct config *config)
{
	struct fabric_address address;
	bool any4 = false, any6 = false;

	for (unsigned i = 0; i < config->n_listen; i++) {
		if (listener_parse(config->listen[i], 0, &address) || !is_any(&address))
			continue;
		if (address.family == 4)
			any4 = true;
		else
			any6 = true;
	}
	return any4 && any6;
}

static int open_tcp(struct fabrics *fabrics, const struct config *config)
{
	struct fabric_server_params params = {
		.listen = { .port = config->tcp_port },
		.threads = config->tcp_threads,
		.backlog = config->connections_max,
	};
	int err;

	if (serves_any(config))
		return name_key(serve(fabrics, &fabric_tcp_server, &params), "tcp");
	for (unsigned i = 0; i < config->n_listen; i++) {
		err = listener_parse(config->listen[i], config->tcp_port,
				     &params.listen);
		if (err)
			return err;
		err = serve(fabrics, &fabric_tcp_server, &params);
		if (err && !listener_skips(&params.listen, err))
			return name_key(err, "tcp");
	}
	return 0;
}

/* A section for a device that is not served is often one with something misspelt. */
static void warn_missing(const struct fabrics *fabrics, const struct config *config)
{
	for (unsigned i = 0; i < config->n_device_params; i++) {
		const char *name = config->device_params[i].name;
		bool served = false;

		for (unsigned j = 0; j < fabrics->endpoints.n; j++)
			served |= !strcmp(fabrics->endpoints.at[j].facts->device, name);
		if (!served)
			log_event(LOG_WARNING, "device-not-served",
				  &(struct log_ctx){ .device = name },
				  "[device %s]: no such RDMA device is served: see its "
				  "name, and the device_port and address, if any",
				  name);
	}
}

static int open_verbs(struct fabrics *fabrics, const struct config *config)
{
	const char *devices[CONFIG_LIST_MAX + 1] = { NULL };
	struct fabric_address listen[CONFIG_LIST_MAX] = { 0 };
	struct fabric_device_params devices_own[CONFIG_LIST_MAX + 1] = { 0 };
	struct fabric_server_params params = {
		.also = listen + 1,
		.n_also = config->n_listen - 1,
		.devices = config->n_devices ? devices : NULL,
		.device_params = devices_own,
		.n_device_params = config->n_device_params + 1,
		.threads = 1,
		.backlog = config->connections_max,
	};
	int err;

	for (unsigned i = 0; i < config->n_devices; i++)
		devices[i] = config->devices[i];
	for (unsigned i = 0; i < config->n_listen; i++) {
		err = listener_parse(config->listen[i], config->verbs_port, &listen[i]);
		if (err)
			return err;
	}
	params.listen = listen[0];
	/* those that have a section of their own, and all others */
	memcpy(devices_own, config->device_params, sizeof(config->device_params));
	devices_own[config->n_device_params] =
		(struct fabric_device_params){ .port = FABRIC_OPTION_AUTO,
					       .rdma_options = config->rdma_options };
	err = serve(fabrics, &fabric_verbs_server, &params);
	if (!err) {
		warn_missing(fabrics, config);
		return 0;
	}
	if (err == -ENODEV)
		err = err_set(err,
			      "%s; RDMA is served at the addresses of [server] listen",
			      err_text());
	/* what is asked for, and what can be put right, is not passed over */
	if (config->verbs == CONFIG_YES || err == -EADDRINUSE || err == -ENOMEM)
		return name_key(err, "rdma");
	(void)snprintf(fabrics->verbs_missing, sizeof(fabrics->verbs_missing), "%s",
		       err_text());
	log_event(config->tcp ? LOG_NOTICE : LOG_ERR, "rdma-missing", NULL, "%s%s",
		  config->tcp ? "serving TCP only: " : "", err_text());
	return 0;
}

int fabrics_open(struct event_base *base, const struct config *config,
		 struct control *control, struct fabrics **ret_fabrics)
{
	struct fabrics *fabrics = calloc(1, sizeof(*fabrics));
	int err = 0;

	if (!fabrics)
		return err_set(-ENOMEM, "no memory for the fabrics");
	fabrics->base = base;
	fabrics->control = control;
	if (config->verbs == CONFIG_NO)
		(void)snprintf(fabrics->verbs_missing, sizeof(fabrics->verbs_missing),
			       "[rdma] enabled = no");
	else
		err = open_verbs(fabrics, config);
	if (!err && config->tcp)
		err = open_tcp(fabrics, config);
	if (!err && fabrics->endpoints.n == 0)
		err = err_set(-ENODEV, "nothing to serve: no RDMA (%s) and %s",
			      fabrics->verbs_missing,
			      config->tcp ? "no address for TCP"
					  : "[tcp] enabled = no");
	if (err) {
		fabrics_close(fabrics);
		return err;
	}
	*ret_fabrics = fabrics;
	return 0;
}

void fabrics_close(struct fabrics *fabrics)
{
	if (!fabrics)
		return;
	for (unsigned i = 0; i < fabrics->n; i++) {
		struct served *served = &fabrics->served[i];

		if (served->event)
			event_free(served->event);
		served->ops->close(served->server);
	}
	free(fabrics);
}

const struct endpoints *fabrics_endpoints(const struct fabrics *fabrics)
{
	return &fabrics->endpoints;
}

const char *fabrics_verbs_missing(const struct fabrics *fabrics)
{
	return *fabrics->verbs_missing ? fabrics->verbs_missing : NULL;
}
