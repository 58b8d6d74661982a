/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions are opened with the daemon. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* before the case's `queue` */
#include "librmem/sync.h"

#include "unit/librmem/core-case.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "tls/admission.h"

/* ---- a resolver: every name is loopback ---- */

static int mute_port; /* of an address before that of the server; 0: none */

static struct addrinfo *address_of(int port, struct addrinfo *next)
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
	*list = address_of(atoi(service), NULL);
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

static void check_server(void)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "127.0.0.1:%d", proxy.port);
	ck_assert_str_eq(info().server, text);
}

START_TEST(open__reports_the_session)
{
	struct rmem_info got;
	uint8_t token[ADMISSION_BYTES];

	open_with(0);
	got = info();
	check_server();
	/* the SYN, and the hello, which completes the handshake */
	ck_assert_uint_eq(proxy.segments, 2);
	ck_assert_int_eq(got.fabric, RMEM_FABRIC_TCP);
	ck_assert_ptr_nonnull(strstr(got.downgrade, "does not serve RDMA: "
						    "it has no RDMA device, or "
						    "[rdma] enabled = no"));
	ck_assert_uint_eq(got.session_id, 9);
	ck_assert_uint_eq(got.heartbeat_ms, 20);
	ck_assert_uint_eq(got.channels, 1);
	ck_assert_str_eq(got.device, "");
	ck_assert_int_eq(rmem_fd(stage.client), -EINVAL);
	ck_assert_int_eq(rmem_process(stage.client), -EINVAL);
	got.size = 1;
	ck_assert_int_eq(rmem_info(stage.client, &got), -EINVAL);
	/* the channel's token is derived from the connection's secret */
	ck_assert_uint_eq(fake_latest()->hello.session, 9);
	(void)admission_token(proxy.last[WIRE_TYPE_welcome].welcome.secret,
			      fake_latest()->hello.session,
			      fake_latest()->hello.channel, token);
	ck_assert_mem_eq(fake_latest()->hello.token, token, sizeof(token));
	client_close();
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_bye], 1);
	rmem_close(NULL);
}
END_TEST

START_TEST(open__prefers_rdma)
{
	struct rmem_info got;
	rmem_lease *lease;

	serve_rdma();
	(void)strcat(stage.uri, "?channels=2");
	open_with(0);
	got = info();
	ck_assert_int_eq(got.fabric, RMEM_FABRIC_RDMA);
	ck_assert_ptr_null(got.downgrade);
	ck_assert_str_eq(got.device, "fake0,fake1");
	lease = alloc(20000, NULL);
	ck_assert_int_eq(rmem_write(lease, 5, stage.buf, sizeof(stage.buf)), 0);
	ck_assert_mem_eq(proxy_memory(rmem_lease_id(lease)) + 5, stage.buf,
			 sizeof(stage.buf));
}
END_TEST

static uint64_t copied_by(int err)
{
	ck_assert_int_eq(err, 0);
	return info().copied_bytes;
}

START_TEST(info__counts_copied_bytes)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	uint64_t bytes = sizeof(stage.buf), copied = 0;
	struct rmem_buffer *buffer;
	unsigned char *registered;
	rmem_lease *lease;

	if (_i)
		serve_rdma();
	open_with(0);
	lease = alloc(sizeof(stage.buf), NULL);
	params.bytes = 1000;
	ck_assert_int_eq(rmem_buffer_create(stage.client, &params, &buffer), 0);
	registered = rmem_buffer_addr(buffer);
	copied += _i ? bytes : 0;
	ck_assert_uint_eq(copied_by(rmem_write(lease, 0, stage.buf, bytes)), copied);
	copied += _i ? bytes : 0;
	ck_assert_uint_eq(copied_by(rmem_read(lease, 0, stage.buf, bytes)), copied);
	copied += _i ? 7 : 0;
	ck_assert_uint_eq(copied_by(rmem_write_notify(lease, 0, stage.buf, 7, 1)),
			  copied);
	ck_assert_uint_eq(copied_by(rmem_write(lease, 0, registered, 1000)), copied);
	ck_assert_uint_eq(copied_by(rmem_read(lease, 0, registered, 1000)), copied);
}
END_TEST

