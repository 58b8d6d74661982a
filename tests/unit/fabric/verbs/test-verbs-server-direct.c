/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's channels without rdma_cm: what a client may say of its end, where the queue
 * pair goes, and what is served so.  InfiniBand's half is tested here alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static struct fabric_device_params devices[] = {
	{ .name = "",
	  .port = FABRIC_OPTION_AUTO,
	  .rdma_options = FABRIC_RDMA_OPTIONS_INIT },
};
static struct fabric_session *session;
static struct fabric_qp_info ours;

static const char *const names[] = { "fake0", NULL };
/* Where no RDMA device is. */
static const struct fabric_address elsewhere = { .family = 4,
						 .bytes = { 192, 168, 7, 7 },
						 .port = PORT };

static int try_open_at(const struct fabric_address *listen)
{
	return open_with((struct fabric_server_params){ .listen = *listen,
							.devices = names,
							.device_params = devices,
							.n_device_params = 1 });
}

static int try_open(void)
{
	return try_open_at(&(struct fabric_address){ 0 });
}

static int try_open_elsewhere(void)
{
	return try_open_at(&elsewhere);
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

/* A client's end as ours would say it. */
static struct fabric_qp_info end_at(const char *gid)
{
	struct fabric_qp_info end = {
		.qpn = 0x123456,
		.psn = 0xfedcba,
		.lid = fake.infiniband ? 9 : 0,
		.pkey = 0xffff,
		.mtu = 512,
		.rd_atomic = 3,
		.retry_count = 5,
		.rnr_retry_count = 7,
	};

	ck_assert_int_eq(inet_pton(AF_INET6, gid, end.gid), 1);
	return end;
}

static int join(uint32_t channel, const struct fabric_qp_info *theirs)
{
	return SERVER->channel_connect(session, channel, theirs, &ours);
}

START_TEST(join__drives_the_queue_pair_by_hand)
{
	const struct fabric_qp_info theirs = end_at("::ffff:10.1.0.9");
	const struct fabric_endpoint *endpoint;
	struct ibv_qp_attr driven;

	fake.atomics = IBV_ATOMIC_HCA;
	open_direct();
	endpoint = SERVER->endpoint(server, 0);
	ck_assert_uint_eq(endpoint->flags, FABRIC_ENDPOINT_DIRECT |
						   FABRIC_ENDPOINT_ATOMICS |
						   FABRIC_ENDPOINT_INBAND);
	ck_assert_uint_eq(endpoint->address.port, 0);
	ck_assert_msg(!join(4, &theirs), "%s", err_text());
	ck_assert_uint_eq(ours.qpn, fake_own_number());
	ck_assert_uint_eq(ours.mtu, 512);
	ck_assert_uint_eq(ours.rd_atomic, 3);
	ck_assert_uint_eq(ours.retry_count, 5);
	/* 7 would be for ever */
	ck_assert_uint_eq(ours.rnr_retry_count, 6);
	ck_assert_uint_eq(ours.lid, 0);
	ck_assert_uint_eq(ours.pkey, 0xffff);
	ck_assert_uint_eq(ours.gid[12], 10);
	driven = fake_driven();
	ck_assert_uint_eq(driven.port_num, 1);
	ck_assert_uint_eq(driven.qp_access_flags, IBV_ACCESS_REMOTE_READ |
							  IBV_ACCESS_REMOTE_WRITE |
							  IBV_ACCESS_REMOTE_ATOMIC);
	ck_assert_uint_eq(driven.dest_qp_num, 0x123456);
	ck_assert_uint_eq(driven.rq_psn, 0xfedcba);
	ck_assert_uint_eq(driven.sq_psn, ours.psn);
	ck_assert_int_eq(driven.path_mtu, IBV_MTU_512);
	ck_assert_uint_eq(driven.max_dest_rd_atomic, 3);
	ck_assert_uint_eq(driven.retry_cnt, 5);
	ck_assert_uint_eq(driven.rnr_retry, 6);
	ck_assert_uint_eq(driven.ah_attr.is_global, 1);
	ck_assert_uint_eq(driven.ah_attr.grh.sgid_index, 2);
	ck_assert_mem_eq(driven.ah_attr.grh.dgid.raw, theirs.gid, 16);
	ck_assert_uint_eq(seen.ups, 1);
	ck_assert_uint_eq(seen.channel, 4);
	ck_assert_uint_eq(seen.admits, 0);
	ck_assert_uint_eq(stats().channels, 1);
	/* a number has one channel, and its end is the end of the queue pair */
	ck_assert_int_eq(join(4, &theirs), -EINVAL);
	ck_assert_int_eq(SERVER->channel_close(session, 4), 0);
	ck_assert_uint_eq(fake_live_qps(), 0);
	ck_assert_uint_eq(stats().channels, 0);
	ck_assert_uint_eq(seen.downs, 0);
	close_all();
}
END_TEST

static void join_at(uint32_t channel, unsigned index)
{
	struct fabric_qp_info theirs = end_at("::ffff:10.1.0.9");

	theirs.qpn += channel;
	ck_assert_msg(!join(channel, &theirs), "%s", err_text());
	ck_assert_uint_eq(fake_driven().ah_attr.grh.sgid_index, index);
}

/* The port is asked for once, until the device tells that it has changed, or a join fails. */
START_TEST(port__is_looked_at_when_the_device_tells)
{
	const struct fabric_qp_info nowhere = end_at("::");

	open_direct();
	join_at(1, 2);
	fake.gid_shift = 3;
	join_at(2, 2);
	fake_async(0, IBV_EVENT_GID_CHANGE, 1);
	SERVER->process(server);
	join_at(3, 5);
	fake.gid_shift = 0;
	join_at(4, 5);
	ck_assert_int_eq(join(5, &nowhere), -EINVAL);
	join_at(6, 2);
	close_all();
}
END_TEST

START_TEST(join__begins_at_a_random_packet)
{
	struct fabric_qp_info theirs = end_at("::ffff:10.1.0.9");
	uint32_t seen_bits = 0, common = 0xffffff;

	open_direct();
	for (uint32_t i = 1; i <= 64; i++) {
		theirs.qpn++;
		ck_assert_int_eq(join(i, &theirs), 0);
		ck_assert_uint_le(ours.psn, 0xffffff);
		seen_bits |= ours.psn;
		common &= ours.psn;
	}
	/* each of the 24 bits is one and zero now and then, but once in 2^38 runs */
	ck_assert_uint_eq(seen_bits, 0xffffff);
	ck_assert_uint_eq(common, 0);
	close_all();
}
END_TEST

static const struct {
	const char *gid;
	uint32_t qpn, psn;
	uint16_t lid, pkey, mtu;
	const char *text;
} hostile[] = {
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

START_TEST(join__refuses_what_cannot_be)
{
	struct fabric_qp_info theirs = end_at(hostile[_i].gid);

	theirs.qpn = hostile[_i].qpn;
	theirs.psn = hostile[_i].psn;
	theirs.lid = hostile[_i].lid;
	theirs.pkey = hostile[_i].pkey;
	theirs.mtu = hostile[_i].mtu;
	open_direct();
	ck_assert_int_lt(join(1, &theirs), 0);
	ck_assert_msg(strstr(err_text(), hostile[_i].text) != NULL, "%s", err_text());
	ck_assert_uint_eq(fake_live_qps(), 0);
	ck_assert_uint_eq(stats().refused, 1);
	ck_assert_uint_eq(seen.ups + seen.downs, 0);
	close_all();
}
END_TEST

/* A client must not have what it reads answered to another one's queue pair. */
START_TEST(join__takes_an_end_once)
{
	struct fabric_session *first;
	struct fabric_qp_info theirs;

	fake.infiniband = _i > 0;
	theirs = end_at(fake.infiniband ? "fe80::9" : "::ffff:10.1.0.9");
	open_direct();
	ck_assert_int_eq(join(1, &theirs), 0);
	ck_assert_int_eq(join(2, &theirs), -EBUSY);
	first = session;
	session = session_new(0);
	ck_assert_int_eq(join(1, &theirs), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err_text(), "queue pair 0x123456"));
	ck_assert_uint_eq(stats().refused, 2);
	ck_assert_uint_eq(fake_live_qps(), 1);
	/* the same port by another of its addresses */
	theirs.gid[15] = 10;
	ck_assert_int_eq(join(1, &theirs), fake.infiniband ? -EBUSY : 0);
	theirs.gid[15] = 9;
	theirs.qpn++;
	ck_assert_int_eq(join(2, &theirs), 0);
	theirs.qpn--;
	ck_assert_int_eq(SERVER->channel_close(first, 1), 0);
	ck_assert_int_eq(join(3, &theirs), 0);
	close_all();
}
END_TEST

/* Who only guesses a queue pair's number does not keep its owner out. */
START_TEST(join__believes_who_comes_from_that_address)
{
	struct fabric_qp_info theirs = end_at("::ffff:10.1.0.9");

	open_direct();
	ck_assert_int_eq(join(1, &theirs), 0);
	session = session_new(0);
	theirs.own = true;
	ck_assert_int_eq(join(2, &theirs), 0);
	ck_assert_uint_eq(seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "another client's"));
	ck_assert_uint_eq(fake_live_qps(), 1);
	ck_assert_uint_eq(stats().channels, 1);
	/* nobody takes it from there, guessing or from the same host */
	ck_assert_int_eq(join(3, &theirs), -EBUSY);
	session = session_new(0);
	ck_assert_int_eq(join(4, &theirs), -EBUSY);
	theirs.own = false;
	ck_assert_int_eq(join(4, &theirs), -EBUSY);
	ck_assert_uint_eq(seen.downs, 1);
	close_all();
}
END_TEST

