/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening sessions with a scripted server, and leases. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/librmem/librmem-client.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"

/* ---- names: what this program resolves ---- */

static unsigned mute_port; /* of the first address of every name; 0: it has no such */

static struct addrinfo *address_of(unsigned port, struct addrinfo *next)
{
	struct addrinfo *info = calloc(1, sizeof(*info) + sizeof(struct sockaddr_in));
	struct sockaddr_in *in = (void *)(info + 1);

	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	info->ai_family = AF_INET;
	info->ai_socktype = SOCK_STREAM;
	info->ai_addr = (void *)in;
	info->ai_addrlen = sizeof(*in);
	info->ai_next = next;
	return info;
}

int getaddrinfo(const char *restrict node, const char *restrict service,
		const struct addrinfo *restrict hints, struct addrinfo **restrict list)
{
	(void)node;
	(void)hints;
	*list = address_of((unsigned)atoi(service), NULL);
	if (mute_port)
		*list = address_of(mute_port, *list);
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	while (list) {
		struct addrinfo *next = list->ai_next;

		free(list);
		list = next;
	}
}

/* ---- opening ---- */

START_TEST(open__says_what_it_got)
{
	struct rmem_info got;
	char text[64];

	open_with(0);
	got = info();
	(void)snprintf(text, sizeof(text), "127.0.0.1:%d", server.port);
	ck_assert_str_eq(got.server, text);
	/* the connection, which the hello completed */
	ck_assert_uint_eq(server.segments, 2);
	ck_assert_int_eq(got.fabric, RMEM_FABRIC_TCP);
	ck_assert_ptr_nonnull(strstr(got.downgrade, "does not serve RDMA"));
	ck_assert_uint_eq(got.session_id, 9);
	ck_assert_uint_eq(got.heartbeat_ms, 20);
	ck_assert_uint_eq(got.channels, 1);
	ck_assert_str_eq(got.device, "");
	ck_assert_int_eq(rmem_fd(client), -EINVAL);
	ck_assert_int_eq(rmem_process(client), -EINVAL);
	got.size = 1;
	ck_assert_int_eq(rmem_info(client, &got), -EINVAL);
	/* the channel showed the session's token */
	ck_assert_uint_eq(fake_latest()->hello.session, 9);
	ck_assert_mem_eq(fake_latest()->hello.token, server.welcome.token, 16);
	rmem_close(client);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_bye], 1);
	rmem_close(NULL);
}
END_TEST

START_TEST(open__prefers_rdma)
{
	struct rmem_info got;
	rmem_lease *lease;

	serve_rdma();
	(void)strcat(uri, "?channels=2");
	open_with(0);
	got = info();
	ck_assert_int_eq(got.fabric, RMEM_FABRIC_RDMA);
	ck_assert_ptr_null(got.downgrade);
	ck_assert_str_eq(got.device, "fake0,fake1");
	lease = alloc(20000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, buf, sizeof(buf)), 0);
	ck_assert_mem_eq(server.leases[0].memory + 5, buf, sizeof(buf));
	rmem_close(client);
}
END_TEST

/* From memory of the program, or from a buffer; whether it is copied depends on the size. */
START_TEST(write__and_read_move_any_size)
{
	static const size_t sizes[] = { 1, 64, 512, 513, 4096, SERVER_LEASE_BYTES };
	static unsigned char plain[SERVER_LEASE_BYTES];
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	unsigned char *local = plain;
	rmem_buffer *buffer;
	rmem_lease *lease;

	serve_rdma();
	open_with(0);
	lease = alloc(SERVER_LEASE_BYTES, NULL);
	params.bytes = SERVER_LEASE_BYTES;
	ck_assert_int_eq(rmem_buffer_create(client, &params, &buffer), 0);
	if (_i)
		local = rmem_buffer_addr(buffer);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(local, (int)i + 1, sizes[i]);
		ck_assert_int_eq(rmem_write(lease, 0, local, sizes[i]), 0);
		ck_assert_mem_eq(server.leases[0].memory, local, sizes[i]);
		server.leases[0].memory[0] = 77;
		ck_assert_int_eq(rmem_read(lease, 0, local, sizes[i]), 0);
		ck_assert_mem_eq(server.leases[0].memory, local, sizes[i]);
	}
	/* nothing is left that counts as in use */
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	rmem_close(client);
}
END_TEST

