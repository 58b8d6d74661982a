/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/core-case.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct core_stage stage;

static struct fabric_endpoint *endpoint_add(enum fabric_kind kind)
{
	struct fabric_endpoint *endpoint = &fake_endpoints[n_fake_endpoints++];

	*endpoint = (struct fabric_endpoint){
		.kind = kind,
		.flags = FABRIC_ENDPOINT_ATOMICS | FABRIC_ENDPOINT_INBAND,
		.node = -1,
	};
	return endpoint;
}

static void setup(void)
{
	fake_reset();
	fake.automatic = true;
	core_init(&fake_verbs_server);
	n_fake_endpoints = 0;
	(void)endpoint_add(FABRIC_TCP);
	server_start();
	(void)snprintf(stage.uri, sizeof(stage.uri), "rmem://127.0.0.1:%d", proxy.port);
	memset(stage.buf, 0x5a, sizeof(stage.buf));
}

void client_close(void)
{
	rmem_close(stage.client);
	stage.client = NULL;
}

static void teardown(void)
{
	client_close();
	server_stop();
	core_forget();
	ck_assert_int_eq(fake.live, 0);
}

TCase *core_case(const char *name)
{
	return unit_case(name, setup, teardown);
}

void server_start(void)
{
	core_start();
	proxy_start(core_port);
}

void server_stop(void)
{
	proxy_stop();
	core_stop();
}

void server_restart(void)
{
	server_stop();
	server_start();
}

void server_restart_empty(void)
{
	server_stop();
	core_forget();
	server_start();
}

void serve_devices(unsigned n)
{
	n_fake_endpoints = 1;
	for (unsigned i = 0; i < n; i++) {
		struct fabric_endpoint *endpoint = endpoint_add(FABRIC_VERBS);

		(void)snprintf(endpoint->device, sizeof(endpoint->device), "fake%u", i);
	}
	server_restart();
}

void serve_rdma(void)
{
	serve_devices(2);
}

void serve_sole_rdma(void)
{
	core_config.n_pools = 2;
	core_config.pools[1] = core_config.pools[0];
	(void)strcpy(core_config.pools[1].name, "other");
	for (unsigned i = 0; i < 2; i++) {
		core_config.pools[i].n_devices = 1;
		(void)snprintf(core_config.pools[i].devices[0],
			       sizeof(core_config.pools[i].devices[0]), "fake%u", i);
	}
	serve_rdma();
}

void set_heartbeat(unsigned heartbeat_ms, unsigned fence_ms)
{
	core_config.heartbeat_ms = heartbeat_ms;
	core_config.fence_ms = fence_ms;
}

int open_within(unsigned flags, unsigned timeout_ms)
{
	struct rmem_options options = rmem_options_init();

	options.flags = flags;
	options.timeout_ms = timeout_ms;
	return rmem_open(stage.uri, &options, &stage.client);
}

void open_with(unsigned flags)
{
	int err = open_within(flags, 0);

	ck_assert_msg(err == 0, "%d: %s", err, rmem_error());
}

void open_over(unsigned flags, enum rmem_fabric fabric)
{
	open_with(flags);
	ck_assert_int_eq(info().fabric, fabric);
}

rmem *open_another(const char *options)
{
	rmem *another;
	char at[80];

	(void)snprintf(at, sizeof(at), "rmem://127.0.0.1:%d%s", core_port, options);
	ck_assert_msg(rmem_open(at, NULL, &another) == 0, "%s", rmem_error());
	return another;
}

rmem_lease *alloc(uint64_t bytes, const char *name)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease = NULL;
	int err;

	params.bytes = bytes;
	params.name = name;
	err = rmem_alloc(stage.client, &params, &lease);
	ck_assert_msg(err == 0, "%d: %s", err, rmem_error());
	return lease;
}

rmem_lease *open_with_lease(unsigned flags)
{
	open_with(flags);
	return alloc(1000, NULL);
}

int queue_result(unsigned channels)
{
	struct rmem_queue_params params = rmem_queue_params_init();

	params.channels = channels;
	return rmem_queue_create(stage.client, &params, &stage.queue);
}

void queue_open(unsigned channels)
{
	ck_assert_msg(queue_result(channels) == 0, "%s", rmem_error());
}

void *run_queue_open(void *arg)
{
	queue_open(0);
	return arg;
}

void submit_write(rmem_lease *lease)
{
	struct rmem_op op = {
		.opcode = RMEM_OP_WRITE, .lease = lease, .addr = stage.buf, .bytes = 9
	};

	ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
}

int wait_status(void)
{
	struct rmem_completion completion;

	ck_assert_int_eq(rmem_wait(stage.queue, &completion, 1, 1, -1), 1);
	return completion.status;
}

int queue_write(rmem_lease *lease)
{
	submit_write(lease);
	return wait_status();
}

void edit_no_channel(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_welcome)
		msg->welcome.channel = 0;
}

void sleep_1ms(void)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	(void)nanosleep(&ms, NULL);
}

struct rmem_info info_of(rmem *session)
{
	struct rmem_info got = rmem_info_init();

	ck_assert_int_eq(rmem_info(session, &got), 0);
	return got;
}

struct rmem_info info(void)
{
	return info_of(stage.client);
}
