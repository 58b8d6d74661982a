/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's channels without rdma_cm: the device that leads to the server, what the two
 * ends tell each other, and what a hostile server may say. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

static struct fabric_client_params params = FABRIC_CLIENT_PARAMS_INIT;

/* What the server says, and what it was told. */
static struct fabric_qp_info said, told;
static unsigned exchanges;
static int exchange_err;

static int exchange(void *ctx, const struct fabric_qp_info *ours, unsigned timeout_ms,
		    struct fabric_qp_info *ret_theirs)
{
	ck_assert_ptr_eq(ctx, &said);
	ck_assert_uint_gt(timeout_ms, 0);
	exchanges++;
	told = *ours;
	if (exchange_err)
		return err_set(exchange_err, "the server says no");
	*ret_theirs = said;
	return 0;
}

static void say(const char *gid)
{
	said = (struct fabric_qp_info){
		.qpn = 0xabcdef,
		.psn = 0x123456,
		.lid = fake.infiniband ? 9 : 0,
		.pkey = 0xffff,
		.mtu = 1024,
		.rd_atomic = 5,
		.retry_count = 4,
		.rnr_retry_count = 3,
	};
	ck_assert_int_eq(inet_pton(AF_INET6, gid, said.gid), 1);
}

static void setup_direct(void)
{
	endpoint.flags = FABRIC_ENDPOINT_DIRECT;
	/* the way is not to depend on the routes of this host */
	ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.source), 0);
	say("::ffff:10.1.0.9");
}

static int join(void)
{
	const struct fabric_channel_params wanted = {
		.depth = DEPTH,
		.timeout_ms = 1000,
		.exchange = exchange,
		.exchange_ctx = &said,
	};

	return wr_connect(CLIENT, cq, &wanted, &channel);
}

static int open_domain(void)
{
	return CLIENT->domain_open(&endpoint, &params, 1000, &domain);
}

static void open_all(void)
{
	int err = open_domain();

	ck_assert_msg(!err, "domain_open: %s", err_text());
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, sizeof(memory), &region), 0);
	ck_assert_int_eq(CLIENT->cq_create(domain, 2 * DEPTH, &cq), 0);
}

START_TEST(connect__drives_the_queue_pair_by_hand)
{
	struct ibv_qp_attr driven;

	open_all();
	ck_assert_str_eq(CLIENT->domain_device(domain), "fake0");
	ck_assert_msg(!join(), "%s", err_text());
	ck_assert_uint_eq(exchanges, 1);
	ck_assert_uint_eq(told.qpn, fake_own_number());
	ck_assert_uint_eq(told.mtu, 1024);
	ck_assert_uint_eq(told.rd_atomic, 16);
	ck_assert_uint_eq(told.retry_count, 6);
	ck_assert_uint_le(told.psn, 0xffffff);
	ck_assert_uint_eq(told.gid[15], 1);
	driven = fake_driven();
	/* nobody reads from a client */
	ck_assert_uint_eq(driven.qp_access_flags, 0);
	ck_assert_uint_eq(driven.max_dest_rd_atomic, 0);
	ck_assert_uint_eq(driven.dest_qp_num, 0xabcdef);
	ck_assert_uint_eq(driven.rq_psn, 0x123456);
	ck_assert_uint_eq(driven.sq_psn, told.psn);
	ck_assert_int_eq(driven.path_mtu, IBV_MTU_1024);
	ck_assert_uint_eq(driven.max_rd_atomic, 5);
	ck_assert_uint_eq(driven.retry_cnt, 4);
	ck_assert_uint_eq(driven.rnr_retry, 3);
	ck_assert_uint_eq(driven.timeout, 17);
	ck_assert_uint_eq(driven.ah_attr.grh.sgid_index, 2);
	ck_assert_mem_eq(driven.ah_attr.grh.dgid.raw, said.gid, 16);
	/* it works, and shows its end by what is posted */
	ck_assert_int_eq(CLIENT->alive_fd(channel), -1);
	ck_assert(CLIENT->alive(channel));
	ck_assert_int_eq(post(FABRIC_WRITE, 0, 3), 3);
	fake_complete(3);
	expect(0, 3, 0);
	ck_assert_int_eq(post(FABRIC_WRITE, 3, 1), 1);
	CLIENT->abort(channel);
	expect(3, 1, -ECONNRESET);
	ck_assert(!CLIENT->alive(channel));
	ck_assert_uint_eq(fake_disconnects(), 0);
	teardown();
}
END_TEST