static uint64_t now_ns = 1000000000;

static uint64_t now(void)
{
	return now_ns;
}

static void pass_ms(unsigned ms)
{
	now_ns += ms * UINT64_C(1000000);
}

static void nobody_answers(void)
{
	pass_ms(1000);
}

static unsigned rtrs;

static void rtr_counted(void)
{
	rtrs++;
}

/* The loop waits while the kernel asks the network for a GID: a peer that names some which
 * nobody has must not have it stand still. */
START_TEST(join__waits_for_few_that_do_not_answer)
{
	struct fabric_qp_info theirs = end_at("::ffff:10.1.0.99");
	const struct fabric_qp_info other = end_at("::ffff:10.1.0.9");

	clock_set_source(now);
	open_direct();
	fake.at_rtr = nobody_answers;
	fake.rtr_error = ETIMEDOUT;
	ck_assert_int_eq(join(1, &theirs), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0: nobody answers for the peer's "
						 "GID ::ffff:10.1.0.99"));
	fake.at_rtr = rtr_counted;
	fake.rtr_error = 0;
	/* not again for a while, though it would now; and a rest for all */
	ck_assert_int_eq(join(2, &theirs), -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(err_text(), "::ffff:10.1.0.99"));
	ck_assert_int_eq(join(3, &other), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err_text(), "try again in 3000 ms"));
	ck_assert_uint_eq(rtrs, 0);
	ck_assert_uint_eq(fake_live_qps(), 0);
	pass_ms(3000);
	ck_assert_int_eq(join(4, &other), 0);
	ck_assert_int_eq(join(5, &theirs), -EHOSTUNREACH);
	pass_ms(27000);
	ck_assert_int_eq(join(6, &theirs), 0);
	ck_assert_uint_eq(rtrs, 2);
	close_all();
}
END_TEST