static int connects_refused;

/* The first device of the server cannot be connected to; both. */
static int refuse_first(void)
{
	bool refused = strcmp(fake.opened.device, "fake0") == 0;

	connects_refused += refused;
	return refused ? -ETIMEDOUT : 0;
}

static int refuse_all(void)
{
	connects_refused++;
	return -EHOSTUNREACH;
}

START_TEST(open__tries_the_other_endpoints)
{
	connects_refused = 0;
	serve_rdma();
	fake.at_connect = refuse_first;
	open_over(_i ? RMEM_NO_THREAD : 0, RMEM_FABRIC_RDMA);
	ck_assert_str_eq(info().device, "fake1");
	ck_assert_int_gt(connects_refused, 0);
	ck_assert_ptr_null(info().downgrade);
	ck_assert_int_eq(rmem_write(alloc(1000, NULL), 5, stage.buf, 100), 0);
	/* memory is lent where the session has a channel */
	ck_assert_uint_eq(proxy.last[WIRE_TYPE_allocate].allocate.reach, 4);
}
END_TEST

static atomic_uint queue_connects;
static atomic_bool second_silent;

static int refuse_second(void)
{
	return atomic_fetch_add(&queue_connects, 1) > 0 && second_silent ? -EHOSTUNREACH
									 : 0;
}

/* The channel to an endpoint that this host does not reach is connected later. */
START_TEST(queue_create__does_without_an_endpoint_that_is_not_reached)
{
	rmem_lease *lease;
	unsigned connects;

	serve_rdma();
	(void)strcat(stage.uri, "?fabric=rdma&channels=2");
	lease = open_with_lease(0);
	second_silent = true;
	fake.at_connect = refuse_second;
	queue_open(2);
	ck_assert_uint_ge(queue_connects, 2);
	ck_assert_int_eq(queue_write(lease), 0);
	connects = fake.connects;
	second_silent = false;
	AWAIT(fake.connects > connects);
	/* what the server refuses is an error */
	fake.at_connect = NULL;
	proxy_fail(WIRE_TYPE_open_channel, EDQUOT, 0);
	ck_assert_int_eq(rmem_queue_create(stage.client, NULL, &(rmem_queue *){ NULL }),
			 -EDQUOT);
}
END_TEST

START_TEST(open__names_what_each_endpoint_refused)
{
	const char *first;

	connects_refused = 0;
	serve_rdma();
	fake.at_connect = refuse_all;
	(void)strcat(stage.uri, "?fabric=rdma");
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EHOSTUNREACH);
	ck_assert_int_eq(connects_refused, 2);
	first = strstr(rmem_error(), "refused the channel; ");
	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_nonnull(strstr(first + 1, "refused the channel"));
}
END_TEST

/* The second of two over TCP is at the address of the control connection. */
START_TEST(open__begins_where_the_control_connection_is)
{
	fake_endpoints[1] = fake_endpoints[0];
	n_fake_endpoints = 2;
	for (unsigned i = 0; i < 2; i++)
		fake_endpoints[i].address = (struct fabric_address){
			.family = 4,
			.bytes = { i ? 127 : 192, 0, 0, 1 },
			.port = 7462,
		};
	server_restart();
	(void)strcat(stage.uri, "?fabric=tcp");
	open_over(0, RMEM_FABRIC_TCP);
	ck_assert_uint_eq(fake.opened.address.bytes[0], 127);
	/* the server has chosen the same one */
	ck_assert_uint_eq(proxy.last[WIRE_TYPE_welcome].welcome.endpoint, 1);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_open_channel], 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_close_channel], 0);
}
END_TEST

/* The server is at addresses of IPv6, of which this client knows none. */
START_TEST(open__leaves_out_wildcards)
{
	fake_endpoints[0].address = (struct fabric_address){ .family = 6, .port = 1 };
	server_restart();
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -ENETUNREACH);
	ck_assert_ptr_nonnull(
		strstr(rmem_error(), "the server's channels are over IPv6"));
	fake_endpoints[0].address.family = 4;
	server_restart();
	open_over(0, RMEM_FABRIC_TCP);
	ck_assert_uint_eq(fake.opened.address.bytes[0], 127);
}
END_TEST