/* One channel is asked for, but some memory is lent through the other device alone. */
START_TEST(open__has_channels_to_where_memory_is)
{
	rmem_lease *lease;

	serve_rdma();
	open_with(0);
	ck_assert_str_eq(info().device, "fake0");
	lease = alloc(1000, NULL);
	/* that of TCP is the first */
	ck_assert_uint_eq(server.reach, 2);
	for (uint64_t bytes = 2000; bytes > 0; bytes -= 1000) {
		server_lock();
		server.reach = 0;
		server_unlock();
		ck_assert_int_eq(bytes > 1000 ? rmem_grow(lease, bytes)
					      : rmem_trim(lease, bytes),
				 0);
		ck_assert_uint_eq(server.reach, 2);
	}
	rmem_close(client);
	for (unsigned i = 1; i < 3; i++)
		server.welcome.endpoints[i].flags |= WIRE_ENDPOINT_SOLE;
	for (unsigned through = 2; through <= 4; through *= 2) {
		server_lock();
		server.through = (uint8_t)through;
		server_unlock();
		open_with(0);
		ck_assert_str_eq(info().device, "fake0,fake1");
		ck_assert_uint_eq(info().channels, 1);
		lease = alloc(1000, NULL);
		ck_assert_uint_eq(server.reach, 6);
		ck_assert_int_eq(rmem_write(lease, 5, buf, 100), 0);
		ck_assert_int_eq(rmem_read(lease, 5, buf, 100), 0);
		/* it asks once for what it cannot have a key for */
		ck_assert_uint_le(server.seen[WIRE_TYPE_attach], 2);
		rmem_close(client);
	}
}
END_TEST

/* One that nobody asked for cannot be had: what the others reach is there, and it comes later. */
START_TEST(open__does_without_a_channel_beyond_those_asked_for)
{
	static const int errnos[] = { EDQUOT, ENODEV };
	rmem_lease *lease;

	serve_rdma();
	for (unsigned i = 1; i < 3; i++)
		server.welcome.endpoints[i].flags |= WIRE_ENDPOINT_SOLE;
	server.fail_on = WIRE_TYPE_open_channel;
	server.fail_errno = errnos[_i];
	server.fail_skip = 1;
	server.through = 2;
	open_with(0);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, buf, 100), 0);
	server_lock();
	server.through = 4;
	server_unlock();
	lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, buf, 100), 0);
	rmem_close(client);
}
END_TEST

static void deny(unsigned endpoints)
{
	server_lock();
	server.deny = endpoints;
	server_unlock();
}

/* What the server is told now with a request. */
static unsigned reach_told(void)
{
	unsigned reach;

	ck_assert_int_eq(rmem_free(alloc(1000, NULL)), 0);
	server_lock();
	reach = server.reach;
	server_unlock();
	return reach;
}

/* The server is not to lend memory there. */
START_TEST(reach__is_without_a_device_that_no_channel_can_be_had_to)
{
	rmem_lease *lease;

	serve_rdma();
	for (unsigned i = 1; i < 3; i++)
		server.welcome.endpoints[i].flags |= WIRE_ENDPOINT_SOLE;
	server.deny = _i ? 0 : 4;
	open_with(0);
	lease = alloc(1000, "known");
	if (_i) {
		ck_assert_uint_eq(server.reach, 6);
		deny(4);
		fake_peer_gone(fake_latest());
		/* one that could not be had for a moment may be back by now */
		AWAIT(rmem_write(lease, 0, buf, 10) == 0 && reach_told() == 2);
	}
	ck_assert_uint_eq(reach_told(), 2);
	server_lock();
	server.reach = 0;
	server_unlock();
	ck_assert_int_eq(rmem_grow(lease, 2000), 0);
	ck_assert_uint_eq(server.reach, 2);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_attach(client, "known", RMEM_READ | RMEM_WRITE, &lease),
			 0);
	ck_assert_uint_eq(server.reach, 2);
	/* it is tried again and again */
	deny(0);
	AWAIT(reach_told() == 6);
	rmem_close(client);
}
END_TEST