START_TEST(connect__goes_by_lid_on_infiniband)
{
	fake.infiniband = true;
	ck_assert_int_eq(fabric_address_parse("fe80::9", &endpoint.address), 0);
	params.source.family = 0;
	say("fe80::9");
	open_all();
	ck_assert_msg(!join(), "%s", err_text());
	ck_assert_uint_eq(told.lid, 7);
	ck_assert_uint_eq(told.gid[0], 0xfe);
	ck_assert_uint_eq(fake_driven().ah_attr.dlid, 9);
	ck_assert_uint_eq(fake_driven().ah_attr.is_global, 0);
	CLIENT->channel_free(channel);
	said.lid = 0;
	ck_assert_int_eq(join(), -EINVAL);
	said.lid = 0xc000;
	ck_assert_int_eq(join(), -EINVAL);
	said.lid = 9;
	said.pkey = 0x8002;
	ck_assert_int_eq(join(), -EACCES);
	teardown_cq();
	params.rdma_options.pkey = 0x8002;
	open_all();
	ck_assert_int_eq(join(), 0);
	ck_assert_uint_eq(fake_driven().pkey_index, 1);
	teardown();
}
END_TEST

static const struct {
	const char *gid;
	uint32_t qpn, psn;
	uint16_t lid, mtu;
} hostile[] = {
	{ "::ffff:10.1.0.9", 1, 1, 0, 512 },
	{ "::ffff:10.1.0.9", 1 << 24, 1, 0, 512 },
	{ "::ffff:10.1.0.9", 9, 1 << 24, 0, 512 },
	{ "::ffff:10.1.0.9", 9, 1, 0, 513 },
	{ "::ffff:10.1.0.9", 9, 1, 5, 512 },
	{ "fd00::1", 9, 1, 0, 512 },
	{ "::ffff:127.0.0.1", 9, 1, 0, 512 },
};

START_TEST(connect__believes_no_server)
{
	say(hostile[_i].gid);
	said.qpn = hostile[_i].qpn;
	said.psn = hostile[_i].psn;
	said.lid = hostile[_i].lid;
	said.mtu = hostile[_i].mtu;
	open_all();
	ck_assert_int_eq(join(), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err_text(), "the peer's end"));
	ck_assert_uint_eq(fake_live_qps(), 0);
	exchange_err = -EDQUOT;
	ck_assert_int_eq(join(), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(err_text(), "says no"));
	ck_assert_uint_eq(fake_live_qps(), 0);
	teardown_cq();
}
END_TEST

static const struct {
	int connect;
	unsigned flags;
	int gid_index, err;
	const char *text;
} ways[] = {
	{ FABRIC_CONNECT_CM, FABRIC_ENDPOINT_DIRECT, FABRIC_OPTION_AUTO, -ENOTSUP,
	  "theirs0 are set up with connect = direct, not cm" },
	{ FABRIC_CONNECT_DIRECT, 0, FABRIC_OPTION_AUTO, -ENOTSUP,
	  "theirs0 are set up with connect = cm, not direct" },
	{ FABRIC_OPTION_AUTO, 0, 2, -EINVAL,
	  "gid_index and pkey are for connect = direct" },
	{ FABRIC_CONNECT_DIRECT, FABRIC_ENDPOINT_DIRECT, 2, 0, NULL },
	{ FABRIC_CONNECT_CM, 0, FABRIC_OPTION_AUTO, 0, NULL },
};

START_TEST(connect__is_as_both_want_it)
{
	params.rdma_options.connect = ways[_i].connect;
	params.rdma_options.gid_index = ways[_i].gid_index;
	endpoint.flags = ways[_i].flags;
	ck_assert_int_eq(open_domain(), ways[_i].err);
	if (ways[_i].text)
		ck_assert_msg(strstr(err_text(), ways[_i].text) != NULL, "%s",
			      err_text());
	else
		CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(device__is_shared_and_not_once_it_has_failed)
{
	struct fabric_domain *second, *third;
	unsigned live;

	ck_assert_int_eq(open_domain(), 0);
	live = fake_live();
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, &params, 1000, &second), 0);
	/* its protection domain */
	ck_assert_uint_eq(fake_live(), live + 1);
	ck_assert(!CLIENT->domain_removed(domain));
	fake_async(0, IBV_EVENT_DEVICE_FATAL, 0);
	/* it says so once, and all who share it are to know */
	if (_i) {
		ck_assert(CLIENT->domain_removed(second));
		ck_assert(CLIENT->domain_removed(domain));
	}
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, &params, 1000, &third), 0);
	ck_assert_uint_eq(fake_live(), live + 3);
	CLIENT->domain_close(second);
	CLIENT->domain_close(domain);
	CLIENT->domain_close(third);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