/* Their devices, or the addresses of those, are not there. */
START_TEST(open__leaves_out_endpoints_that_the_server_waits_for)
{
	serve_rdma();
	fake_endpoints[1].awaited = true;
	server_restart();
	(void)strcat(stage.uri, "?fabric=rdma&channels=2");
	open_over(0, RMEM_FABRIC_RDMA);
	ck_assert_uint_eq(fake.opens, 1);
	ck_assert_str_eq(fake.opened.device, fake_endpoints[2].device);
	client_close();
	fake_endpoints[2].awaited = true;
	server_restart();
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -ENODEV);
	ck_assert_ptr_nonnull(
		strstr(rmem_error(), "the server waits for its RDMA device"));
}
END_TEST

/* Opening has a part of the time-out, which is not that of later operations. */
START_TEST(open__leaves_operations_the_whole_timeout)
{
	if (_i)
		serve_rdma();
	ck_assert_int_eq(open_within(0, 60000), 0);
	ck_assert_int_eq(info().fabric, _i ? RMEM_FABRIC_RDMA : RMEM_FABRIC_TCP);
	ck_assert_uint_eq(stage.client->timeout_ms, 60000);
	ck_assert_uint_eq(stage.client->sync->queue->timeout_ns, 60000 * NS_PER_MS);
}
END_TEST

/* With plain memory, which is copied or registered depending on the size, and with a buffer. */
START_TEST(write__and_read_move_any_size)
{
	enum { N = 65536 };
	static const size_t sizes[] = { 1, 64, 512, 513, 4096, N };
	static unsigned char plain[N];
	struct rmem_buffer_params params = rmem_buffer_params_init();
	unsigned char *local = plain, *memory;
	rmem_buffer *buffer;
	rmem_lease *lease;

	serve_rdma();
	open_with(0);
	lease = alloc(N, NULL);
	memory = proxy_memory(rmem_lease_id(lease));
	params.bytes = N;
	ck_assert_int_eq(rmem_buffer_create(stage.client, &params, &buffer), 0);
	if (_i)
		local = rmem_buffer_addr(buffer);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(local, (int)i + 1, sizes[i]);
		ck_assert_int_eq(rmem_write(lease, 0, local, sizes[i]), 0);
		ck_assert_mem_eq(memory, local, sizes[i]);
		memory[0] = 77;
		ck_assert_int_eq(rmem_read(lease, 0, local, sizes[i]), 0);
		ck_assert_mem_eq(memory, local, sizes[i]);
	}
	/* no operation uses the buffer any more */
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
}
END_TEST

/* The reachable endpoints that the last allocation sent. */
static unsigned last_reach(void)
{
	return proxy.last[WIRE_TYPE_allocate].allocate.reach;
}

/* A request to grow says that only endpoint 1 is reachable. */
static void check_resize_reach(rmem_lease *lease)
{
	ck_assert_int_eq(rmem_grow(lease, 2000), 0);
	ck_assert_uint_eq(proxy.last[WIRE_TYPE_resize].resize.reach, 2);
}

/* The URI asks for one channel, and one pool is lent only through the other device. */
START_TEST(open__adds_channels_to_sole_endpoints)
{
	rmem_lease *lease;

	serve_rdma();
	open_with(0);
	ck_assert_str_eq(info().device, "fake0");
	lease = alloc(1000, NULL);
	/* endpoint 0 is that of TCP */
	ck_assert_uint_eq(last_reach(), 2);
	check_resize_reach(lease);
	ck_assert_int_eq(rmem_shrink(lease, 1000), 0);
	ck_assert_uint_eq(proxy.last[WIRE_TYPE_resize].resize.bytes, 1000);
	ck_assert_uint_eq(proxy.last[WIRE_TYPE_resize].resize.reach, 2);
	client_close();
	serve_sole_rdma();
	open_with(0);
	ck_assert_str_eq(info().device, "fake0,fake1");
	ck_assert_uint_eq(info().channels, 1);
	/* each pool has memory for one lease */
	for (unsigned i = 0; i < 2; i++) {
		lease = alloc(CORE_POOL_BYTES * 3 / 4, NULL);
		ck_assert_uint_eq(last_reach(), 6);
		ck_assert_int_eq(rmem_write(lease, 5, stage.buf, 100), 0);
		ck_assert_int_eq(rmem_read(lease, 5, stage.buf, 100), 0);
	}
	/* keys that the server does not grant are requested once */
	ck_assert_uint_le(proxy.seen[WIRE_TYPE_attach], 2);
}
END_TEST