/* That one queue gets no channel says nothing of a device to which another has one. */
START_TEST(reach__does_not_depend_on_one_more_channel)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct fabric_channel *channel;
	rmem_queue *queue;

	serve_rdma();
	for (unsigned i = 1; i < 3; i++)
		server.welcome.endpoints[i].flags |= WIRE_ENDPOINT_SOLE;
	open_with(0);
	channel = fake_latest();
	deny(4);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	ck_assert_uint_eq(reach_told(), 6);
	fake_peer_gone(channel);
	ck_assert_uint_eq(reach_told(), 6);
	AWAIT(reach_told() == 2);
	rmem_close(client);
}
END_TEST

/* Where none can be had, nothing better is known. */
START_TEST(reach__of_nothing_is_all)
{
	rmem_lease *lease;
	unsigned asked;

	serve_rdma();
	for (unsigned i = 1; i < 3; i++)
		server.welcome.endpoints[i].flags |= WIRE_ENDPOINT_SOLE;
	server.deny = 4;
	open_with(0);
	lease = alloc(1000, NULL);
	ck_assert_uint_eq(reach_told(), 2);
	deny(6);
	asked = server.seen[WIRE_TYPE_open_channel];
	fake_peer_gone(fake_latest());
	AWAIT(rmem_read(lease, 0, buf, 0) == 0 && reach_told() == 6);
	ck_assert_uint_gt(server.seen[WIRE_TYPE_open_channel], asked);
	deny(0);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	rmem_close(client);
}
END_TEST

START_TEST(open__uses_devices_as_the_uri_says)
{
	serve_rdma();
	(void)strcat(uri, "?mtu=512&source=10.0.0.7");
	open_with(0);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_RDMA);
	ck_assert_int_eq(fake.params.rdma_options.mtu, 512);
	ck_assert_int_eq(fake.params.rdma_options.retry_count, 6);
	ck_assert_uint_eq(fake.params.source.family, 4);
	rmem_close(client);
}
END_TEST

static _Atomic int *const rdma_faults[] = { &fake.available_err, &fake.domain_err,
					    &fake.rdma_cq_err };

START_TEST(open__falls_back_to_tcp)
{
	serve_rdma();
	*rdma_faults[_i] = -ENODEV;
	if (rdma_faults[_i] != &fake.domain_err) {
		open_with(0);
		ck_assert_int_eq(info().fabric, RMEM_FABRIC_TCP);
		ck_assert_ptr_nonnull(strstr(info().downgrade, "no fake"));
		rmem_close(client);
	}
	(void)strcat(uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -ENODEV);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "RDMA cannot be used"));
	/* an open that failed says good-bye all the same */
	ck_assert_uint_ge(server.seen[WIRE_TYPE_bye], 1);
}
END_TEST

START_TEST(open__is_refused)
{
	server.refuse = EACCES;
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "you may not"));
	server_lock();
	server.refuse = 0;
	server.welcome.version = 9;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -ENOTSUP);
	server_lock();
	server.welcome.version = 1;
	server.welcome.fence_ms = server.welcome.heartbeat_ms;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EPROTO);
	server_lock();
	server.welcome.fence_ms = 200;
	server.welcome.n_endpoints = 0;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -ENODEV);
	server_lock();
	server.welcome.n_endpoints = 1;
	server.fail_on = WIRE_TYPE_open_channel;
	server.fail_errno = EDQUOT;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EDQUOT);
	server_lock();
	fake.connect_err = -EHOSTUNREACH;
	server_unlock();
	ck_assert_int_eq(rmem_open(uri, NULL, &client), -EHOSTUNREACH);
}
END_TEST