static void rejoin_at(unsigned index)
{
	ck_assert_msg(!join(), "%s", err_text());
	ck_assert_uint_eq(fake_driven().ah_attr.grh.sgid_index, index);
	CLIENT->channel_free(channel);
}

/* Its ports and GIDs are asked for once, until it tells that they have changed, or something
 * fails that they may be the cause of. */
START_TEST(device__is_looked_at_when_it_tells)
{
	unsigned index;

	open_all();
	ck_assert_msg(!join(), "%s", err_text());
	index = fake_driven().ah_attr.grh.sgid_index;
	CLIENT->channel_free(channel);
	fake.gid_shift = 5;
	rejoin_at(index);
	fake_async(0, IBV_EVENT_GID_CHANGE, 1);
	rejoin_at(index + 5);
	fake.gid_shift = 0;
	rejoin_at(index + 5);
	exchange_err = -EACCES;
	ck_assert_int_eq(join(), -EACCES);
	exchange_err = 0;
	rejoin_at(index);
	CLIENT->dereg_mr(region);
	CLIENT->cq_free(cq);
	CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

/* The caller knows from where IP sends to the server. */
START_TEST(device__is_where_the_way_begins)
{
	params.source.family = 0;
	ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.near), 0);
	ck_assert_int_eq(open_domain(), 0);
	ck_assert_str_eq(CLIENT->domain_device(domain), "fake0");
	CLIENT->domain_close(domain);
	ck_assert_int_eq(fabric_address_parse("10.7.0.1", &params.near), 0);
	ck_assert_int_eq(open_domain(), -ENODEV);
	/* what was asked for goes before */
	ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.source), 0);
	ck_assert_int_eq(open_domain(), 0);
	CLIENT->domain_close(domain);
	params.near.family = 0;
}
END_TEST

/* What the parent mapped of it is not there in the child, which opens it anew. */
START_TEST(device__of_the_parent_is_not_the_childs)
{
	struct fabric_domain *second;
	unsigned live;
	int status;
	pid_t pid;

	ck_assert_int_eq(open_domain(), 0);
	live = fake_live();
	pid = fork();
	ck_assert_int_ge(pid, 0);
	/* a context, and a protection domain on it */
	if (pid == 0)
		_exit(CLIENT->domain_open(&endpoint, &params, 1000, &second) ||
		      fake_live() != live + 2);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(device__must_lead_there)
{
	ck_assert_int_eq(fabric_address_parse("10.7.0.1", &params.source), 0);
	ck_assert_int_eq(open_domain(), -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), "10.1.0.1:7000"));
	fake.iwarp = true;
	ck_assert_int_eq(open_domain(), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err_text(), "fake1: iWARP cannot"));
	fake.iwarp = false;
	ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.source), 0);
	fake.port_down[0] = fake.port_down[1] = true;
	ck_assert_int_eq(open_domain(), -ENODEV);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

START_TEST(sweep__no_failure_leaks)
{
	unsigned n = 0;

	fake.no_errno = _i;
	do {
		fake_fail_at(++n);
		if (open_domain()) {
			ck_assert_str_ne(err_text(), "");
			continue;
		}
		if (!CLIENT->cq_create(domain, 2 * DEPTH, &cq)) {
			if (!join())
				CLIENT->channel_free(channel);
			CLIENT->cq_free(cq);
		}
		CLIENT->domain_close(domain);
		ck_assert_msg(fake_live() == 0, "%u left after %s failed as call %u",
			      fake_live(), fake_failed_call(), n);
	} while (fake_failed());
	ck_assert_uint_gt(n, 10);
	ck_assert_uint_eq(fake_live(), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-direct-client");
	TCase *tcase = tcase_create("direct");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup_direct, NULL);
	tcase_add_test(tcase, connect__drives_the_queue_pair_by_hand);
	tcase_add_test(tcase, connect__goes_by_lid_on_infiniband);
	tcase_add_loop_test(tcase, connect__believes_no_server, 0, COUNT(hostile));
	tcase_add_loop_test(tcase, connect__is_as_both_want_it, 0, COUNT(ways));
	tcase_add_loop_test(tcase, device__is_shared_and_not_once_it_has_failed, 0, 2);
	tcase_add_test(tcase, device__is_looked_at_when_it_tells);
	tcase_add_test(tcase, device__is_where_the_way_begins);
	tcase_add_test(tcase, device__of_the_parent_is_not_the_childs);
	tcase_add_test(tcase, device__must_lead_there);
	tcase_add_loop_test(tcase, sweep__no_failure_leaks, 0, 2);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
