/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the server's devices, and the limits it agrees with clients. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs/common/qp.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

static struct fabric_device_params devices[] = {
	{ .name = "fake0",
	  .port = FABRIC_OPTION_AUTO,
	  .rdma_options = FABRIC_RDMA_OPTIONS_INIT },
	{ .name = "",
	  .port = FABRIC_OPTION_AUTO,
	  .rdma_options = FABRIC_RDMA_OPTIONS_INIT },
};

/* Open the server with `devices`; if it is open, close it first. */
static void open_with_options(void)
{
	server_close();
	ck_assert_int_eq(server_try_open((struct fabric_server_params){
				 .device_params = devices, .n_device_params = 2 }),
			 0);
}

/* Connect a channel of a peer with these limits to a new server; returns the limits of
 * its answer. */
static struct verbs_qp_limits open_and_connect(const struct verbs_qp_limits *theirs)
{
	struct fabric_hello hello = { .session = 1, .channel = 1 };
	uint8_t buf[FABRIC_HELLO_BYTES + VERBS_QP_LIMITS_BYTES];
	struct rdma_conn_param param;
	struct rdma_cm_id *id;

	open_with_options();
	seen.admitted = session_new(0);
	fabric_hello_encode(&hello, buf);
	verbs_qp_limits_encode(theirs, buf + FABRIC_HELLO_BYTES);
	id = fake_request(0, buf, sizeof(buf));
	SERVER->process(server);
	settle();
	ck_assert_int_eq(fake_request_state(id), FAKE_ACCEPTED);
	ck_assert_ptr_nonnull(id->qp);
	ck_assert_int_eq(id->qp->state, IBV_QPS_RTS);
	param = fake_param();
	ck_assert_uint_eq(param.qp_num, id->qp->qp_num);
	ck_assert_uint_eq(param.private_data_len, VERBS_QP_LIMITS_BYTES);
	return verbs_qp_limits_decode(param.private_data, param.private_data_len);
}

static const struct {
	int ours;
	uint16_t theirs;
	unsigned agreed;
	enum ibv_mtu mtu;
} mtus[] = {
	/* the path's is 2048 */
	{ FABRIC_OPTION_AUTO, UINT16_MAX, 2048, IBV_MTU_2048 },
	{ 4096, 4096, 2048, IBV_MTU_2048 },
	{ 1024, UINT16_MAX, 1024, IBV_MTU_1024 },
	{ FABRIC_OPTION_AUTO, 512, 512, IBV_MTU_512 },
	{ 1024, 256, 256, IBV_MTU_256 },
	{ 256, 1024, 256, IBV_MTU_256 },
	/* values that no valid client sends */
	{ FABRIC_OPTION_AUTO, 1500, 1024, IBV_MTU_1024 },
	{ FABRIC_OPTION_AUTO, 0, 256, IBV_MTU_256 },
};

START_TEST(mtu__is_the_lowest_of_both_sides_and_the_path)
{
	const struct verbs_qp_limits theirs = { mtus[_i].theirs, 6, 6 };

	devices[0].rdma_options.mtu = mtus[_i].ours;
	ck_assert_uint_eq(open_and_connect(&theirs).mtu, mtus[_i].agreed);
	ck_assert_int_eq(fake_qp_attr().path_mtu, mtus[_i].mtu);
}
END_TEST

static const struct {
	uint8_t ours, theirs, agreed;
} retries[] = {
	{ 6, 6, 6 },
	{ 3, 6, 3 },
	{ 6, 2, 2 },
	{ 0, 6, 0 },
	/* 7 means without limit, and is not used */
	{ 6, 7, 6 },
};

