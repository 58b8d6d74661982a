/* SPDX-License-Identifier: BSD-3-Clause */
#include "null-session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/librmem/librmem-server.h"
#include "null-verbs.h"

rmem *null_session_open(void)
{
	rmem *session = NULL;
	char uri[96];

	server_start();
	server.welcome.heartbeat_ms = 2000;
	server.welcome.fence_ms = 600000;
	server.welcome.n_endpoints = 2;
	server.welcome.endpoints[1].fabric = WIRE_FABRIC_VERBS;
	(void)strcpy(server.welcome.endpoints[1].device, NULL_DEVICE);
	(void)snprintf(uri, sizeof(uri), "rmem://127.0.0.1:%d?fabric=rdma",
		       server.port);
	if (rmem_open(uri, NULL, &session)) {
		(void)fprintf(stderr, "no session: %s\n", rmem_error());
		exit(1);
	}
	return session;
}

void null_session_close(rmem *session)
{
	rmem_close(session);
	server_stop();
}