START_TEST(open__wants_sound_options)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	char long_name[80];

	memset(long_name, 'x', sizeof(long_name));
	long_name[65] = '\0';
	options.flags = 0x80;
	ck_assert_int_eq(rmem_open(uri, &options, &client), -EINVAL);
	options.flags = 0;
	options.client = long_name;
	ck_assert_int_eq(rmem_open(uri, &options, &client), -EINVAL);
	options.client = "";
	ck_assert_int_eq(rmem_open(uri, &options, &client), -EINVAL);
	options.client = "a\nb";
	ck_assert_int_eq(rmem_open(uri, &options, &client), -EINVAL);
	options.client = NULL;
	options.size = 0;
	ck_assert_int_eq(rmem_open(uri, &options, &client), -EINVAL);
	ck_assert_int_eq(rmem_open(uri, NULL, NULL), -EINVAL);
	ck_assert_int_eq(rmem_open("nonsense", NULL, &client), -EINVAL);
	ck_assert_uint_eq(server.connections, 0);
}
END_TEST

START_TEST(open__of_a_mute_server_ends_in_time)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;

	server.mute = true;
	options.timeout_ms = 50;
	ck_assert_int_eq(rmem_open(uri, &options, &client), -ETIMEDOUT);
}
END_TEST

/* An address where nobody answers leaves time for the next. */
START_TEST(open__of_a_name_whose_first_address_is_mute)
{
	struct rmem_options options = RMEM_OPTIONS_INIT;
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t start = clock_now_ms();
	char text[64];

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(listen(fd, 8), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in, &bytes), 0);
	mute_port = ntohs(in.sin_port);
	options.timeout_ms = 2000;
	ck_assert_msg(rmem_open(uri, &options, &client) == 0, "%s", rmem_error());
	(void)snprintf(text, sizeof(text), "127.0.0.1:%d", server.port);
	ck_assert_str_eq(info().server, text);
	rmem_close(client);
	ck_assert_uint_ge(clock_now_ms() - start, 1000);
	/* all together take no longer than they may */
	server_lock();
	server.mute = true;
	server_unlock();
	start = clock_now_ms();
	options.timeout_ms = 300;
	ck_assert_int_eq(rmem_open(uri, &options, &client), -ETIMEDOUT);
	ck_assert_uint_ge(clock_now_ms() - start, 300);
	ck_assert_uint_lt(clock_now_ms() - start, 5000);
	(void)close(fd);
}
END_TEST

START_TEST(open__of_a_closed_port)
{
	ck_assert_int_eq(rmem_open("rmem://127.0.0.1:1", NULL, &client), -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "127.0.0.1:1: "));
}
END_TEST

/* ---- leases ---- */

