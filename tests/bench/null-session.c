/* SPDX-License-Identifier: BSD-3-Clause */
#include "null-session.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit/librmem/daemon-core.h"
#include "unit/librmem/fake-server.h"
#include "null-verbs.h"

rmem *null_session_open(void)
{
	rmem *session = NULL;
	char uri[96];

	n_fake_endpoints = 1;
	fake_endpoints[0] = (struct fabric_endpoint){
		.kind = FABRIC_VERBS,
		.address = { .family = 4, .bytes = { 10, 1, 0, 1 } },
		.device = NULL_DEVICE,
		.node = -1,
	};
	core_init(&fake_verbs_server);
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