/* Ever other ones have a quarter of the time at most. */
START_TEST(join__waits_for_ever_other_ones_now_and_then)
{
	struct fabric_qp_info theirs = end_at("::ffff:10.1.0.99");
	uint64_t end_ns = now_ns + UINT64_C(60000000000);
	uint32_t n = 0, waits = 0;

	clock_set_source(now);
	open_direct();
	fake.at_rtr = nobody_answers;
	fake.rtr_error = ETIMEDOUT;
	while (now_ns < end_ns) {
		theirs.gid[15] = (uint8_t)++n;
		waits += join(n, &theirs) == -ETIMEDOUT;
		pass_ms(1);
	}
	ck_assert_uint_ge(waits, 14);
	ck_assert_uint_le(waits, 16);
	close_all();
}
END_TEST

START_TEST(infiniband__goes_by_lid_within_a_subnet)
{
	struct fabric_qp_info theirs;

	fake.infiniband = true;
	theirs = end_at("fe80::9");
	ck_assert_msg(!try_open_elsewhere(), "%s", err_text());
	session = session_new(0);
	ck_assert_msg(!join(1, &theirs), "%s", err_text());
	ck_assert_uint_eq(ours.lid, 7);
	/* the port's first GID, which no IP address is */
	ck_assert_uint_eq(ours.gid[0], 0xfe);
	ck_assert_uint_eq(fake_driven().ah_attr.dlid, 9);
	ck_assert_uint_eq(fake_driven().ah_attr.is_global, 0);
	/* another subnet is behind a router */
	theirs = end_at("fec0::9");
	theirs.qpn++;
	ck_assert_int_eq(join(2, &theirs), 0);
	ck_assert_uint_eq(fake_driven().ah_attr.is_global, 1);
	ck_assert_uint_eq(fake_driven().ah_attr.grh.sgid_index, 0);
	for (unsigned lid = 0; lid < 0x10000; lid = lid ? 2 * lid : 0x4000) {
		theirs.lid = (uint16_t)(lid | (lid & 0x8000) >> 1);
		theirs.qpn++;
		ck_assert_int_eq(join(3 + lid, &theirs), lid == 0x4000 ? 0 : -EINVAL);
	}
	close_all();
}
END_TEST