START_TEST(leases__live_and_die)
{
	rmem_lease *lease, *again = NULL;
	struct rmem_stat stat;

	open_with(0);
	lease = alloc(1000, "thing");
	ck_assert_uint_eq(rmem_lease_bytes(lease), 1000);
	ck_assert_uint_eq(rmem_lease_rights(lease), RMEM_READ | RMEM_WRITE);
	ck_assert_int_eq(rmem_lease_node(lease), SERVER_NODE);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	ck_assert_int_eq(rmem_stat(client, "thing", &stat), 0);
	ck_assert_uint_eq(stat.id, rmem_lease_id(lease));
	ck_assert_int_eq(rmem_attach(client, "thing", RMEM_READ, &again), -EBUSY);
	ck_assert_int_eq(rmem_grow(lease, 2000), 0);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 2000);
	ck_assert_int_eq(rmem_write(lease, 1990, buf, 10), 0);
	ck_assert_int_eq(rmem_write(lease, 1991, buf, 10), -EINVAL);
	ck_assert_int_eq(rmem_grow(lease, 1999), -EINVAL);
	ck_assert_int_eq(rmem_trim(lease, 2001), -EINVAL);
	ck_assert_int_eq(rmem_trim(lease, 0), 0);
	ck_assert_int_eq(rmem_read(lease, 0, buf, 1), -EINVAL);
	ck_assert_int_eq(rmem_read(lease, 0, buf, 0), 0);
	ck_assert_int_eq(rmem_rename(lease, "other", 0), 0);
	ck_assert_int_eq(rmem_rename(lease, "", 0), -EINVAL);
	ck_assert_int_eq(rmem_rename(lease, "a", 1), -EINVAL);
	ck_assert_int_eq(rmem_renew(lease, 5), 0);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_attach(client, "thing", RMEM_READ, &lease), -ENOENT);
	ck_assert_int_eq(rmem_attach(client, "other", 9, &lease), -EINVAL);
	ck_assert_int_eq(rmem_attach(client, "other", RMEM_READ, &lease), 0);
	ck_assert_int_eq(rmem_free(lease), -EACCES);
	ck_assert_int_eq(rmem_grow(lease, 9), -EACCES);
	ck_assert_int_eq(rmem_rename(lease, "x", 0), -EACCES);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_remove(client, "other"), 0);
	ck_assert_int_eq(rmem_remove(client, "other"), -ENOENT);
	rmem_close(client);
}
END_TEST

START_TEST(layout__tells_what_was_asked_and_given)
{
	struct rmem_layout layout = { .size = sizeof(layout) };
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease;

	open_with(0);
	params.bytes = 5000;
	params.placement = RMEM_PLACE_INTERLEAVE;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), 0);
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), 0);
	ck_assert_int_eq((int)layout.placement, (int)RMEM_PLACE_INTERLEAVE);
	ck_assert_int_eq(layout.node, RMEM_NODE_ANY);
	ck_assert_uint_eq(layout.segments, 3);
	ck_assert_uint_eq(layout.nodes, 2);
	ck_assert_int_eq(layout.share[0].node, SERVER_NODE - 1);
	ck_assert_uint_eq(layout.share[0].bytes, 1000);
	ck_assert_int_eq(layout.share[1].node, SERVER_NODE);
	ck_assert_uint_eq(layout.share[1].bytes, 4000);
	/* as of the last change, and of nothing there is nothing */
	ck_assert_int_eq(rmem_trim(lease, 0), 0);
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), 0);
	ck_assert_uint_eq(layout.segments + layout.nodes, 0);
	layout.size--;
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), -EINVAL);
	ck_assert_int_eq(rmem_lease_layout(lease, NULL), -EINVAL);
	params.placement = RMEM_PLACE_DEVICE;
	params.device = "able0";
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), 0);
	server_lock();
	ck_assert_str_eq(server.device, "able0");
	server_unlock();
	layout.size++;
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), 0);
	ck_assert_int_eq((int)layout.placement, (int)RMEM_PLACE_DEVICE);
	ck_assert_uint_eq(layout.nodes, 1);
	rmem_close(client);
}
END_TEST

START_TEST(alloc__errors)
{
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *lease = NULL;

	open_with(0);
	params.bytes = 1 << 20;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "the pools are full"));
	params.bytes = 1;
	params.align = 3;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.align = UINT64_C(1) << 31;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.align = 0;
	params.node = -2;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.node = 0;
	params.device = "able0";
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.placement = RMEM_PLACE_DEVICE;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.node = RMEM_NODE_ANY;
	params.device = "";
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.device = "a\tb";
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.device = NULL;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.placement = (enum rmem_placement)3;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "placement is 3"));
	params.placement = RMEM_PLACE_NODE;
	params.ttl_ms = 5;
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	params.name = "a\tb";
	ck_assert_int_eq(rmem_alloc(client, &params, &lease), -EINVAL);
	ck_assert_ptr_null(lease);
	rmem_close(client);
}
END_TEST

static int count(const struct rmem_stat *stat, void *arg)
{
	unsigned *n = arg;

	ck_assert_uint_gt(stat->id, 0);
	return ++*n == 5 ? 55 : 0;
}