/* The channel beyond that of the URI fails: it is connected later. */
START_TEST(open__succeeds_without_an_extra_channel)
{
	static const int errnos[] = { EDQUOT, ENODEV };
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	serve_sole_rdma();
	proxy_fail(WIRE_TYPE_open_channel, errnos[_i], 0);
	open_over(0, RMEM_FABRIC_RDMA);
	params.bytes = CORE_POOL_BYTES * 3 / 4;
	for (unsigned i = 0; i < 2; i++) {
		AWAIT(rmem_alloc(stage.client, &params, &lease) == 0);
		ck_assert_int_eq(rmem_write(lease, 5, stage.buf, 100), 0);
	}
}
END_TEST

/* The reachable endpoints that an allocation sends now. */
static unsigned current_reach(void)
{
	ck_assert_int_eq(rmem_destroy(alloc(1000, NULL)), 0);
	return last_reach();
}

/* The server must not lend memory there. */
START_TEST(reach__leaves_out_a_device_without_a_channel)
{
	rmem_lease *lease;

	serve_sole_rdma();
	proxy.deny = _i ? 0 : 4;
	open_with(0);
	lease = alloc(1000, "known");
	if (_i) {
		ck_assert_uint_eq(last_reach(), 6);
		/* a channel that is being connected may be granted already */
		AWAIT(fake.connects == 2);
		proxy.deny = 4;
		fake_peer_gone(fake_latest());
		AWAIT(rmem_write(lease, 0, stage.buf, 10) == 0 && current_reach() == 2);
	}
	ck_assert_uint_eq(current_reach(), 2);
	check_resize_reach(lease);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(
		rmem_attach(stage.client, "known", RMEM_READ | RMEM_WRITE, &lease), 0);
	ck_assert_uint_eq(proxy.last[WIRE_TYPE_attach].attach.reach, 2);
	/* the library goes on trying */
	proxy.deny = 0;
	AWAIT(current_reach() == 6);
}
END_TEST

/* A queue without a channel to a device does not count while another queue has one. */
START_TEST(reach__includes_a_device_with_one_channel)
{
	struct fabric_channel *channel;

	serve_sole_rdma();
	open_with(0);
	channel = fake_latest();
	proxy.deny = 4;
	queue_open(0);
	ck_assert_uint_eq(current_reach(), 6);
	fake_peer_gone(channel);
	ck_assert_uint_eq(current_reach(), 6);
	AWAIT(current_reach() == 2);
}
END_TEST

START_TEST(reach__without_any_channel_is_all_endpoints)
{
	rmem_lease *lease;
	unsigned requests;

	serve_sole_rdma();
	proxy.deny = 4;
	lease = open_with_lease(0);
	ck_assert_uint_eq(current_reach(), 2);
	proxy.deny = 6;
	requests = proxy.seen[WIRE_TYPE_open_channel];
	fake_peer_gone(fake_latest());
	AWAIT(rmem_read(lease, 0, stage.buf, 0) == 0 && current_reach() == 6);
	ck_assert_uint_gt(proxy.seen[WIRE_TYPE_open_channel], requests);
	proxy.deny = 0;
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
}
END_TEST

START_TEST(open__passes_device_options_of_the_uri)
{
	serve_rdma();
	(void)strcat(stage.uri, "?mtu=512&source=10.0.0.7");
	open_over(0, RMEM_FABRIC_RDMA);
	ck_assert_int_eq(fake.params.rdma_options.mtu, 512);
	ck_assert_int_eq(fake.params.rdma_options.retry_count, 6);
	ck_assert_uint_eq(fake.params.source.family, 4);
}
END_TEST

