/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of the server without rdma_cm: attributes of the client's queue pair that it
 * accepts, the attributes it sets, and its devices.  The only tests of the server on
 * InfiniBand. */
#include <arpa/inet.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

static struct fabric_device_params devices[] = {
	{ .name = "",
	  .port = FABRIC_OPTION_AUTO,
	  .rdma_options = FABRIC_RDMA_OPTIONS_INIT },
};
static struct fabric_session *session;
static struct fabric_qp_info ours;

static const char *const names[] = { "fake0", NULL };
/* An address of no RDMA device. */
static const struct fabric_address no_device_address = { .family = 4,
							 .bytes = { 192, 168, 7, 7 },
							 .port = PORT };

static int try_open_at(const struct fabric_address *listen)
{
	return server_try_open((struct fabric_server_params){ .listen = *listen,
							      .devices = names,
							      .device_params = devices,
							      .n_device_params = 1 });
}

static int try_open(void)
{
	return try_open_at(&(struct fabric_address){ 0 });
}

static int try_open_no_device_address(void)
{
	return try_open_at(&no_device_address);
}

static void setup(void)
{
	devices[0].rdma_options.connect = FABRIC_CONNECT_DIRECT;
}

static void open_direct(void)
{
	int err = try_open();

	ck_assert_msg(!err, "open: %s", err_text());
	session = session_new(0);
}

static const char *client_gid(void)
{
	return verbs_fake.infiniband ? "fe80::9" : "::ffff:10.1.0.9";
}

/* Attributes as a client sends them. */
static struct fabric_qp_info remote_qp(const char *gid)
{
	struct fabric_qp_info end = {
		.qpn = 0x123456,
		.psn = 0xfedcba,
		.lid = verbs_fake.infiniband ? 9 : 0,
		.pkey = 0xffff,
		.mtu = 512,
		.rd_atomic = 3,
		.retry_count = 5,
		.rnr_retry_count = 7,
	};

	ck_assert_int_eq(inet_pton(AF_INET6, gid, end.gid), 1);
	return end;
}

static int connect_direct(uint32_t channel, const struct fabric_qp_info *theirs)
{
	unsigned connected = seen.connected;
	int err = SERVER->channel_connect(session, channel, theirs);

	if (err)
		return err;
	await(&seen.connected, connected + 1);
	ck_assert_uint_eq(seen.channel, channel);
	ours = seen.ours;
	return seen.err ? err_set(seen.err, "%s", seen.text) : 0;
}

START_TEST(direct__modifies_the_queue_pair_itself)
{
	const struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.9");
	const struct fabric_endpoint *endpoint;
	struct ibv_qp_attr attr;

	verbs_fake.atomics = IBV_ATOMIC_HCA;
	open_direct();
	endpoint = SERVER->endpoint(server, 0);
	ck_assert_uint_eq(endpoint->flags, FABRIC_ENDPOINT_DIRECT |
						   FABRIC_ENDPOINT_ATOMICS |
						   FABRIC_ENDPOINT_INBAND);
	ck_assert_uint_eq(endpoint->address.port, 0);
	ck_assert_msg(!connect_direct(4, &theirs), "%s", err_text());
	ck_assert_uint_eq(ours.qpn, fake_direct_qpn());
	ck_assert_uint_eq(ours.mtu, 512);
	ck_assert_uint_eq(ours.rd_atomic, 3);
	ck_assert_uint_eq(ours.retry_count, 5);
	/* 7 means without limit */
	ck_assert_uint_eq(ours.rnr_retry_count, 6);
	ck_assert_uint_eq(ours.lid, 0);
	ck_assert_uint_eq(ours.pkey, 0xffff);
	ck_assert_uint_eq(ours.gid[12], 10);
	attr = fake_qp_attr();
	ck_assert_uint_eq(attr.port_num, 1);
	ck_assert_uint_eq(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ |
							IBV_ACCESS_REMOTE_WRITE |
							IBV_ACCESS_REMOTE_ATOMIC);
	ck_assert_uint_eq(attr.dest_qp_num, 0x123456);
	ck_assert_uint_eq(attr.rq_psn, 0xfedcba);
	ck_assert_uint_eq(attr.sq_psn, ours.psn);
	ck_assert_int_eq(attr.path_mtu, IBV_MTU_512);
	ck_assert_uint_eq(attr.max_dest_rd_atomic, 3);
	ck_assert_uint_eq(attr.retry_cnt, 5);
	ck_assert_uint_eq(attr.rnr_retry, 6);
	ck_assert_uint_eq(attr.ah_attr.is_global, 1);
	ck_assert_uint_eq(attr.ah_attr.grh.sgid_index, 2);
	ck_assert_mem_eq(attr.ah_attr.grh.dgid.raw, theirs.gid, 16);
	ck_assert_uint_eq(seen.ups, 1);
	ck_assert_uint_eq(seen.channel, 4);
	ck_assert_uint_eq(seen.admits, 0);
	ck_assert_uint_eq(stats().channels, 1);
	/* the number is in use; closing the channel destroys the queue pair */
	ck_assert_int_eq(connect_direct(4, &theirs), -EINVAL);
	ck_assert_int_eq(SERVER->channel_close(session, 4), 0);
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_uint_eq(stats().channels, 0);
	ck_assert_uint_eq(seen.downs, 0);
}
END_TEST

