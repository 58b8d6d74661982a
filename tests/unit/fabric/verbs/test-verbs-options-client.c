/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the verbs client's devices, and the limits it agrees with the server. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs/common/qp.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

/* Open all, with a channel that the server answers with these limits; what is open is
 * closed first. */
static void connect_with(const struct verbs_qp_limits *answer)
{
	teardown();
	verbs_qp_limits_encode(answer, verbs_fake.answer_limits);
	setup();
}

static const struct verbs_qp_limits any = { UINT16_MAX, 6, 6 };

START_TEST(limits__follow_the_hello)
{
	struct rdma_conn_param param;
	struct verbs_qp_limits sent;

	params.rdma_options.mtu = 512;
	params.rdma_options.retry_count = 4;
	params.rdma_options.rnr_retry_count = 2;
	connect_with(&any);
	param = fake_param();
	ck_assert_uint_eq(param.private_data_len,
			  FABRIC_HELLO_BYTES + VERBS_QP_LIMITS_BYTES);
	sent = verbs_qp_limits_decode((const uint8_t *)param.private_data +
					      FABRIC_HELLO_BYTES,
				      VERBS_QP_LIMITS_BYTES);
	ck_assert_uint_eq(sent.mtu, 512);
	ck_assert_uint_eq(sent.retry_count, 4);
	ck_assert_uint_eq(sent.rnr_retry_count, 2);
	ck_assert_uint_eq(param.retry_count, 4);
	ck_assert_uint_eq(param.rnr_retry_count, 2);
	ck_assert_uint_eq(param.qp_num, fake_last_id()->qp->qp_num);
}
END_TEST

START_TEST(answer__limits_the_queue_pair)
{
	const struct verbs_qp_limits answer = { 1024, 3, 1 };

	connect_with(&answer);
	ck_assert_int_eq(fake_last_id()->qp->state, IBV_QPS_RTS);
	ck_assert_int_eq(fake_qp_attr().path_mtu, IBV_MTU_1024);
	ck_assert_uint_eq(fake_qp_attr().retry_cnt, 3);
	ck_assert_uint_eq(fake_qp_attr().rnr_retry, 1);
	/* rdma_cm takes it from the answer */
	ck_assert_uint_eq(fake_qp_attr().max_rd_atomic, 99);
	/* never more than the client asked for, nor without limit */
	params.rdma_options.mtu = 256;
	connect_with(&(struct verbs_qp_limits){ 4096, 7, 255 });
	ck_assert_int_eq(fake_qp_attr().path_mtu, IBV_MTU_256);
	ck_assert_uint_eq(fake_qp_attr().retry_cnt, 6);
	ck_assert_uint_eq(fake_qp_attr().rnr_retry, 6);
}
END_TEST

START_TEST(answer__empty_means_default_limits)
{
	memset(verbs_fake.answer_limits, 0, sizeof(verbs_fake.answer_limits));
	ck_assert_int_eq(verbs_qp_limits_decode(verbs_fake.answer_limits, 8).mtu,
			 UINT16_MAX);
	ck_assert_int_eq(
		verbs_qp_limits_decode(verbs_fake.answer_limits, 3).retry_count, 6);
}
END_TEST

START_TEST(options__mark_packets)
{
	connect_with(&any);
	ck_assert_int_eq(fake_tos(), -1);
	ck_assert_uint_eq(fake_qp_attr().timeout, 18);
	params.rdma_options.traffic_class = 104;
	params.rdma_options.service_level = 5;
	params.rdma_options.ack_timeout = 14;
	connect_with(&any);
	ck_assert_int_eq(fake_tos(), 104);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.grh.traffic_class, 104);
	ck_assert_uint_eq(fake_qp_attr().ah_attr.sl, 5);
	ck_assert_uint_eq(fake_qp_attr().timeout, 14);
}
END_TEST

static const struct {
	int option;
	unsigned asked;
} depths[] = { { FABRIC_OPTION_AUTO, 16 }, { 4, 4 }, { 64, 64 }, { 255, 128 } };

START_TEST(rd_atomic__is_limited_by_the_device)
{
	params.rdma_options.rd_atomic = depths[_i].option;
	connect_with(&any);
	ck_assert_uint_eq(fake_param().initiator_depth, depths[_i].asked);
}
END_TEST

START_TEST(reg_mr__is_relaxed_only_by_option)
{
	for (int relaxed = 0; relaxed < 2; relaxed++) {
		params.rdma_options.relaxed_ordering = relaxed;
		teardown();
		setup_cq();
		ck_assert(!(fake_access() & IBV_ACCESS_RELAXED_ORDERING) == !relaxed);
	}
}
END_TEST

START_TEST(source__is_the_local_address_of_the_route)
{
	struct fabric_channel *second;

	connect_with(&any);
	/* the first channel has the id that found the route; others use its local
	 * address */
	ck_assert_int_eq(fake_source().ss_family, AF_UNSPEC);
	ck_assert_int_eq(connect_one(DEPTH, &second), 0);
	ck_assert_int_eq(fake_source().ss_family, AF_INET);
	CLIENT->channel_free(second);
	teardown();
	params.source = (struct fabric_address){ .family = 6,
						 .bytes = { 0xfd, [15] = 1 },
						 .port = 99 };
	ck_assert_int_eq(open_domain(), 0);
	ck_assert_int_eq(fake_source().ss_family, AF_INET6);
}
END_TEST

START_TEST(ece__is_copied_from_the_peer)
{
	connect_with(&any);
	ck_assert_uint_eq(fake_ece(), 0);
	verbs_fake.ece_vendor = 0x15b3;
	connect_with(&any);
	ck_assert_uint_eq(fake_ece(), 0x15b3);
}
END_TEST

START_TEST(iwarp__queue_pair_is_modified_by_the_kernel)
{
	verbs_fake.iwarp = true;
	params.rdma_options.mtu = 256;
	connect_with(&any);
	ck_assert_int_eq(fake_last_id()->qp->state, IBV_QPS_INIT);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("options", NULL, teardown);

	tcase_add_test(tcase, limits__follow_the_hello);
	tcase_add_test(tcase, answer__limits_the_queue_pair);
	tcase_add_test(tcase, answer__empty_means_default_limits);
	tcase_add_test(tcase, options__mark_packets);
	tcase_add_loop_test(tcase, rd_atomic__is_limited_by_the_device, 0,
			    COUNT(depths));
	tcase_add_test(tcase, reg_mr__is_relaxed_only_by_option);
	tcase_add_test(tcase, source__is_the_local_address_of_the_route);
	tcase_add_test(tcase, ece__is_copied_from_the_peer);
	tcase_add_test(tcase, iwarp__queue_pair_is_modified_by_the_kernel);
	return unit_main();
}
