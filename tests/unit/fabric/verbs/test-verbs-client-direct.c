/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of the verbs client without rdma_cm: the device that reaches the server, the
 * exchange of queue pair attributes, and invalid attributes from the server. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

/* Attributes of the server's queue pair, and those the client sent. */
static struct fabric_qp_info server_qp, client_qp;
static unsigned exchanges;
static int exchange_err;

static int exchange(void *ctx, const struct fabric_qp_info *ours, unsigned timeout_ms,
		    struct fabric_qp_info *ret_theirs)
{
	ck_assert_ptr_eq(ctx, &server_qp);
	ck_assert_uint_gt(timeout_ms, 0);
	exchanges++;
	client_qp = *ours;
	if (exchange_err)
		return err_set(exchange_err, "the server refuses");
	*ret_theirs = server_qp;
	return 0;
}

static void set_server_qp(const char *gid)
{
	server_qp = (struct fabric_qp_info){
		.qpn = 0xabcdef,
		.psn = 0x123456,
		.lid = verbs_fake.infiniband ? 9 : 0,
		.pkey = 0xffff,
		.mtu = 1024,
		.rd_atomic = 5,
		.retry_count = 4,
		.rnr_retry_count = 3,
	};
	ck_assert_int_eq(inet_pton(AF_INET6, gid, server_qp.gid), 1);
}

static void setup_direct(void)
{
	endpoint.flags = FABRIC_ENDPOINT_DIRECT;
	/* independent of the routes of this host */
	ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.source), 0);
	set_server_qp("::ffff:10.1.0.9");
}

static int connect_direct(void)
{
	const struct fabric_channel_params wanted = {
		.depth = DEPTH,
		.timeout_ms = 1000,
		.exchange = exchange,
		.exchange_ctx = &server_qp,
	};

	return wr_connect(CLIENT, cq, &wanted, &channel);
}

START_TEST(connect__modifies_the_queue_pair_itself)
{
	struct ibv_qp_attr attr;

	setup_cq();
	ck_assert_str_eq(CLIENT->domain_device(domain), "fake0");
	ck_assert_msg(!connect_direct(), "%s", err_text());
	ck_assert_uint_eq(exchanges, 1);
	ck_assert_uint_eq(client_qp.qpn, fake_direct_qpn());
	ck_assert_uint_eq(client_qp.mtu, 1024);
	ck_assert_uint_eq(client_qp.rd_atomic, 16);
	ck_assert_uint_eq(client_qp.retry_count, 6);
	ck_assert_uint_le(client_qp.psn, 0xffffff);
	ck_assert_uint_eq(client_qp.gid[15], 1);
	attr = fake_qp_attr();
	/* a client allows no remote access */
	ck_assert_uint_eq(attr.qp_access_flags, 0);
	ck_assert_uint_eq(attr.max_dest_rd_atomic, 0);
	ck_assert_uint_eq(attr.dest_qp_num, 0xabcdef);
	ck_assert_uint_eq(attr.rq_psn, 0x123456);
	ck_assert_uint_eq(attr.sq_psn, client_qp.psn);
	ck_assert_int_eq(attr.path_mtu, IBV_MTU_1024);
	ck_assert_uint_eq(attr.max_rd_atomic, 5);
	ck_assert_uint_eq(attr.retry_cnt, 4);
	ck_assert_uint_eq(attr.rnr_retry, 3);
	ck_assert_uint_eq(attr.timeout, 17);
	ck_assert_uint_eq(attr.ah_attr.grh.sgid_index, 2);
	ck_assert_mem_eq(attr.ah_attr.grh.dgid.raw, server_qp.gid, 16);
	/* poll() reports its end */
	ck_assert_int_eq(CLIENT->alive_fd(channel), -1);
	ck_assert(CLIENT->alive(channel));
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 3), 3);
	fake_complete_sends(3);
	expect(0, 3, 0);
	ck_assert_int_eq(post(FABRIC_WRITE, 3, 1), 1);
	CLIENT->abort(channel);
	expect(3, 1, -ECONNRESET);
	ck_assert(!CLIENT->alive(channel));
	ck_assert_uint_eq(fake_disconnects(), 0);
}
END_TEST

START_TEST(connect__has_a_random_psn)
{
	uint32_t seen_bits = 0, common = 0xffffff;

	setup_cq();
	for (unsigned i = 0; i < 64; i++) {
		ck_assert_int_eq(connect_direct(), 0);
		seen_bits |= client_qp.psn;
		common &= client_qp.psn;
		channel_close();
	}
	/* each of the 24 bits is 0 and 1 at least once, except in one of 2^38 runs */
	ck_assert_uint_eq(seen_bits, 0xffffff);
	ck_assert_uint_eq(common, 0);
}
END_TEST