static void connect_at(uint32_t channel, unsigned index)
{
	struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.9");

	theirs.qpn += channel;
	ck_assert_msg(!connect_direct(channel, &theirs), "%s", err_text());
	ck_assert_uint_eq(fake_qp_attr().ah_attr.grh.sgid_index, index);
}

/* The port is queried again only after an event of the device or a failed connect. */
START_TEST(port__is_queried_again_after_events_and_failures)
{
	const struct fabric_qp_info invalid = remote_qp("::");

	open_direct();
	connect_at(1, 2);
	verbs_fake.gid_index_shift = 3;
	connect_at(2, 2);
	fake_async_event(0, IBV_EVENT_GID_CHANGE, 1);
	SERVER->process(server);
	connect_at(3, 5);
	verbs_fake.gid_index_shift = 0;
	connect_at(4, 5);
	ck_assert_int_eq(connect_direct(5, &invalid), -EINVAL);
	connect_at(6, 2);
}
END_TEST

START_TEST(direct__psn_is_random)
{
	struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.9");
	uint32_t seen_bits = 0, common = 0xffffff;

	open_direct();
	for (uint32_t i = 1; i <= 64; i++) {
		theirs.qpn++;
		ck_assert_int_eq(connect_direct(i, &theirs), 0);
		ck_assert_uint_le(ours.psn, 0xffffff);
		seen_bits |= ours.psn;
		common &= ours.psn;
	}
	/* each of the 24 bits is 0 and 1 at least once, except in one of 2^38 runs */
	ck_assert_uint_eq(seen_bits, 0xffffff);
	ck_assert_uint_eq(common, 0);
}
END_TEST

static const struct {
	const char *gid;
	uint32_t qpn, psn;
	uint16_t lid, pkey, mtu;
	const char *text;
} invalid[] = {
	{ "::ffff:10.1.0.9", 0, 1, 0, 0xffff, 512, "queue pair number 0" },
	{ "::ffff:10.1.0.9", 1, 1, 0, 0xffff, 512, "queue pair number 0x1" },
	{ "::ffff:10.1.0.9", 0x1000000, 1, 0, 0xffff, 512, "number 0x1000000" },
	{ "::ffff:10.1.0.9", UINT32_MAX, 1, 0, 0xffff, 512, "number 0xffffffff" },
	{ "::ffff:10.1.0.9", 5, 0x1000000, 0, 0xffff, 512, "PSN 0x1000000" },
	{ "::ffff:10.1.0.9", 5, 1, 0, 0xffff, 0, "MTU 0" },
	{ "::ffff:10.1.0.9", 5, 1, 0, 0xffff, 128, "MTU 0x80" },
	{ "::ffff:10.1.0.9", 5, 1, 0, 0xffff, 1500, "MTU 0x5dc" },
	{ "::ffff:10.1.0.9", 5, 1, 0, 0xffff, 8192, "MTU 0x2000" },
	{ "::ffff:10.1.0.9", 5, 1, 9, 0xffff, 512, "LID 0x9" },
	{ "::ffff:10.1.0.9", 5, 1, 0, 0x8000, 512, "P_Key 0x8000" },
	{ "::ffff:10.1.0.9", 5, 1, 0, 0x8001, 512, "partitions differ" },
	{ "::", 5, 1, 0, 0xffff, 512, "GID ::" },
	{ "::1", 5, 1, 0, 0xffff, 512, "GID ::1" },
	{ "ff0e::1", 5, 1, 0, 0xffff, 512, "GID ff0e::1" },
	{ "fd00::9", 5, 1, 0, 0xffff, 512, "GID fd00::9" },
	{ "::ffff:0.0.0.0", 5, 1, 0, 0xffff, 512, "GID ::ffff:0.0.0.0" },
	{ "::ffff:127.0.0.1", 5, 1, 0, 0xffff, 512, "GID ::ffff:127.0.0.1" },
	{ "::ffff:224.0.0.1", 5, 1, 0, 0xffff, 512, "GID ::ffff:224.0.0.1" },
	{ "::ffff:255.255.255.255", 5, 1, 0, 0xffff, 512, "GID ::ffff:255" },
};