static _Atomic int *const rdma_faults[] = { &fake.available_err, &fake.domain_err,
					    &fake.rdma_cq_err };

START_TEST(open__falls_back_to_tcp)
{
	serve_rdma();
	*rdma_faults[_i] = -ENODEV;
	if (rdma_faults[_i] != &fake.domain_err) {
		open_over(0, RMEM_FABRIC_TCP);
		ck_assert_ptr_nonnull(strstr(info().downgrade, "no fake"));
		client_close();
	}
	(void)strcat(stage.uri, "?fabric=rdma");
	ck_assert_int_eq(open_within(0, 0), -ENODEV);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "RDMA cannot be used"));
	/* an open that failed sends a bye, too */
	ck_assert_uint_ge(proxy.seen[WIRE_TYPE_bye], 1);
}
END_TEST

/* Attempts that time out at once are made at intervals of 50 ms. */
START_TEST(open__pauses_between_attempts)
{
	unsigned flags = _i ? RMEM_NO_THREAD : 0;

	serve_devices(1);
	fake.domain_err = -ETIMEDOUT;
	(void)strcat(stage.uri, "?fabric=rdma");
	ck_assert_int_eq(open_within(flags, 400), -ETIMEDOUT);
	ck_assert_uint_ge(fake.opens, 2);
	ck_assert_uint_le(fake.opens, 9);
}
END_TEST

/* RDMA devices exchange no packets; a direct connection finds that only with its first write.  TCP
 * has most of the time. */
START_TEST(open__falls_back_to_tcp_in_time)
{
	/* the next heartbeat does not cut the attempts short */
	set_heartbeat(2000, 10000);
	serve_rdma();
	for (unsigned i = 1; i <= 2; i++)
		fake_endpoints[i].flags |= _i ? FABRIC_ENDPOINT_DIRECT : 0;
	server_restart();
	fake.black_hole = true;
	ck_assert_int_eq(open_within(0, 2000), 0);
	ck_assert_int_eq(info().fabric, RMEM_FABRIC_TCP);
	ck_assert_msg(
		strstr(info().downgrade, _i ? "no packets pass" : "does not answer"),
		"%s", info().downgrade);
	ck_assert_uint_gt(fake.domain_timeout_ms, 300);
	client_close();
	(void)strcat(stage.uri, "?fabric=rdma");
	ck_assert_int_eq(open_within(0, 300), -ETIMEDOUT);
	fake.black_hole = false;
	open_over(0, RMEM_FABRIC_RDMA);
}
END_TEST

static void edit_version(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_welcome)
		msg->welcome.version = 9;
}

static void edit_no_endpoints(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_welcome)
		msg->welcome.n_endpoints = 0;
}

static void edit_data_version(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_welcome)
		for (unsigned i = 0; i < msg->welcome.n_endpoints; i++)
			msg->welcome.endpoints[i].version++;
}

static void edit_long_fence(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_welcome)
		msg->welcome.fence_ms = UINT32_MAX;
}

static unsigned limit; /* the one that is 0 */

static void edit_no_limit(struct wire_msg *msg)
{
	uint32_t *const limits[] = { &msg->welcome.requests_max,
				     &msg->welcome.stream_bytes_max,
				     &msg->welcome.inband_bytes_max,
				     &msg->welcome.inband_requests_max };

	if (msg->type == WIRE_TYPE_welcome)
		*limits[limit] = 0;
}

START_TEST(open__refuses_a_limit_of_0)
{
	limit = (unsigned)_i;
	proxy.edit = edit_no_limit;
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EPROTO);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "a limit of 0 for requests"));
}
END_TEST

START_TEST(open__fails_with_the_error_of_each_step)
{
	proxy_fail(WIRE_TYPE_hello, EACCES, 0);
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EACCES);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "it failed"));
	proxy_fail(WIRE_TYPE_hello, 0, 0);
	proxy.edit = edit_version;
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -ENOTSUP);
	proxy.edit = edit_long_fence;
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EPROTO);
	proxy.edit = edit_no_endpoints;
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -ENODEV);
	proxy.edit = edit_data_version;
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -ENOTSUP);
	ck_assert_msg(strstr(rmem_error(), "of version 2"), "%s", rmem_error());
	proxy.edit = edit_no_channel;
	proxy_fail(WIRE_TYPE_open_channel, EDQUOT, 0);
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EDQUOT);
	fake.connect_err = -EHOSTUNREACH;
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EHOSTUNREACH);
	set_heartbeat(20, 20);
	ck_assert_int_eq(rmem_open(stage.uri, NULL, &stage.client), -EPROTO);
}
END_TEST