START_TEST(retries__are_the_lower_of_both_sides)
{
	struct verbs_qp_limits theirs = { UINT16_MAX, retries[_i].theirs, 6 }, agreed;

	devices[0].rdma_options.retry_count = retries[_i].ours;
	agreed = open_and_connect(&theirs);
	ck_assert_uint_eq(agreed.retry_count, retries[_i].agreed);
	ck_assert_uint_eq(agreed.rnr_retry_count, 6);
	ck_assert_uint_eq(fake_qp_attr().retry_cnt, retries[_i].agreed);
	theirs = (struct verbs_qp_limits){ UINT16_MAX, 6, retries[_i].theirs };
	devices[0].rdma_options.retry_count = 6;
	devices[0].rdma_options.rnr_retry_count = retries[_i].ours;
	agreed = open_and_connect(&theirs);
	ck_assert_uint_eq(agreed.rnr_retry_count, retries[_i].agreed);
	ck_assert_uint_eq(fake_qp_attr().rnr_retry, retries[_i].agreed);
	ck_assert_uint_eq(fake_param().rnr_retry_count, retries[_i].agreed);
}
END_TEST

START_TEST(options__mark_packets)
{
	const struct verbs_qp_limits theirs = { UINT16_MAX, 6, 6 };

	(void)open_and_connect(&theirs);
	ck_assert_int_eq(fake_tos(), -1);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.grh.traffic_class, 0);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.sl, 0);
	ck_assert_uint_eq(fake_qp_attr().timeout, 18); /* rdma_cm's */
	devices[0].rdma_options.traffic_class = 104;
	devices[0].rdma_options.service_level = 3;
	devices[0].rdma_options.ack_timeout = 12;
	(void)open_and_connect(&theirs);
	ck_assert_int_eq(fake_tos(), 104);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.grh.traffic_class, 104);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.sl, 3);
	ck_assert_uint_eq(fake_qp_attr().timeout, 12);
}
END_TEST

START_TEST(rd_atomic__is_the_lowest_of_option_device_and_peer)
{
	const struct verbs_qp_limits theirs = { UINT16_MAX, 6, 6 };

	/* the request asks for 16, the device has 8 */
	(void)open_and_connect(&theirs);
	ck_assert_uint_eq(fake_param().responder_resources, 8);
	ck_assert_uint_eq(fake_qp_attr().max_dest_rd_atomic, 8);
	ck_assert_uint_eq(fake_qp_attr().max_rd_atomic, 0);
	devices[0].rdma_options.rd_atomic = 2;
	(void)open_and_connect(&theirs);
	ck_assert_uint_eq(fake_param().responder_resources, 2);
	ck_assert_uint_eq(fake_qp_attr().max_dest_rd_atomic, 2);
}
END_TEST

START_TEST(reg_mr__is_relaxed_only_by_option)
{
	open_with_options();
	(void)mr_new(session_new(0));
	ck_assert(!(fake_access() & IBV_ACCESS_RELAXED_ORDERING));
	devices[0].rdma_options.relaxed_ordering = 1;
	open_with_options();
	(void)mr_new(session_new(0));
	ck_assert(fake_access() & IBV_ACCESS_RELAXED_ORDERING);
	(void)mr_new(session_new(1));
	ck_assert(!(fake_access() & IBV_ACCESS_RELAXED_ORDERING));
}
END_TEST

START_TEST(address_option__is_the_only_one_served)
{
	devices[0].address =
		(struct fabric_address){ .family = 6, .bytes = { 0xfd, [15] = 1 } };
	open_with_options();
	ck_assert_uint_eq(SERVER->n_endpoints(server), 2);
	ck_assert_str_eq(SERVER->endpoint(server, 1)->device, "fake0");
	ck_assert_uint_eq(SERVER->endpoint(server, 1)->address.family, 6);
	ck_assert_str_eq(SERVER->endpoint(server, 0)->device, "fake1");
	devices[0].address.bytes[15] = 2;
	open_with_options();
	expect_one_endpoint("fake1");
}
END_TEST

START_TEST(port_option__is_the_only_one_served)
{
	devices[0].port = 1;
	open_with_options();
	ck_assert_uint_eq(SERVER->n_endpoints(server), 2);
	devices[0].port = 2;
	open_with_options();
	expect_one_endpoint("fake1");
}
END_TEST