START_TEST(direct__refuses_invalid_attributes)
{
	struct fabric_qp_info theirs = remote_qp(invalid[_i].gid);

	theirs.qpn = invalid[_i].qpn;
	theirs.psn = invalid[_i].psn;
	theirs.lid = invalid[_i].lid;
	theirs.pkey = invalid[_i].pkey;
	theirs.mtu = invalid[_i].mtu;
	open_direct();
	ck_assert_int_lt(connect_direct(1, &theirs), 0);
	ck_assert_msg(strstr(err_text(), invalid[_i].text) != NULL, "%s", err_text());
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_uint_eq(stats().refused, 1);
	ck_assert_uint_eq(seen.ups + seen.downs, 0);
}
END_TEST

/* A client must not direct responses to the queue pair of another one. */
START_TEST(direct__refuses_a_queue_pair_in_use)
{
	struct fabric_session *first;
	struct fabric_qp_info theirs;

	verbs_fake.infiniband = _i > 0;
	theirs = remote_qp(client_gid());
	open_direct();
	ck_assert_int_eq(connect_direct(1, &theirs), 0);
	ck_assert_int_eq(connect_direct(2, &theirs), -EBUSY);
	first = session;
	session = session_new(0);
	ck_assert_int_eq(connect_direct(1, &theirs), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err_text(), "queue pair 0x123456"));
	ck_assert_uint_eq(stats().refused, 2);
	ck_assert_uint_eq(live_qps(), 1);
	/* the same port with another of its addresses */
	theirs.gid[15] = 10;
	ck_assert_int_eq(connect_direct(1, &theirs),
			 verbs_fake.infiniband ? -EBUSY : 0);
	theirs.gid[15] = 9;
	theirs.qpn++;
	ck_assert_int_eq(connect_direct(2, &theirs), 0);
	theirs.qpn--;
	ck_assert_int_eq(SERVER->channel_close(first, 1), 0);
	ck_assert_int_eq(connect_direct(3, &theirs), 0);
}
END_TEST

/* A client that guessed a queue pair number does not block the owner of the address. */
START_TEST(direct__owner_of_the_address_replaces_another_client)
{
	struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.9");

	open_direct();
	ck_assert_int_eq(connect_direct(1, &theirs), 0);
	session = session_new(0);
	theirs.gid_verified = true;
	ck_assert_int_eq(connect_direct(2, &theirs), 0);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "another client's"));
	ck_assert_uint_eq(live_qps(), 1);
	ck_assert_uint_eq(stats().channels, 1);
	/* no client replaces the owner, whether it has the address or not */
	ck_assert_int_eq(connect_direct(3, &theirs), -EBUSY);
	session = session_new(0);
	ck_assert_int_eq(connect_direct(4, &theirs), -EBUSY);
	theirs.gid_verified = false;
	ck_assert_int_eq(connect_direct(4, &theirs), -EBUSY);
	ck_assert_uint_eq(seen.downs, 1);
}
END_TEST

/* a worker's thread moves it on */
static _Atomic uint64_t now_ns = 1000000000;

static uint64_t now(void)
{
	return now_ns;
}

static void clock_advance_ms(unsigned ms)
{
	now_ns += ms * UINT64_C(1000000);
}

static void rtr_takes_1s(void)
{
	clock_advance_ms(1000);
}

static unsigned rtrs;

static void rtr_count(void)
{
	rtrs++;
}

