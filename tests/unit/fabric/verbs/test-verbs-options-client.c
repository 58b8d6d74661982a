/* SPDX-License-Identifier: BSD-3-Clause */
/* How a client's devices are used as its parameters say. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs/common/qp_limits.h"
#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-fake.h"

#define CLIENT (&fabric_verbs_client)

static const struct fabric_endpoint endpoint = {
	.kind = FABRIC_VERBS,
	.address = { .family = 4, .bytes = { 10, 1, 0, 1 }, .port = 7000 },
};
static struct fabric_client_params params = FABRIC_CLIENT_PARAMS_INIT;
static struct fabric_domain *domain;
static struct fabric_cq *cq;
static struct fabric_channel *channel;
static const struct fabric_channel_params wanted = { .depth = 4, .timeout_ms = 10000 };

static int connect_with(const struct verbs_qp_limits *answer)
{
	verbs_qp_limits_encode(answer, fake.terms);
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, &params, 10000, &domain), 0);
	ck_assert_int_eq(CLIENT->cq_create(domain, 8, &cq), 0);
	return CLIENT->connect(cq, &wanted, &channel);
}

static void disconnect(void)
{
	CLIENT->channel_free(channel);
	channel = NULL;
	CLIENT->cq_free(cq);
	CLIENT->domain_close(domain);
	ck_assert_uint_eq(fake_live(), 0);
}

static const struct verbs_qp_limits any = { UINT16_MAX, 6, 6 };

START_TEST(terms__stand_behind_the_hello)
{
	struct rdma_conn_param param;
	struct verbs_qp_limits said;

	params.rdma_options.mtu = 512;
	params.rdma_options.retry_count = 4;
	params.rdma_options.rnr_retry_count = 2;
	ck_assert_int_eq(connect_with(&any), 0);
	param = fake_param();
	ck_assert_uint_eq(param.private_data_len,
			  FABRIC_HELLO_BYTES + VERBS_QP_LIMITS_BYTES);
	said = verbs_qp_limits_decode((const uint8_t *)param.private_data +
					      FABRIC_HELLO_BYTES,
				      VERBS_QP_LIMITS_BYTES);
	ck_assert_uint_eq(said.mtu, 512);
	ck_assert_uint_eq(said.retry_count, 4);
	ck_assert_uint_eq(said.rnr_retry_count, 2);
	ck_assert_uint_eq(param.retry_count, 4);
	ck_assert_uint_eq(param.rnr_retry_count, 2);
	ck_assert_uint_eq(param.qp_num, fake_last_id()->qp->qp_num);
	disconnect();
}
END_TEST

START_TEST(answer__settles_the_channel)
{
	const struct verbs_qp_limits answer = { 1024, 3, 1 };

	ck_assert_int_eq(connect_with(&answer), 0);
	ck_assert_int_eq(fake_last_id()->qp->state, IBV_QPS_RTS);
	ck_assert_int_eq(fake_driven().path_mtu, IBV_MTU_1024);
	ck_assert_uint_eq(fake_driven().retry_cnt, 3);
	ck_assert_uint_eq(fake_driven().rnr_retry, 1);
	/* rdma_cm has them from the answer */
	ck_assert_uint_eq(fake_driven().max_rd_atomic, 99);
	disconnect();
	/* never more than asked for, never for ever */
	params.rdma_options.mtu = 256;
	ck_assert_int_eq(connect_with(&(struct verbs_qp_limits){ 4096, 7, 255 }), 0);
	ck_assert_int_eq(fake_driven().path_mtu, IBV_MTU_256);
	ck_assert_uint_eq(fake_driven().retry_cnt, 6);
	ck_assert_uint_eq(fake_driven().rnr_retry, 6);
	disconnect();
}
END_TEST

START_TEST(answer__that_says_nothing_settles_nothing)
{
	memset(fake.terms, 0, sizeof(fake.terms));
	ck_assert_int_eq(verbs_qp_limits_decode(fake.terms, 8).mtu, UINT16_MAX);
	ck_assert_int_eq(verbs_qp_limits_decode(fake.terms, 3).retry_count, 6);
}
END_TEST