START_TEST(connect__uses_the_lid_on_infiniband)
{
	verbs_fake.infiniband = true;
	ck_assert_int_eq(fabric_address_parse("fe80::9", &endpoint.address), 0);
	params.source.family = 0;
	set_server_qp("fe80::9");
	setup_cq();
	ck_assert_msg(!connect_direct(), "%s", err_text());
	ck_assert_uint_eq(client_qp.lid, 7);
	ck_assert_uint_eq(client_qp.gid[0], 0xfe);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.dlid, 9);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.is_global, 0);
	channel_close();
	server_qp.lid = 0;
	ck_assert_int_eq(connect_direct(), -EINVAL);
	server_qp.lid = 0xc000;
	ck_assert_int_eq(connect_direct(), -EINVAL);
	server_qp.lid = 9;
	server_qp.pkey = 0x8002;
	ck_assert_int_eq(connect_direct(), -EACCES);
	teardown();
	params.rdma_options.pkey = 0x8002;
	setup_cq();
	ck_assert_int_eq(connect_direct(), 0);
	ck_assert_uint_eq(fake_qp_attr().pkey_index, 1);
}
END_TEST

static const struct {
	const char *gid;
	uint32_t qpn, psn;
	uint16_t lid, mtu;
} invalid[] = {
	{ "::ffff:10.1.0.9", 1, 1, 0, 512 },
	{ "::ffff:10.1.0.9", 1 << 24, 1, 0, 512 },
	{ "::ffff:10.1.0.9", 9, 1 << 24, 0, 512 },
	{ "::ffff:10.1.0.9", 9, 1, 0, 513 },
	{ "::ffff:10.1.0.9", 9, 1, 5, 512 },
	{ "fd00::1", 9, 1, 0, 512 },
	{ "::ffff:127.0.0.1", 9, 1, 0, 512 },
};

START_TEST(connect__refuses_invalid_attributes)
{
	set_server_qp(invalid[_i].gid);
	server_qp.qpn = invalid[_i].qpn;
	server_qp.psn = invalid[_i].psn;
	server_qp.lid = invalid[_i].lid;
	server_qp.mtu = invalid[_i].mtu;
	setup_cq();
	ck_assert_int_eq(connect_direct(), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "the peer's end"));
	ck_assert_uint_eq(fake_live_qps(), 0);
	exchange_err = -EDQUOT;
	ck_assert_int_eq(connect_direct(), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(err_text(), "server refuses"));
	ck_assert_uint_eq(fake_live_qps(), 0);
}
END_TEST

static const struct {
	int connect;
	unsigned flags;
	int gid_index, err;
	const char *text;
} methods[] = {
	{ FABRIC_CONNECT_CM, FABRIC_ENDPOINT_DIRECT, FABRIC_OPTION_AUTO, -ENOTSUP,
	  "theirs0 are set up with connect = direct, not cm" },
	{ FABRIC_CONNECT_DIRECT, 0, FABRIC_OPTION_AUTO, -ENOTSUP,
	  "theirs0 are set up with connect = cm, not direct" },
	{ FABRIC_OPTION_AUTO, 0, 2, -EINVAL,
	  "gid_index and pkey are for connect = direct" },
	{ FABRIC_CONNECT_DIRECT, FABRIC_ENDPOINT_DIRECT, 2, 0, NULL },
	{ FABRIC_CONNECT_CM, 0, FABRIC_OPTION_AUTO, 0, NULL },
};

START_TEST(connect__method_must_suit_both_sides)
{
	params.rdma_options.connect = methods[_i].connect;
	params.rdma_options.gid_index = methods[_i].gid_index;
	endpoint.flags = methods[_i].flags;
	ck_assert_int_eq(open_domain(), methods[_i].err);
	if (methods[_i].text)
		ck_assert_msg(strstr(err_text(), methods[_i].text) != NULL, "%s",
			      err_text());
}
END_TEST

START_TEST(device__is_shared_until_it_fails)
{
	struct fabric_domain *second, *third;
	unsigned live;

	ck_assert_int_eq(open_domain(), 0);
	live = fake_live();
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, &params, 1000, &second), 0);
	/* one object more: its protection domain */
	ck_assert_uint_eq(fake_live(), live + 1);
	ck_assert(!CLIENT->domain_removed(domain));
	fake_async_event(0, IBV_EVENT_DEVICE_FATAL, 0);
	/* the device reports it once; all domains that share it must learn it */
	if (_i) {
		ck_assert(CLIENT->domain_removed(second));
		ck_assert(CLIENT->domain_removed(domain));
	}
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, &params, 1000, &third), 0);
	ck_assert_uint_eq(fake_live(), live + 3);
	CLIENT->domain_close(second);
	close_all();
	CLIENT->domain_close(third);
}
END_TEST