/* A peer that sends an unreachable GID must not keep the worker busy. */
START_TEST(gid_backoff__delays_after_an_unreachable_gid)
{
	struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.99");
	const struct fabric_qp_info other = remote_qp("::ffff:10.1.0.9");

	clock_set_source(now);
	open_direct();
	verbs_fake.before_rtr = rtr_takes_1s;
	verbs_fake.rtr_error = ETIMEDOUT;
	ck_assert_int_eq(connect_direct(1, &theirs), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0: nobody answers for the peer's "
						 "GID ::ffff:10.1.0.99"));
	verbs_fake.before_rtr = rtr_count;
	verbs_fake.rtr_error = 0;
	/* this GID is refused for a while, and no other */
	ck_assert_int_eq(connect_direct(2, &theirs), -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(err_text(), "::ffff:10.1.0.99"));
	ck_assert_uint_eq(rtrs, 0);
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_int_eq(connect_direct(4, &other), 0);
	clock_advance_ms(29000);
	ck_assert_int_eq(connect_direct(5, &theirs), -EHOSTUNREACH);
	clock_advance_ms(1000);
	ck_assert_int_eq(connect_direct(6, &theirs), 0);
	ck_assert_uint_eq(rtrs, 2);
}
END_TEST

/* ---- while the kernel resolves a GID ---- */

static sem_t held, go;
static atomic_bool hold;

static void rtr_held(void)
{
	rtrs++;
	if (!atomic_exchange(&hold, false))
		return;
	/* the client gets no access yet */
	ck_assert_uint_eq(fake_qp_attr().qp_access_flags, 0);
	ck_assert_int_eq(sem_post(&held), 0);
	ck_assert_int_eq(sem_wait(&go), 0);
}

/* Sessions of two tenants; a channel of the first one is in the step to RTR. */
static struct fabric_session *open_held(void)
{
	struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.99");

	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	open_direct();
	verbs_fake.before_rtr = rtr_held;
	atomic_store(&hold, true);
	ck_assert_int_eq(SERVER->channel_connect(session, 1, &theirs), 0);
	ck_assert_int_eq(sem_wait(&held), 0);
	/* more of them, which wait */
	for (uint32_t i = 2; i <= 5; i++) {
		theirs.qpn++;
		ck_assert_int_eq(SERVER->channel_connect(session, i, &theirs), 0);
	}
	return session_new(0);
}

/* In the order of channel_connected(). */
static uint32_t connected[6];
static unsigned n_connected;

static void on_channel_connected(void *ctx, void *cookie, uint32_t channel, int err,
				 const char *text, const struct fabric_qp_info *qp)
{
	(void)ctx;
	(void)cookie;
	(void)qp;
	ck_assert_msg(!err, "%s", text);
	connected[n_connected++] = channel;
}

/* The loop serves others, and another tenant's channel is the next one. */
START_TEST(connect__that_waits_delays_no_other)
{
	struct fabric_session *other = open_held();
	const struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.9");

	server_events.channel_connected = on_channel_connected;
	(void)mr_new(other);
	ck_assert_uint_eq(n_connected, 0);
	ck_assert_int_eq(SERVER->channel_connect(session, 1, &theirs), -EINVAL);
	ck_assert_int_eq(SERVER->channel_connect(other, 77, &theirs), 0);
	ck_assert_int_eq(sem_post(&go), 0);
	await(&n_connected, 6);
	ck_assert(connected[1] == 77 || connected[2] == 77);
	ck_assert_uint_eq(seen.ups, 6);
	ck_assert_uint_eq(stats().channels, 6);
}
END_TEST

enum end { BY_CHANNEL, BY_SESSION, BY_REMOVAL, BY_CLOSE };