START_TEST(packets__are_marked_as_told)
{
	ck_assert_int_eq(connect_with(&any), 0);
	ck_assert_int_eq(fake_tos(), -1);
	ck_assert_uint_eq(fake_driven().timeout, 18);
	disconnect();
	params.rdma_options.traffic_class = 104;
	params.rdma_options.service_level = 5;
	params.rdma_options.ack_timeout = 14;
	ck_assert_int_eq(connect_with(&any), 0);
	ck_assert_int_eq(fake_tos(), 104);
	ck_assert_uint_eq(fake_driven().ah_attr.grh.traffic_class, 104);
	ck_assert_uint_eq(fake_driven().ah_attr.sl, 5);
	ck_assert_uint_eq(fake_driven().timeout, 14);
	disconnect();
}
END_TEST

static const struct {
	int option;
	unsigned asked;
} depths[] = { { FABRIC_OPTION_AUTO, 16 }, { 4, 4 }, { 64, 64 }, { 255, 128 } };

START_TEST(rd_atomic__is_asked_for_within_the_device)
{
	params.rdma_options.rd_atomic = depths[_i].option;
	ck_assert_int_eq(connect_with(&any), 0);
	ck_assert_uint_eq(fake_param().initiator_depth, depths[_i].asked);
	disconnect();
}
END_TEST

START_TEST(regions__are_relaxed_only_when_told)
{
	struct fabric_local_mr *region;
	char memory[64];

	for (int relaxed = 0; relaxed < 2; relaxed++) {
		params.rdma_options.relaxed_ordering = relaxed;
		ck_assert_int_eq(connect_with(&any), 0);
		ck_assert_int_eq(
			CLIENT->reg_mr(domain, memory, sizeof(memory), &region), 0);
		ck_assert(!(fake_access() & IBV_ACCESS_RELAXED_ORDERING) == !relaxed);
		CLIENT->dereg_mr(region);
		disconnect();
	}
}
END_TEST

START_TEST(source__is_where_the_way_begins)
{
	struct fabric_channel *second;

	ck_assert_int_eq(connect_with(&any), 0);
	/* the first channel goes the way that was found; others begin where that does */
	ck_assert_int_eq(fake_source().ss_family, AF_UNSPEC);
	ck_assert_int_eq(CLIENT->connect(cq, &wanted, &second), 0);
	ck_assert_int_eq(fake_source().ss_family, AF_INET);
	CLIENT->channel_free(second);
	disconnect();
	params.source = (struct fabric_address){ .family = 6,
						 .bytes = { 0xfd, [15] = 1 },
						 .port = 99 };
	ck_assert_int_eq(CLIENT->domain_open(&endpoint, &params, 10000, &domain), 0);
	ck_assert_int_eq(fake_source().ss_family, AF_INET6);
	CLIENT->domain_close(domain);
}
END_TEST

START_TEST(enhancements__of_the_vendor_are_passed_on)
{
	ck_assert_int_eq(connect_with(&any), 0);
	ck_assert_uint_eq(fake_ece(), 0);
	disconnect();
	fake.ece_vendor = 0x15b3;
	ck_assert_int_eq(connect_with(&any), 0);
	ck_assert_uint_eq(fake_ece(), 0x15b3);
	disconnect();
}
END_TEST

START_TEST(iwarp__leaves_the_queue_pair_to_the_kernel)
{
	fake.iwarp = true;
	params.rdma_options.mtu = 256;
	ck_assert_int_eq(connect_with(&any), 0);
	ck_assert_int_eq(fake_last_id()->qp->state, IBV_QPS_INIT);
	disconnect();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-knobs-client");
	TCase *tcase = tcase_create("knobs");

	tcase_add_test(tcase, terms__stand_behind_the_hello);
	tcase_add_test(tcase, answer__settles_the_channel);
	tcase_add_test(tcase, answer__that_says_nothing_settles_nothing);
	tcase_add_test(tcase, packets__are_marked_as_told);
	tcase_add_loop_test(tcase, rd_atomic__is_asked_for_within_the_device, 0,
			    sizeof(depths) / sizeof(depths[0]));
	tcase_add_test(tcase, regions__are_relaxed_only_when_told);
	tcase_add_test(tcase, source__is_where_the_way_begins);
	tcase_add_test(tcase, enhancements__of_the_vendor_are_passed_on);
	tcase_add_test(tcase, iwarp__leaves_the_queue_pair_to_the_kernel);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