START_TEST(list__goes_through_pages)
{
	static const char *const names[] = { "a1", "b1", "a2", "a3", "b2" };
	unsigned n = 0;

	open_with(0);
	for (unsigned i = 0; i < 5; i++)
		(void)alloc(1, names[i]);
	ck_assert_int_eq(rmem_list(client, "a", count, &n), 0);
	ck_assert_uint_eq(n, 3);
	n = 0;
	ck_assert_int_eq(rmem_list(client, NULL, count, &n), 55);
	n = 0;
	ck_assert_int_eq(rmem_list(client, "none", count, &n), 0);
	ck_assert_uint_eq(n, 0);
	server_lock();
	server.list_twice = true;
	server_unlock();
	ck_assert_int_eq(rmem_list(client, "a", count, &n), -EPROTO);
	rmem_close(client);
}
END_TEST

START_TEST(events__reach_the_lease)
{
	rmem_lease *lease, *other;

	open_with(0);
	lease = alloc(1000, NULL);
	other = alloc(1000, "other");
	ck_assert_int_eq(rmem_detach(alloc(1000, "third")), 0);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	server_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), -ESTALE);
	ck_assert_int_eq(rmem_grow(lease, 2000), -ESTALE);
	ck_assert_int_eq(rmem_free(lease), 0);
	ck_assert_uint_eq(server.seen[WIRE_TYPE_free], 0);
	/* who may only read gives the handle back in the same way */
	ck_assert_int_eq(rmem_attach(client, "third", RMEM_READ, &lease), 0);
	server_event(WIRE_TYPE_revoked, rmem_lease_id(lease), WIRE_REASON_REVOKED);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_grow(lease, 2000), -ESTALE);
	ck_assert_int_eq(rmem_free(lease), 0);
	/* of nothing known: ignored */
	server_event(WIRE_TYPE_revoked, 4711, WIRE_REASON_REVOKED);
	server_event(WIRE_TYPE_changed, 4711, WIRE_REASON_TRIMMED);
	/* another session made it longer */
	server_lock();
	server.leases[1].bytes = 3000;
	server_unlock();
	server_event(WIRE_TYPE_changed, rmem_lease_id(other), 0);
	AWAIT(rmem_lease_bytes(other) == 3000);
	ck_assert_int_eq(rmem_write(other, 2990, buf, 10), 0);
	server_event(WIRE_TYPE_draining, 0, 0);
	AWAIT(info().draining);
	rmem_close(client);
}
END_TEST

START_TEST(keys__that_went_stale_are_renewed)
{
	rmem_lease *lease;
	uint64_t old;

	open_with(0);
	lease = alloc(1000, NULL);
	/* the server has other keys now, and the event is still on its way */
	server_lock();
	old = server.rkey++;
	server_unlock();
	fake.refused_rkey = old;
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), 0);
	ck_assert_mem_eq(server.leases[0].memory, buf, 100);
	/* keys that stay what they are: refused for good */
	fake.refused_rkey = old + 1;
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), -EACCES);
	/* and a lease that is gone */
	server_lock();
	server.leases[0].id = 0;
	server_unlock();
	ck_assert_int_eq(rmem_write(lease, 0, buf, 100), -ESTALE);
	rmem_close(client);
}
END_TEST

/* A refusal while keys are under way is not judged by those, which are older. */
START_TEST(keys__under_way_do_not_explain_a_later_refusal)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	struct rmem_completion completion;
	rmem_queue *queue = NULL;

	server.welcome.heartbeat_ms = 5000;
	server.welcome.fence_ms = 20000;
	open_with(0);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	server_lock();
	server.delay_on = WIRE_TYPE_attach;
	server_unlock();
	server_event(WIRE_TYPE_changed, rmem_lease_id(op.lease), 0);
	server_await(WIRE_TYPE_attach, 1);
	/* the answer lies at the server when the keys change once more */
	server_lock();
	fake.refused_rkey = server.rkey++;
	server_unlock();
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_poll(queue, &completion, 1), 0);
	/* makes the server send it */
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_msg(completion.status == 0, "%d: %s", completion.status,
		      rmem_completion_error(queue));
	ck_assert_uint_eq(server.seen[WIRE_TYPE_attach], 2);
	rmem_close(client);
}
END_TEST

