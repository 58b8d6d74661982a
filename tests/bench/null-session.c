/* SPDX-License-Identifier: BSD-3-Clause */
#include "null-session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "unit/librmem/daemon-core.h"
#include "null-verbs.h"

/* ---- the server's side of the device: keys, and no channels ---- */

struct fabric_server {
	const struct fabric_server_events *events;
	void *ctx;
	int fd;
	struct fabric_session *closing;
};

struct fabric_session {
	struct fabric_server *server;
	void *cookie;
	struct list mrs;
};

struct fabric_mr {
	struct list link;
	void *cookie;
};

static struct fabric_endpoint at = { .kind = FABRIC_VERBS, .node = -1 };
static struct fabric_server the_server;

static int server_open(const struct fabric_server_params *params,
		       const struct fabric_server_events *events, void *ctx,
		       struct fabric_server **ret_server)
{
	(void)params;
	the_server =
		(struct fabric_server){ events, ctx, eventfd(0, EFD_CLOEXEC), NULL };
	(void)strcpy(at.device, NULL_DEVICE);
	*ret_server = &the_server;
	return 0;
}

static void server_close(struct fabric_server *server)
{
	(void)close(server->fd);
}

static int server_fd(const struct fabric_server *server)
{
	return server->fd;
}

static void server_process(struct fabric_server *server)
{
	struct fabric_session *session = server->closing;
	eventfd_t count;

	(void)eventfd_read(server->fd, &count);
	server->closing = NULL;
	if (!session)
		return;
	list_for_each_entry_safe(struct fabric_mr, mr, &session->mrs, link) {
		server->events->mr_deregistered(server->ctx, mr->cookie);
		free(mr);
	}
	server->events->session_closed(server->ctx, session->cookie);
	free(session);
}

static unsigned n_endpoints(const struct fabric_server *server)
{
	(void)server;
	return 1;
}

static const struct fabric_endpoint *endpoint(const struct fabric_server *server,
					      unsigned i)
{
	(void)server;
	(void)i;
	return &at;
}

static int session_begin(struct fabric_server *server, unsigned i, void *cookie,
			 struct fabric_session **ret_session)
{
	(void)i;
	*ret_session = malloc(sizeof(**ret_session));
	(*ret_session)->server = server;
	(*ret_session)->cookie = cookie;
	list_init(&(*ret_session)->mrs);
	return 0;
}

static void session_close(struct fabric_session *session)
{
	session->server->closing = session;
	(void)eventfd_write(session->server->fd, 1);
}

static int channel_close(struct fabric_session *session, uint32_t channel)
{
	(void)session;
	(void)channel;
	return 0;
}

static int reg_mr(struct fabric_session *session, void *addr, size_t bytes,
		  unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		  struct fabric_key *ret_key)
{
	struct fabric_mr *mr = malloc(sizeof(*mr));

	(void)bytes;
	(void)rights;
	*ret_key = (struct fabric_key){ (uintptr_t)addr, 100 };
	mr->cookie = cookie;
	list_append(&session->mrs, &mr->link);
	*ret_mr = mr;
	return 1;
}

static bool dereg_mr(struct fabric_mr *mr)
{
	list_remove(&mr->link);
	free(mr);
	return true;
}

static const struct fabric_server_ops null_server = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.open = server_open,
	.close = server_close,
	.fd = server_fd,
	.process = server_process,
	.n_endpoints = n_endpoints,
	.endpoint = endpoint,
	.session_open = session_begin,
	.session_close = session_close,
	.channel_close = channel_close,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
};

/* ---- the session ---- */

rmem *null_session_open(void)
{
	rmem *session = NULL;
	char uri[96];

	core_init(&null_server);
	core_config.pools[0].bytes = UINT64_C(16) << 20;
	core_config.heartbeat_ms = 2000;
	core_config.fence_ms = 600000;
	core_start();
	(void)snprintf(uri, sizeof(uri), "rmem://127.0.0.1:%d?fabric=rdma", core_port);
	if (rmem_open(uri, NULL, &session)) {
		(void)fprintf(stderr, "no session: %s\n", rmem_error());
		exit(1);
	}
	return session;
}

void null_session_close(rmem *session)
{
	rmem_close(session);
	core_stop();
}