START_TEST(open__refuses_bad_options)
{
	struct rmem_options options = rmem_options_init();
	char long_name[80];
	const char *const names[] = { long_name, "", "a\nb" };

	memset(long_name, 'x', sizeof(long_name));
	long_name[65] = '\0';
	options.flags = 0x80;
	ck_assert_int_eq(rmem_open(stage.uri, &options, &stage.client), -EINVAL);
	options.flags = 0;
	for (unsigned i = 0; i < 3; i++) {
		options.client = names[i];
		ck_assert_int_eq(rmem_open(stage.uri, &options, &stage.client),
				 -EINVAL);
	}
	options.client = NULL;
	options.size = 0;
	ck_assert_int_eq(rmem_open(stage.uri, &options, &stage.client), -EINVAL);
	ck_assert_int_eq(rmem_open(stage.uri, NULL, NULL), -EINVAL);
	ck_assert_int_eq(rmem_open("http://nonsense", NULL, &stage.client), -EINVAL);
	ck_assert_uint_eq(proxy.connections, 0);
}
END_TEST

START_TEST(open__of_a_mute_server_times_out)
{
	proxy.mute = true;
	ck_assert_int_eq(open_within(0, 50), -ETIMEDOUT);
}
END_TEST

/* An address that does not answer leaves time for the next one. */
START_TEST(open__tries_the_next_address_of_a_name)
{
	int fd = loopback_listen(&mute_port);
	uint64_t start = clock_now_ms();

	ck_assert_msg(open_within(0, 2000) == 0, "%s", rmem_error());
	check_server();
	client_close();
	ck_assert_uint_ge(clock_now_ms() - start, 1000);
	/* the time-out holds for all addresses together */
	proxy.mute = true;
	start = clock_now_ms();
	ck_assert_int_eq(open_within(0, 300), -ETIMEDOUT);
	/* and that is the time of which the text tells */
	ck_assert_ptr_nonnull(strstr(rmem_error(), "no answer within 300 ms"));
	ck_assert_uint_ge(clock_now_ms() - start, 300);
	(void)close(fd);
}
END_TEST

/* ENOENT would say that there is no lease of a name. */
START_TEST(open__without_its_key_file_is_no_missing_lease)
{
	static const char *const files[] = { "psk=/none/a.psk", "ca=/none/ca.pem" };
	char text[128];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		(void)snprintf(text, sizeof(text), "rmem://127.0.0.1:1?%s", files[i]);
		ck_assert_int_eq(rmem_open(text, NULL, &stage.client), -ENOKEY);
		ck_assert_ptr_nonnull(strstr(rmem_error(), "No such file"));
	}
}
END_TEST

START_TEST(open__names_the_address_that_refuses)
{
	ck_assert_int_eq(rmem_open("rmem://127.0.0.1:1", NULL, &stage.client),
			 -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "127.0.0.1:1: "));
}
END_TEST

/* ---- steps ---- */

struct steps {
	enum rmem_step at[16];
	unsigned n;
};

static void step_note(void *ctx, enum rmem_step step)
{
	struct steps *steps = ctx;

	ck_assert_uint_lt(steps->n, 16);
	steps->at[steps->n++] = step;
}

/* Open with options that note the steps. */
static int open_noting(struct steps *steps, const char *at)
{
	struct rmem_options options = rmem_options_init();

	steps->n = 0;
	options.timeout_ms = 2000;
	options.stepped = step_note;
	options.stepped_ctx = steps;
	return rmem_open(at, &options, &stage.client);
}

