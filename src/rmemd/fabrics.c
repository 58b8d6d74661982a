/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/fabrics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "fabric/address.h"
#include "rmemd/control/control.h"
#include "rmemd/control/listener.h"

/* A port that is taken is the commonest thing to go wrong: say where it is set. */
static int name_key(int err, const char *section)
{
	if (err != -EADDRINUSE)
		return err;
	return err_set(err, "%s; stop the process that has it, or set [%s] port",
		       err_text(), section);
}

/* The endpoint is that of address `i` of the configuration. */
static int serve_tcp(struct control *control, const struct fabric_server_params *params,
		     unsigned i)
{
	const struct config *config = control->config;
	struct endpoints *endpoints = &control->endpoints;
	unsigned n = endpoints->n;
	int err = endpoints_serve(control, &fabric_tcp_server, params);

	if (endpoints->n > n && i < config->n_tcp_advertise)
		endpoints->at[n].advertised = config->tcp_advertise[i];
	return err;
}

static int open_tcp(struct control *control)
{
	const struct config *config = control->config;
	struct fabric_server_params params = {
		.threads = config_tcp_threads(config),
		.tls = config->tcp_tls,
		.backlog = config->connections_max,
	};
	int err;

	for (unsigned i = 0; i < config->n_listen; i++) {
		params.listen = config->listen[i];
		params.listen.port = config->tcp_port;
		err = serve_tcp(control, &params, i);
		if (err && !listener_skips(&params.listen, err))
			return name_key(err, "tcp");
	}
	return 0;
}

/* A section for a device that is not served is often one with something misspelt. */
static void warn_missing(const struct endpoints *endpoints, const struct config *config)
{
	for (unsigned i = 0; i < config->n_device_params; i++) {
		const char *name = config->device_params[i].name;
		int node;

		if (endpoints_node(endpoints, name, &node))
			log_event(LOG_WARNING, "device-not-served",
				  &(struct log_ctx){ .device = name },
				  "[device %s]: no such RDMA device is served: see its "
				  "name, and the device_port and address, if any",
				  name);
	}
}

static void warn_awaited(const struct endpoints *endpoints)
{
	for (unsigned i = 0; i < endpoints->n; i++) {
		const struct fabric_endpoint *info = endpoints->at[i].info;

		if (info->awaited)
			log_event(LOG_WARNING, "endpoint-awaited",
				  &(struct log_ctx){ .device = info->device },
				  "rdma: %s%s is waited for: it is served once it is "
				  "there and has an active port with an address of "
				  "[server] listen; see rmemctl doctor",
				  *info->device ? "RDMA device " : "an RDMA device",
				  info->device);
	}
}

static int open_verbs(struct control *control, char *missing, size_t missing_bytes)
{
	const struct config *config = control->config;
	const char *devices[CONFIG_LIST_MAX + 1] = { NULL };
	struct fabric_address listen[CONFIG_LIST_MAX] = { 0 };
	struct fabric_device_params devices_own[CONFIG_LIST_MAX + 1] = { 0 };
	struct fabric_server_params params = {
		.extra_listen = listen + 1,
		.n_extra_listen = config->n_listen - 1,
		.devices = config->n_devices ? devices : NULL,
		.required = config->verbs == CONFIG_YES,
		.device_params = devices_own,
		.n_device_params = config->n_device_params + 1,
		.key_quarantine_ms = config->key_quarantine_ms,
		.threads = 1,
		.backlog = config->connections_max,
	};
	int err;

	for (unsigned i = 0; i < config->n_devices; i++)
		devices[i] = config->devices[i];
	for (unsigned i = 0; i < config->n_listen; i++) {
		listen[i] = config->listen[i];
		listen[i].port = config->verbs_port;
	}
	params.listen = listen[0];
	/* those that have a section of their own, and all others */
	memcpy(devices_own, config->device_params, sizeof(config->device_params));
	devices_own[config->n_device_params] =
		(struct fabric_device_params){ .port = FABRIC_OPTION_AUTO,
					       .rdma_options = config->rdma_options };
	err = endpoints_serve(control, &fabric_verbs_server, &params);
	if (!err) {
		warn_missing(&control->endpoints, config);
		warn_awaited(&control->endpoints);
		return 0;
	}
	if (err == -ENODEV)
		err = err_set(err,
			      "%s; RDMA is served at the addresses of [server] listen",
			      err_text());
	/* an error is not passed over if RDMA is required, or if the user can fix it */
	if (config->verbs == CONFIG_YES || err == -EADDRINUSE || err == -ENOMEM)
		return name_key(err, "rdma");
	(void)snprintf(missing, missing_bytes, "%s", err_text());
	log_event(config->tcp ? LOG_NOTICE : LOG_ERR, "rdma-missing", NULL, "%s%s",
		  config->tcp ? "serving TCP only: " : "", err_text());
	return 0;
}

int fabrics_open(struct control *control, char *missing, size_t missing_bytes)
{
	const struct config *config = control->config;
	int err = 0;

	*missing = '\0';
	if (config->verbs == CONFIG_NO)
		(void)snprintf(missing, missing_bytes, "[rdma] enabled = no");
	else
		err = open_verbs(control, missing, missing_bytes);
	if (!err && config->tcp)
		err = open_tcp(control);
	if (!err && control->endpoints.n == 0)
		err = err_set(-ENODEV, "nothing to serve: no RDMA (%s) and %s", missing,
			      config->tcp ? "no address for TCP"
					  : "[tcp] enabled = no");
	return err;
}