/* The end of the channel does not wait for the kernel either; its queue pair ends later. */
START_TEST(connect__that_waits_can_be_ended)
{
	struct fabric_session *other = open_held();

	if (_i == BY_CHANNEL)
		for (uint32_t i = 1; i <= 5; i++)
			ck_assert_int_eq(SERVER->channel_close(session, i), 0);
	else if (_i == BY_SESSION)
		SERVER->session_close(session);
	else if (_i == BY_REMOVAL)
		fake_async_event(0, IBV_EVENT_DEVICE_FATAL, 0);
	if (_i == BY_REMOVAL) {
		await(&seen.connected, 5);
		ck_assert_int_eq(seen.err, -ECONNABORTED);
		ck_assert_ptr_nonnull(strstr(seen.text, "removed"));
	}
	SERVER->process(server);
	ck_assert_uint_eq(fake_live_qps(), 1);
	ck_assert_uint_eq(seen.closed, 0);
	ck_assert_int_eq(sem_post(&go), 0);
	if (_i == BY_CLOSE) {
		/* the poller posts its message when the channels are freed */
		verbs_fake.poll_cq_us = 30000;
		server_close();
	}
	ck_assert_uint_eq(live_qps(), 0);
	if (_i == BY_SESSION)
		await(&seen.closed, 1);
	/* the close may find that the worker has gone on */
	ck_assert_uint_le(rtrs, _i == BY_CLOSE ? 5 : 1);
	ck_assert_uint_eq(seen.ups + seen.downs, 0);
	ck_assert_uint_eq(seen.connected, _i == BY_REMOVAL ? 5 : 0);
	if (_i == BY_CHANNEL)
		session_end(other);
}
END_TEST

START_TEST(infiniband__uses_the_lid_within_a_subnet)
{
	struct fabric_qp_info theirs;

	verbs_fake.infiniband = true;
	theirs = remote_qp("fe80::9");
	ck_assert_msg(!try_open_no_device_address(), "%s", err_text());
	session = session_new(0);
	ck_assert_msg(!connect_direct(1, &theirs), "%s", err_text());
	ck_assert_uint_eq(ours.lid, 7);
	/* the port's first GID, which contains no IP address */
	ck_assert_uint_eq(ours.gid[0], 0xfe);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.dlid, 9);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.is_global, 0);
	/* another subnet prefix: through a router */
	theirs = remote_qp("fec0::9");
	theirs.qpn++;
	ck_assert_int_eq(connect_direct(2, &theirs), 0);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.is_global, 1);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.grh.sgid_index, 0);
	for (unsigned lid = 0; lid < 0x10000; lid = lid ? 2 * lid : 0x4000) {
		theirs.lid = (uint16_t)(lid | (lid & 0x8000) >> 1);
		theirs.qpn++;
		ck_assert_int_eq(connect_direct(3 + lid, &theirs),
				 lid == 0x4000 ? 0 : -EINVAL);
	}
}
END_TEST

static const struct {
	int option;
	uint16_t theirs;
	int open, connect;
	uint16_t index;
} pkeys[] = {
	{ FABRIC_OPTION_AUTO, 0xffff, 0, 0, 0 },
	{ FABRIC_OPTION_AUTO, 0x7fff, 0, 0, 0 },
	{ FABRIC_OPTION_AUTO, 0x8002, 0, -EACCES, 0 },
	{ 0x8002, 0x8002, 0, 0, 1 },
	{ 0x8002, 0x0002, 0, 0, 1 },
	{ 0x8002, 0xffff, 0, -EACCES, 0 },
	{ 3, 0x8003, 0, 0, 2 },
	/* two limited members */
	{ 3, 3, 0, -EACCES, 0 },
	{ 0x8003, 0x8003, -EINVAL, 0, 0 },
};

START_TEST(pkey__is_looked_up_and_must_match)
{
	struct fabric_qp_info theirs;

	verbs_fake.infiniband = true;
	theirs = remote_qp("fe80::9");
	theirs.pkey = pkeys[_i].theirs;
	devices[0].rdma_options.pkey = pkeys[_i].option;
	ck_assert_int_eq(try_open(), pkeys[_i].open);
	if (pkeys[_i].open) {
		ck_assert_ptr_nonnull(strstr(err_text(), "fake0"));
		ck_assert_ptr_nonnull(strstr(err_text(), "P_Key 0x8003"));
		ck_assert_uint_eq(fake_live(), 0);
		return;
	}
	session = session_new(0);
	ck_assert_int_eq(connect_direct(1, &theirs), pkeys[_i].connect);
	if (!pkeys[_i].connect) {
		ck_assert_uint_eq(fake_qp_attr().pkey_index, pkeys[_i].index);
		ck_assert_uint_eq(ours.pkey, verbs_fake.pkeys[pkeys[_i].index]);
	}
}
END_TEST