START_TEST(open__tells_the_steps)
{
	struct steps steps;

	ck_assert_msg(open_noting(&steps, stage.uri) == 0, "%s", rmem_error());
	ck_assert_uint_eq(steps.n, 4);
	ck_assert_int_eq(steps.at[0], RMEM_STEP_RESOLVED);
	ck_assert_int_eq(steps.at[1], RMEM_STEP_CONNECTED);
	ck_assert_int_eq(steps.at[2], RMEM_STEP_WELCOMED);
	ck_assert_int_eq(steps.at[3], RMEM_STEP_CHANNEL);
	/* none is told once the session is open */
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_uint_eq(steps.n, 4);
}
END_TEST

START_TEST(open__tells_no_step_that_failed)
{
	struct steps steps;

	ck_assert_int_eq(open_noting(&steps, "rmem://127.0.0.1:1"), -ECONNREFUSED);
	ck_assert_uint_eq(steps.n, 1);
	proxy_fail(WIRE_TYPE_hello, EACCES, 0);
	ck_assert_int_eq(open_noting(&steps, stage.uri), -EACCES);
	ck_assert_int_eq(steps.at[steps.n - 1], RMEM_STEP_CONNECTED);
	proxy_fail(WIRE_TYPE_hello, 0, 0);
	fake.connect_err = -EHOSTUNREACH;
	ck_assert_int_eq(open_noting(&steps, stage.uri), -EHOSTUNREACH);
	ck_assert_int_eq(steps.at[steps.n - 1], RMEM_STEP_WELCOMED);
}
END_TEST

/* Of a program that was compiled before the members at the end. */
START_TEST(open__accepts_the_first_options)
{
	struct rmem_options options = rmem_options_init();

	options.size = offsetof(struct rmem_options, stepped);
	ck_assert_msg(rmem_open(stage.uri, &options, &stage.client) == 0, "%s",
		      rmem_error());
}
END_TEST

int main(void)
{
	TCase *tc = core_case("open");

	tcase_add_test(tc, open__reports_the_session);
	tcase_add_test(tc, open__prefers_rdma);
	tcase_add_loop_test(tc, info__counts_copied_bytes, 0, 2);
	tcase_add_loop_test(tc, open__tries_the_other_endpoints, 0, 2);
	tcase_add_test(tc, open__names_what_each_endpoint_refused);
	tcase_add_test(tc, queue_create__does_without_an_endpoint_that_is_not_reached);
	tcase_add_test(tc, open__begins_where_the_control_connection_is);
	tcase_add_test(tc, open__leaves_out_wildcards);
	tcase_add_test(tc, open__leaves_out_endpoints_that_the_server_waits_for);
	tcase_add_loop_test(tc, open__leaves_operations_the_whole_timeout, 0, 2);
	tcase_add_loop_test(tc, write__and_read_move_any_size, 0, 2);
	tcase_add_test(tc, open__adds_channels_to_sole_endpoints);
	tcase_add_loop_test(tc, open__succeeds_without_an_extra_channel, 0, 2);
	tcase_add_loop_test(tc, reach__leaves_out_a_device_without_a_channel, 0, 2);
	tcase_add_test(tc, reach__includes_a_device_with_one_channel);
	tcase_add_test(tc, reach__without_any_channel_is_all_endpoints);
	tcase_add_test(tc, open__passes_device_options_of_the_uri);
	tcase_add_loop_test(tc, open__falls_back_to_tcp, 0, 3);
	tcase_add_loop_test(tc, open__pauses_between_attempts, 0, 2);
	tcase_add_loop_test(tc, open__falls_back_to_tcp_in_time, 0, 2);
	tcase_add_test(tc, open__fails_with_the_error_of_each_step);
	tcase_add_loop_test(tc, open__refuses_a_limit_of_0, 0, 4);
	tcase_add_test(tc, open__refuses_bad_options);
	tcase_add_test(tc, open__of_a_mute_server_times_out);
	tcase_add_test(tc, open__tries_the_next_address_of_a_name);
	tcase_add_test(tc, open__names_the_address_that_refuses);
	tcase_add_test(tc, open__without_its_key_file_is_no_missing_lease);
	tcase_add_test(tc, open__tells_the_steps);
	tcase_add_test(tc, open__tells_no_step_that_failed);
	tcase_add_test(tc, open__accepts_the_first_options);
	return unit_main();
}