START_TEST(options__in_effect_are_shown)
{
	const struct fabric_device_attr *attr;
	struct fabric_port_attr port;

	devices[0].rdma_options.mtu = 4096;
	devices[0].rdma_options.rd_atomic = 3;
	devices[1].rdma_options.mtu = 512;
	devices[1].rdma_options.traffic_class = 8;
	open_with_options();
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), 0);
	ck_assert_int_eq(port.rdma_options.mtu, 1024); /* the port's */
	ck_assert_int_eq(port.rdma_options.rd_atomic, 3);
	ck_assert_int_eq(port.rdma_options.traffic_class, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(port.rdma_options.retry_count, 6);
	ck_assert_int_eq(SERVER->device(server, 1, &attr, &port), 0);
	ck_assert_int_eq(port.rdma_options.mtu, 512);
	ck_assert_int_eq(port.rdma_options.rd_atomic, 8); /* the device's */
	ck_assert_int_eq(port.rdma_options.traffic_class, 8);
	verbs_fake.iwarp = true;
	open_with_options();
	ck_assert_int_eq(SERVER->device(server, 1, &attr, &port), 0);
	ck_assert_int_eq(port.rdma_options.mtu, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(port.rdma_options.retry_count, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(port.rdma_options.traffic_class, 8);
}
END_TEST

START_TEST(iwarp__queue_pair_is_modified_by_the_kernel)
{
	struct rdma_cm_id *id;

	verbs_fake.iwarp = true;
	devices[0].rdma_options.mtu = 256;
	open_with_options();
	id = channel_new(session_new(0), 1);
	ck_assert_int_eq(id->qp->state, IBV_QPS_INIT);
	ck_assert_uint_eq(fake_param().private_data_len, 0);
}
END_TEST

START_TEST(channel__is_refused_when_its_queue_pair_fails)
{
	struct fabric_session *session;
	struct rdma_cm_id *id;
	unsigned n = 1;

	open_with_options();
	session = session_new(0);
	/* calls: queue pair, registration, eight receives, INIT, RTR and RTS of two
	 * calls each, the access, and the answer; calls of another thread count too: if the
	 * failure hits one the call is tried once more, if it hits none n is too high */
	for (unsigned i = 1; i <= 400; i++) {
		fake_fail_at(n);
		seen.admitted = session;
		id = request(1, i);
		if (fake_request_state(id) == FAKE_ACCEPTED) {
			n -= !fake_failed();
			fake_fail_at(0);
			/* so that it is not pending: their number is limited */
			fake_event(id, RDMA_CM_EVENT_ESTABLISHED);
			SERVER->process(server);
			continue;
		}
		n++;
		ck_assert(fake_failed());
		ck_assert_str_ne(seen.why, "");
		if (!strcmp(fake_failed_call(), "rdma_accept"))
			break;
	}
	ck_assert_str_eq(fake_failed_call(), "rdma_accept");
	/* what would fail after the answer could not be refused any more */
	fake_fail_at(n);
	seen.admitted = session;
	ck_assert_int_eq(fake_request_state(request(1, 500)), FAKE_ACCEPTED);
	fake_fail_at(0);
	SERVER->session_close(session);
	ck_assert_uint_eq(live_qps(), 0);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("options", NULL, server_close);

	tcase_add_loop_test(tcase, mtu__is_the_lowest_of_both_sides_and_the_path, 0,
			    COUNT(mtus));
	tcase_add_loop_test(tcase, retries__are_the_lower_of_both_sides, 0,
			    COUNT(retries));
	tcase_add_test(tcase, options__mark_packets);
	tcase_add_test(tcase, rd_atomic__is_the_lowest_of_option_device_and_peer);
	tcase_add_test(tcase, reg_mr__is_relaxed_only_by_option);
	tcase_add_test(tcase, address_option__is_the_only_one_served);
	tcase_add_test(tcase, port_option__is_the_only_one_served);
	tcase_add_test(tcase, options__in_effect_are_shown);
	tcase_add_test(tcase, iwarp__queue_pair_is_modified_by_the_kernel);
	tcase_add_test(tcase, channel__is_refused_when_its_queue_pair_fails);
	return unit_main();
}
