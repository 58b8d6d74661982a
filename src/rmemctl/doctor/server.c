/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/doctor/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "doctor/files.h"
#include "fabric/address.h"
#include "rmemctl/client.h"
#include "rmemd/pool/host.h"

#define DEFAULT_PATH SYSCONFDIR "/rmem/rmemd.conf"

/* ---- the configuration ---- */

/* As the daemon does: without a file the defaults serve. */
static void config_read(struct server *server, const char *path)
{
	static char below_root[FILES_PATH_BYTES];
	bool named = path != NULL;

	if (!path)
		path = files_path(below_root, sizeof(below_root), "%s%s",
				  server->host.root, DEFAULT_PATH);
	server->config_path = path;
	config_default(&server->config);
	server->config_err = config_load(path, &server->config);
	if (server->config_err == -ENOENT && !named) {
		server->config_err = 0;
		server->config_path = NULL;
	}
	if (!server->config_err)
		return;
	(void)snprintf(server->config_text, sizeof(server->config_text), "%s",
		       err_text());
	config_default(&server->config);
}

static void host_configure(struct server *server)
{
	const struct config *config = &server->config;
	struct host *host = &server->host;

	host->rdma = config->verbs == CONFIG_NO    ? HOST_RDMA_UNUSED
		     : config->verbs == CONFIG_YES ? HOST_RDMA_REQUIRED
						   : HOST_RDMA_WANTED;
	for (unsigned i = 0; i < config->n_devices; i++)
		server->devices[i] = config->devices[i];
	host->devices = config->n_devices ? server->devices : NULL;
	host->n_devices = config->n_devices;
	host->traffic_class = config->rdma_options.traffic_class;
}

/* ---- the daemon ---- */

static json_t *resource_get(struct server *server, const char *resource)
{
	char *body = NULL;
	json_t *answer;

	if (server->daemon_err)
		return NULL;
	server->daemon_err = client_get(server->socket_path, resource, NULL, &body);
	if (server->daemon_err) {
		(void)snprintf(server->daemon_text, sizeof(server->daemon_text), "%s",
			       err_text());
		return NULL;
	}
	answer = json_loads(body, 0, NULL);
	free(body);
	return answer;
}

static void daemon_read(struct server *server, const char *socket_path)
{
	server->socket_path = socket_path ? socket_path : server->config.admin_socket;
	if (!host_is_live(&server->host))
		return;
	server->status = resource_get(server, "/v1/status");
	server->pools = resource_get(server, "/v1/pools");
	server->pid = (long)json_integer_value(json_object_get(server->status, "pid"));
}

void server_read(struct server *server, const char *config_path,
		 const char *socket_path)
{
	host_set_root(server->host.root);
	config_read(server, config_path);
	host_configure(server);
	host_read(&server->host);
	daemon_read(server, socket_path);
	limits_read(server, &server->limits);
}

void server_release(struct server *server)
{
	json_decref(server->status);
	json_decref(server->pools);
}

const json_t *server_pool(const struct server *server, const char *name)
{
	const json_t *pools = json_object_get(server->pools, "pools");

	for (size_t i = 0; i < json_array_size(pools); i++) {
		const json_t *pool = json_array_get(pools, i);
		const char *has = json_string_value(json_object_get(pool, "name"));
		const char *state = json_string_value(json_object_get(pool, "state"));

		if (has && strcmp(has, name) == 0)
			return state && strcmp(state, "failed") == 0 ? NULL : pool;
	}
	return NULL;
}

bool server_is_local(const struct server *server)
{
	for (unsigned i = 0; i < server->config.n_listen; i++)
		if (!fabric_address_is_loopback(&server->config.listen[i]))
			return false;
	return true;
}