static const struct {
	int option;
	uint16_t theirs;
	int open, join;
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

START_TEST(pkey__is_looked_up_and_must_agree)
{
	struct fabric_qp_info theirs;

	fake.infiniband = true;
	theirs = end_at("fe80::9");
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
	ck_assert_int_eq(join(1, &theirs), pkeys[_i].join);
	if (!pkeys[_i].join) {
		ck_assert_uint_eq(fake_driven().pkey_index, pkeys[_i].index);
		ck_assert_uint_eq(ours.pkey, fake.pkeys[pkeys[_i].index]);
	}
	close_all();
}
END_TEST

START_TEST(gid_index__is_as_said)
{
	struct fabric_qp_info theirs = end_at("fd00::9");
	const struct fabric_device_attr *abilities;
	struct fabric_port_attr port;

	fake.more_gids = 100;
	devices[0].rdma_options.gid_index = 3;
	open_direct();
	ck_assert_msg(!join(1, &theirs), "%s", err_text());
	ck_assert_uint_eq(fake_driven().ah_attr.grh.sgid_index, 3);
	ck_assert_int_eq(SERVER->device(server, 0, &abilities, &port), 0);
	ck_assert_int_eq(port.rdma_options.connect, FABRIC_CONNECT_DIRECT);
	for (unsigned i = 0; i < port.n_gids; i++)
		ck_assert(port.gids[i].served == (port.gids[i].index == 3));
	close_all();
	/* RoCE's first version */
	devices[0].rdma_options.gid_index = 1;
	ck_assert_int_eq(try_open(), -EADDRNOTAVAIL);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0, port 1: there is no GID 1"));
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(cm__takes_neither_joins_nor_their_keys)
{
	const struct fabric_qp_info theirs = end_at("::ffff:10.1.0.9");

	devices[0].rdma_options.connect = FABRIC_OPTION_AUTO;
	open_direct();
	ck_assert_uint_eq(SERVER->endpoint(server, 0)->flags & FABRIC_ENDPOINT_DIRECT,
			  0);
	ck_assert_int_eq(join(1, &theirs), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0"));
	close_all();
	devices[0].rdma_options.gid_index = 2;
	ck_assert_int_eq(try_open(), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "connect = direct"));
	devices[0].rdma_options.gid_index = FABRIC_OPTION_AUTO;
	devices[0].rdma_options.pkey = 0xffff;
	ck_assert_int_eq(try_open(), -EINVAL);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(iwarp__refuses_by_name)
{
	fake.iwarp = true;
	ck_assert_int_eq(try_open(), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake0"));
	ck_assert_ptr_nonnull(strstr(err_text(), "iWARP"));
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(port__needs_no_address)
{
	const struct fabric_endpoint *endpoint;
	struct fabric_qp_info theirs;

	fake.infiniband = true;
	theirs = end_at("fe80::9");
	ck_assert_msg(!try_open_elsewhere(), "%s", err_text());
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	endpoint = SERVER->endpoint(server, 0);
	ck_assert_str_eq(endpoint->device, "fake0");
	ck_assert_uint_eq(endpoint->address.family, 6);
	ck_assert_uint_eq(endpoint->address.bytes[0], 0xfe);
	ck_assert_uint_eq(endpoint->address.bytes[15], 1);
	session = session_new(0);
	ck_assert_msg(!join(1, &theirs), "%s", err_text());
	close_all();
	/* but by rdma_cm it does, and on Ethernet */
	devices[0].rdma_options.connect = FABRIC_CONNECT_CM;
	ck_assert_int_eq(try_open_elsewhere(), -ENODEV);
	devices[0].rdma_options.connect = FABRIC_CONNECT_DIRECT;
	fake.infiniband = false;
	ck_assert_int_eq(try_open_elsewhere(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "gid_index"));
	fake.infiniband = true;
	fake.port_down[0] = true;
	ck_assert_int_eq(try_open_elsewhere(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "connect = direct: RDMA device fake0, "
						 "port 1 is not active"));
	fake.port_down[0] = false;
	devices[0].rdma_options.pkey = 0x8123;
	ck_assert_int_eq(try_open_elsewhere(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "has no P_Key 0x8123"));
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(device__without_an_address_is_given_back_when_it_is_removed)
{
	struct fabric_qp_info theirs;

	fake.infiniband = true;
	theirs = end_at("fe80::9");
	ck_assert_int_eq(try_open_elsewhere(), 0);
	session = session_new(0);
	ck_assert_int_eq(join(1, &theirs), 0);
	fake_async(0, IBV_EVENT_DEVICE_FATAL, 0);
	await(&seen.downs, 1);
	ck_assert_ptr_nonnull(strstr(seen.why, "removed"));
	ck_assert_uint_eq(fake_live_qps(), 0);
	ck_assert_int_eq(join(2, &theirs), -ENODEV);
	close_all();
}
END_TEST

START_TEST(channel__that_breaks_is_told_of)
{
	const struct fabric_qp_info theirs = end_at("::ffff:10.1.0.9");

	open_direct();
	ck_assert_int_eq(join(8, &theirs), 0);
	fake_own_break();
	await(&seen.downs, 1);
	ck_assert_uint_eq(seen.channel, 8);
	ck_assert_ptr_nonnull(strstr(seen.why, "ERROR"));
	ck_assert_uint_eq(fake_live_qps(), 0);
	ck_assert_uint_eq(stats().errors, 1);
	close_all();
}
END_TEST

START_TEST(session__ends_with_its_channels)
{
	struct fabric_qp_info theirs = end_at("::ffff:10.1.0.9");

	open_direct();
	ck_assert_int_eq(join(1, &theirs), 0);
	theirs.qpn++;
	ck_assert_int_eq(join(2, &theirs), 0);
	ck_assert_uint_eq(fake_live_qps(), 2);
	SERVER->session_close(session);
	ck_assert_uint_eq(fake_live_qps(), 0);
	await(&seen.closeds, 1);
	ck_assert_uint_eq(seen.downs, 0);
	close_all();
}
END_TEST

START_TEST(sweep__no_failure_leaks)
{
	struct fabric_qp_info theirs;
	unsigned n = 0;

	fake.infiniband = _i > 0;
	theirs = end_at(fake.infiniband ? "fe80::9" : "::ffff:10.1.0.9");
	do {
		fake_fail_at(++n);
		if (_i == 2 ? try_open_elsewhere() : try_open()) {
			ck_assert_str_ne(err_text(), "");
		} else {
			if (!SERVER->session_open(server, 0, NULL, &session))
				(void)join(1, &theirs);
			SERVER->close(server);
		}
		ck_assert_msg(fake_live() == 0, "%u left after %s failed as call %u",
			      fake_live(), fake_failed_call(), n);
	} while (fake_failed());
	ck_assert_uint_gt(n, 20);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-direct-server");
	TCase *tcase = tcase_create("direct");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, join__drives_the_queue_pair_by_hand);
	tcase_add_test(tcase, port__is_looked_at_when_the_device_tells);
	tcase_add_test(tcase, join__begins_at_a_random_packet);
	tcase_add_loop_test(tcase, join__refuses_what_cannot_be, 0, COUNT(hostile));
	tcase_add_test(tcase, join__believes_who_comes_from_that_address);
	tcase_add_loop_test(tcase, join__takes_an_end_once, 0, 2);
	tcase_add_test(tcase, join__waits_for_few_that_do_not_answer);
	tcase_add_test(tcase, join__waits_for_ever_other_ones_now_and_then);
	tcase_add_test(tcase, infiniband__goes_by_lid_within_a_subnet);
	tcase_add_loop_test(tcase, pkey__is_looked_up_and_must_agree, 0, COUNT(pkeys));
	tcase_add_test(tcase, gid_index__is_as_said);
	tcase_add_test(tcase, cm__takes_neither_joins_nor_their_keys);
	tcase_add_test(tcase, iwarp__refuses_by_name);
	tcase_add_test(tcase, port__needs_no_address);
	tcase_add_test(tcase,
		       device__without_an_address_is_given_back_when_it_is_removed);
	tcase_add_test(tcase, channel__that_breaks_is_told_of);
	tcase_add_test(tcase, session__ends_with_its_channels);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 3);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