START_TEST(gid_index__selects_the_gid)
{
	struct fabric_qp_info theirs = remote_qp("fd00::9");
	const struct fabric_device_attr *attr;
	struct fabric_port_attr port;

	verbs_fake.extra_gids = 100;
	devices[0].rdma_options.gid_index = 3;
	open_direct();
	ck_assert_msg(!connect_direct(1, &theirs), "%s", err_text());
	ck_assert_uint_eq(fake_qp_attr().ah_attr.grh.sgid_index, 3);
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), 0);
	ck_assert_int_eq(port.rdma_options.connect, FABRIC_CONNECT_DIRECT);
	for (unsigned i = 0; i < port.n_gids; i++)
		ck_assert(port.gids[i].served == (port.gids[i].index == 3));
	server_close();
	/* a GID of RoCE v1 is not used */
	devices[0].rdma_options.gid_index = 1;
	ck_assert_int_eq(try_open(), -EADDRNOTAVAIL);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0, port 1: there is no GID 1"));
}
END_TEST

START_TEST(cm__refuses_direct_channels_and_options)
{
	const struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.9");

	devices[0].rdma_options.connect = FABRIC_OPTION_AUTO;
	open_direct();
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->flags & FABRIC_ENDPOINT_DIRECT,
			  0);
	ck_assert_int_eq(connect_direct(1, &theirs), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0"));
	server_close();
	devices[0].rdma_options.gid_index = 2;
	ck_assert_int_eq(try_open(), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "connect = direct"));
	devices[0].rdma_options.gid_index = FABRIC_OPTION_AUTO;
	devices[0].rdma_options.pkey = 0xffff;
	ck_assert_int_eq(try_open(), -EINVAL);
}
END_TEST

START_TEST(iwarp__refuses_connect_direct)
{
	verbs_fake.iwarp = true;
	ck_assert_int_eq(try_open(), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0"));
	ck_assert_ptr_nonnull(strstr(err_text(), "iWARP"));
}
END_TEST

START_TEST(port__needs_no_address)
{
	const struct fabric_endpoint *endpoint;
	struct fabric_qp_info theirs;

	verbs_fake.infiniband = true;
	theirs = remote_qp("fe80::9");
	ck_assert_msg(!try_open_no_device_address(), "%s", err_text());
	expect_one_endpoint("fake0");
	endpoint = SERVER->endpoint(server, 0);
	ck_assert_uint_eq(endpoint->address.family, 6);
	ck_assert_uint_eq(endpoint->address.bytes[0], 0xfe);
	ck_assert_uint_eq(endpoint->address.bytes[15], 1);
	session = session_new(0);
	ck_assert_msg(!connect_direct(1, &theirs), "%s", err_text());
	server_close();
	/* rdma_cm and Ethernet need an address */
	devices[0].rdma_options.connect = FABRIC_CONNECT_CM;
	ck_assert_int_eq(try_open_no_device_address(), 0);
	expect_awaited(0, "fake0");
	server_close();
	devices[0].rdma_options.connect = FABRIC_CONNECT_DIRECT;
	verbs_fake.infiniband = false;
	ck_assert_int_eq(try_open_no_device_address(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "gid_index"));
	verbs_fake.infiniband = true;
	verbs_fake.port_down[0] = true;
	ck_assert_int_eq(try_open_no_device_address(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "connect = direct: RDMA device fake0, "
						 "port 1 is not active"));
	verbs_fake.port_down[0] = false;
	devices[0].rdma_options.pkey = 0x8123;
	ck_assert_int_eq(try_open_no_device_address(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "has no P_Key 0x8123"));
}
END_TEST

START_TEST(device__without_address_is_closed_when_removed)
{
	struct fabric_qp_info theirs;

	verbs_fake.infiniband = true;
	theirs = remote_qp("fe80::9");
	ck_assert_int_eq(try_open_no_device_address(), 0);
	session = session_new(0);
	ck_assert_int_eq(connect_direct(1, &theirs), 0);
	fake_async_event(0, IBV_EVENT_DEVICE_FATAL, 0);
	await(&seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "removed"));
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_int_eq(connect_direct(2, &theirs), -ENODEV);
}
END_TEST