/* Tables of the lease that are kept beside the latest one. */
static unsigned superseded(rmem_lease *lease)
{
	const struct attachment *attachment;
	unsigned n = 0;

	(void)pthread_mutex_lock(&client->lock);
	attachment = atomic_load(&lease->attachment);
	while ((attachment = attachment->older))
		n++;
	(void)pthread_mutex_unlock(&client->lock);
	return n;
}

START_TEST(tables__do_not_pile_up)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	struct rmem_op op = { .opcode = RMEM_OP_WRITE, .addr = buf, .bytes = 9 };
	struct rmem_completion completion;
	const struct attachment *before;
	rmem_queue *queue = NULL;

	open_with(0);
	op.lease = alloc(1000, NULL);
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
	/* of a lease that nobody uses none is kept */
	ck_assert_int_eq(rmem_grow(op.lease, 1001), 0);
	ck_assert_uint_eq(superseded(op.lease), 0);
	/* those that something posted may read are kept as long as it is */
	fake.automatic = false;
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	for (uint64_t bytes = 1002; bytes <= 1004; bytes++)
		ck_assert_int_eq(rmem_grow(op.lease, bytes), 0);
	ck_assert_uint_eq(superseded(op.lease), 3);
	/* an answer that says the same makes none */
	before = atomic_load(&op.lease->attachment);
	server_event(WIRE_TYPE_changed, rmem_lease_id(op.lease), 0);
	server_await(WIRE_TYPE_attach, 1);
	ck_assert_int_eq(rmem_ping(client, NULL), 0);
	ck_assert_ptr_eq(atomic_load(&op.lease->attachment), before);
	fake_complete_all();
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, 0);
	AWAIT(superseded(op.lease) == 0);
	ck_assert_uint_eq(rmem_lease_bytes(op.lease), 1004);
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-open");
	TCase *tc = tcase_create("session");

	tcase_add_checked_fixture(tc, client_setup, client_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, open__says_what_it_got);
	tcase_add_test(tc, open__prefers_rdma);
	tcase_add_loop_test(tc, write__and_read_move_any_size, 0, 2);
	tcase_add_test(tc, open__has_channels_to_where_memory_is);
	tcase_add_loop_test(tc, open__does_without_a_channel_beyond_those_asked_for, 0,
			    2);
	tcase_add_loop_test(
		tc, reach__is_without_a_device_that_no_channel_can_be_had_to, 0, 2);
	tcase_add_test(tc, reach__does_not_depend_on_one_more_channel);
	tcase_add_test(tc, reach__of_nothing_is_all);
	tcase_add_test(tc, open__uses_devices_as_the_uri_says);
	tcase_add_loop_test(tc, open__falls_back_to_tcp, 0, 3);
	tcase_add_test(tc, open__is_refused);
	tcase_add_test(tc, open__wants_sound_options);
	tcase_add_test(tc, open__of_a_mute_server_ends_in_time);
	tcase_add_test(tc, open__of_a_name_whose_first_address_is_mute);
	tcase_add_test(tc, open__of_a_closed_port);
	tcase_add_test(tc, leases__live_and_die);
	tcase_add_test(tc, layout__tells_what_was_asked_and_given);
	tcase_add_test(tc, alloc__errors);
	tcase_add_test(tc, list__goes_through_pages);
	tcase_add_test(tc, events__reach_the_lease);
	tcase_add_test(tc, keys__that_went_stale_are_renewed);
	tcase_add_test(tc, tables__do_not_pile_up);
	tcase_add_test(tc, keys__under_way_do_not_explain_a_later_refusal);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