static void connect_at(unsigned index)
{
	ck_assert_msg(!connect_direct(), "%s", err_text());
	ck_assert_uint_eq(fake_qp_attr().ah_attr.grh.sgid_index, index);
	channel_close();
}

/* Ports and GIDs are queried again only after an event of the device or a failed
 * connect. */
START_TEST(device__is_queried_again_after_its_events)
{
	unsigned index;

	setup_cq();
	ck_assert_msg(!connect_direct(), "%s", err_text());
	index = fake_qp_attr().ah_attr.grh.sgid_index;
	channel_close();
	verbs_fake.gid_index_shift = 5;
	connect_at(index);
	fake_async_event(0, IBV_EVENT_GID_CHANGE, 1);
	connect_at(index + 5);
	verbs_fake.gid_index_shift = 0;
	connect_at(index + 5);
	exchange_err = -EACCES;
	ck_assert_int_eq(connect_direct(), -EACCES);
	exchange_err = 0;
	connect_at(index);
}
END_TEST

/* params.route_source is the address from which IP reaches the server. */
START_TEST(device__is_found_by_the_local_address)
{
	params.source.family = 0;
	ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.route_source), 0);
	ck_assert_int_eq(open_domain(), 0);
	ck_assert_str_eq(CLIENT->domain_device(domain), "fake0");
	close_all();
	ck_assert_int_eq(fabric_address_parse("10.7.0.1", &params.route_source), 0);
	ck_assert_int_eq(open_domain(), -ENODEV);
	/* params.source has precedence */
	ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.source), 0);
	ck_assert_int_eq(open_domain(), 0);
}
END_TEST

/* The child opens the device again: mappings of the parent's context do not exist in
 * it. */
START_TEST(device__is_opened_again_after_fork)
{
	struct fabric_domain *second;
	unsigned live;
	int status;
	pid_t pid;

	ck_assert_int_eq(open_domain(), 0);
	live = fake_live();
	pid = fork();
	ck_assert_int_ge(pid, 0);
	/* two objects more: a context and its protection domain */
	if (pid == 0)
		_exit(CLIENT->domain_open(&endpoint, &params, 1000, &second) ||
		      fake_live() != live + 2);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(device__must_reach_the_server)
{
	ck_assert_int_eq(fabric_address_parse("10.7.0.1", &params.source), 0);
	ck_assert_int_eq(open_domain(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.1.0.1:7000"));
	verbs_fake.iwarp = true;
	ck_assert_int_eq(open_domain(), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake1: iWARP cannot"));
	verbs_fake.iwarp = false;
	ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.source), 0);
	verbs_fake.port_down[0] = verbs_fake.port_down[1] = true;
	ck_assert_int_eq(open_domain(), -ENODEV);
}
END_TEST

/* Open a domain and a CQ, connect a channel directly, close. */
static void run_client(void)
{
	if (open_domain())
		ck_assert_str_ne(err_text(), "");
	else if (!CLIENT->cq_create(domain, 2 * DEPTH, &cq))
		(void)connect_direct();
	close_all();
}

START_TEST(sweep__no_failure_leaks)
{
	verbs_fake.fail_errno = _i ? 0 : ENOMEM;
	ck_assert_uint_gt(fake_fail_each(run_client), 10);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("direct", setup_direct, teardown);

	tcase_add_test(tcase, connect__modifies_the_queue_pair_itself);
	tcase_add_test(tcase, connect__has_a_random_psn);
	tcase_add_test(tcase, connect__uses_the_lid_on_infiniband);
	tcase_add_loop_test(tcase, connect__refuses_invalid_attributes, 0,
			    COUNT(invalid));
	tcase_add_loop_test(tcase, connect__method_must_suit_both_sides, 0,
			    COUNT(methods));
	tcase_add_loop_test(tcase, device__is_shared_until_it_fails, 0, 2);
	tcase_add_test(tcase, device__is_queried_again_after_its_events);
	tcase_add_test(tcase, device__is_found_by_the_local_address);
	tcase_add_test(tcase, device__is_opened_again_after_fork);
	tcase_add_test(tcase, device__must_reach_the_server);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 2);
	return unit_main();
}