START_TEST(channel__in_error_is_reported)
{
	const struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.9");

	open_direct();
	ck_assert_int_eq(connect_direct(8, &theirs), 0);
	fake_direct_break();
	await(&seen.downs, 1);
	ck_assert_uint_eq(seen.channel, 8);
	ck_assert_ptr_nonnull(strstr(seen.why, "access was refused"));
	ck_assert_uint_eq(live_qps(), 0);
	ck_assert_uint_eq(stats().errors, 1);
}
END_TEST

START_TEST(session_close__ends_direct_channels)
{
	struct fabric_qp_info theirs = remote_qp("::ffff:10.1.0.9");

	open_direct();
	ck_assert_int_eq(connect_direct(1, &theirs), 0);
	theirs.qpn++;
	ck_assert_int_eq(connect_direct(2, &theirs), 0);
	ck_assert_uint_eq(live_qps(), 2);
	SERVER->session_close(session);
	ck_assert_uint_eq(live_qps(), 0);
	await(&seen.closed, 1);
	ck_assert_uint_eq(seen.downs, 0);
}
END_TEST

/* Open a session, connect a channel, register memory, close. */
static int run_requests(uint32_t channel)
{
	const struct fabric_qp_info theirs = remote_qp(client_gid());
	int err = SERVER->session_open(server, 0, NULL, &session);

	memset(&seen, 0, sizeof(seen));
	if (err)
		return err;
	err = connect_direct(channel, &theirs);
	if (!err) {
		(void)mr_request(session, sizeof(memory), FABRIC_RIGHT_READ);
		await(&seen.registered, 1);
		err = seen.err;
	}
	session_end(session);
	return err;
}

/* To the client the device's error would say that its request is wrong. */
START_TEST(failure__of_the_device_is_eio)
{
	unsigned n = 0;
	int err;

	open_direct();
	session_end(session);
	verbs_fake.fail_errno = EINVAL;
	do {
		fake_fail_at(++n);
		err = run_requests(n);
		ck_assert_msg(!err || (err == -EIO && fake_failed()), "%s gives %d",
			      fake_failed_call(), err);
	} while (fake_failed());
	ck_assert_uint_gt(n, 8);
}
END_TEST

static bool listen_without_device;

/* Open a server, connect a channel directly, close. */
static void run_server(void)
{
	const struct fabric_qp_info theirs = remote_qp(client_gid());

	if (listen_without_device ? try_open_no_device_address() : try_open()) {
		ck_assert_str_ne(err_text(), "");
		return;
	}
	if (!SERVER->session_open(server, 0, NULL, &session))
		(void)connect_direct(1, &theirs);
	SERVER->close(server);
	server = NULL;
}

START_TEST(sweep__no_failure_leaks)
{
	verbs_fake.infiniband = _i > 0;
	listen_without_device = _i == 2;
	ck_assert_uint_gt(fake_fail_each(run_server), 20);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("direct", setup, server_close);

	tcase_add_test(tcase, direct__modifies_the_queue_pair_itself);
	tcase_add_test(tcase, port__is_queried_again_after_events_and_failures);
	tcase_add_test(tcase, direct__psn_is_random);
	tcase_add_loop_test(tcase, direct__refuses_invalid_attributes, 0,
			    COUNT(invalid));
	tcase_add_test(tcase, direct__owner_of_the_address_replaces_another_client);
	tcase_add_loop_test(tcase, direct__refuses_a_queue_pair_in_use, 0, 2);
	tcase_add_test(tcase, gid_backoff__delays_after_an_unreachable_gid);
	tcase_add_test(tcase, connect__that_waits_delays_no_other);
	tcase_add_loop_test(tcase, connect__that_waits_can_be_ended, 0, 4);
	tcase_add_test(tcase, infiniband__uses_the_lid_within_a_subnet);
	tcase_add_loop_test(tcase, pkey__is_looked_up_and_must_match, 0, COUNT(pkeys));
	tcase_add_test(tcase, gid_index__selects_the_gid);
	tcase_add_test(tcase, cm__refuses_direct_channels_and_options);
	tcase_add_test(tcase, iwarp__refuses_connect_direct);
	tcase_add_test(tcase, port__needs_no_address);
	tcase_add_test(tcase, device__without_address_is_closed_when_removed);
	tcase_add_test(tcase, channel__in_error_is_reported);
	tcase_add_test(tcase, session_close__ends_direct_channels);
	tcase_add_test(tcase, failure__of_the_device_is_eio);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 3);
	return unit_main();
}
