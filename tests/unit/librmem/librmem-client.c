/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/librmem-client.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

char uri[80];
rmem *client;
unsigned char buf[4096];

void client_setup(void)
{
	fake_reset();
	fake.automatic = true;
	server_start();
	(void)snprintf(uri, sizeof(uri), "rmem://127.0.0.1:%d", server.port);
	memset(buf, 0x5a, sizeof(buf));
}

void client_teardown(void)
{
	server_stop();
	ck_assert_int_eq(fake.live, 0);
}

void open_with(unsigned flags)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	int err;

	options.flags = flags;
	err = rmem_open(uri, &options, &client);
	ck_assert_msg(err == 0, "%d: %s", err, rmem_error());
}

rmem_lease *alloc(uint64_t bytes, const char *name)
{
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;
	int err;

	params.bytes = bytes;
	params.name = name;
	err = rmem_alloc(client, &params, &lease);
	ck_assert_msg(err == 0, "%d: %s", err, rmem_error());
	return lease;
}

void *queue_make(void *arg)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;

	ck_assert_msg(rmem_queue_create(client, &params, arg) == 0, "%s", rmem_error());
	return NULL;
}

void breathe(void)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	(void)nanosleep(&ms, NULL);
}

struct rmem_info info(void)
{
	struct rmem_info got = { .size = sizeof(got) };

	ck_assert_int_eq(rmem_info(client, &got), 0);
	return got;
}

void serve_rdma(void)
{
	server.welcome.n_endpoints = 3;
	server.welcome.endpoints[1].fabric = WIRE_FABRIC_VERBS;
	(void)strcpy(server.welcome.endpoints[1].device, "fake0");
	server.welcome.endpoints[2].fabric = WIRE_FABRIC_VERBS;
	(void)strcpy(server.welcome.endpoints[2].device, "fake1");
}
