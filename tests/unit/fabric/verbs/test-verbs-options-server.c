/* SPDX-License-Identifier: BSD-3-Clause */
/* How the server's devices are used as its parameters say. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "fabric/verbs/common/qp_limits.h"
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

static void open_knobs(void)
{
	ck_assert_int_eq(open_with((struct fabric_server_params){
				 .device_params = devices, .n_device_params = 2 }),
			 0);
}

/* A channel whose peer has these terms; what the server has settled. */
static struct verbs_qp_limits settle(const struct verbs_qp_limits *theirs)
{
	struct fabric_hello hello = { .session = 1, .channel = 1 };
	uint8_t buf[FABRIC_HELLO_BYTES + VERBS_QP_LIMITS_BYTES];
	struct rdma_conn_param param;
	struct rdma_cm_id *id;

	seen.admitted = session_new(0);
	fabric_hello_encode(&hello, buf);
	verbs_qp_limits_encode(theirs, buf + FABRIC_HELLO_BYTES);
	id = fake_request(0, buf, sizeof(buf));
	SERVER->process(server);
	ck_assert_int_eq(fake_fate(id), FAKE_ACCEPTED);
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
	unsigned settled;
	enum ibv_mtu mtu;
} mtus[] = {
	/* the path's is 2048 */
	{ FABRIC_OPTION_AUTO, UINT16_MAX, 2048, IBV_MTU_2048 },
	{ 4096, 4096, 2048, IBV_MTU_2048 },
	{ 1024, UINT16_MAX, 1024, IBV_MTU_1024 },
	{ FABRIC_OPTION_AUTO, 512, 512, IBV_MTU_512 },
	{ 1024, 256, 256, IBV_MTU_256 },
	{ 256, 1024, 256, IBV_MTU_256 },
	/* what no peer of ours says */
	{ FABRIC_OPTION_AUTO, 1500, 1024, IBV_MTU_1024 },
	{ FABRIC_OPTION_AUTO, 0, 256, IBV_MTU_256 },
};

START_TEST(mtu__is_the_least_of_both_and_the_path)
{
	const struct verbs_qp_limits theirs = { mtus[_i].theirs, 6, 6 };

	devices[0].rdma_options.mtu = mtus[_i].ours;
	open_knobs();
	ck_assert_uint_eq(settle(&theirs).mtu, mtus[_i].settled);
	ck_assert_int_eq(fake_driven().path_mtu, mtus[_i].mtu);
	close_all();
}
END_TEST

static const struct {
	uint8_t ours, theirs, settled;
} retries[] = {
	{ 6, 6, 6 },
	{ 3, 6, 3 },
	{ 6, 2, 2 },
	{ 0, 6, 0 },
	/* never for ever, whatever the peer says */
	{ 6, 7, 6 },
};

START_TEST(retries__are_the_least_of_both)
{
	struct verbs_qp_limits theirs = { UINT16_MAX, retries[_i].theirs, 6 }, settled;

	devices[0].rdma_options.retry_count = retries[_i].ours;
	open_knobs();
	settled = settle(&theirs);
	ck_assert_uint_eq(settled.retry_count, retries[_i].settled);
	ck_assert_uint_eq(settled.rnr_retry_count, 6);
	ck_assert_uint_eq(fake_driven().retry_cnt, retries[_i].settled);
	close_all();
	theirs = (struct verbs_qp_limits){ UINT16_MAX, 6, retries[_i].theirs };
	devices[0].rdma_options.retry_count = 6;
	devices[0].rdma_options.rnr_retry_count = retries[_i].ours;
	open_knobs();
	settled = settle(&theirs);
	ck_assert_uint_eq(settled.rnr_retry_count, retries[_i].settled);
	ck_assert_uint_eq(fake_driven().rnr_retry, retries[_i].settled);
	ck_assert_uint_eq(fake_param().rnr_retry_count, retries[_i].settled);
	close_all();
}
END_TEST

START_TEST(packets__are_marked_as_told)
{
	const struct verbs_qp_limits theirs = { UINT16_MAX, 6, 6 };

	open_knobs();
	(void)settle(&theirs);
	ck_assert_int_eq(fake_tos(), -1);
	ck_assert_uint_eq(fake_driven().ah_attr.grh.traffic_class, 0);
	ck_assert_uint_eq(fake_driven().ah_attr.sl, 0);
	ck_assert_uint_eq(fake_driven().timeout, 18); /* rdma_cm's */
	close_all();
	devices[0].rdma_options.traffic_class = 104;
	devices[0].rdma_options.service_level = 3;
	devices[0].rdma_options.ack_timeout = 12;
	open_knobs();
	(void)settle(&theirs);
	ck_assert_int_eq(fake_tos(), 104);
	ck_assert_uint_eq(fake_driven().ah_attr.grh.traffic_class, 104);
	ck_assert_uint_eq(fake_driven().ah_attr.sl, 3);
	ck_assert_uint_eq(fake_driven().timeout, 12);
	close_all();
}
END_TEST

START_TEST(rd_atomic__is_the_least_of_knob_device_and_peer)
{
	const struct verbs_qp_limits theirs = { UINT16_MAX, 6, 6 };

	/* asked for are 16, the device has 8 */
	open_knobs();
	(void)settle(&theirs);
	ck_assert_uint_eq(fake_param().responder_resources, 8);
	ck_assert_uint_eq(fake_driven().max_dest_rd_atomic, 8);
	ck_assert_uint_eq(fake_driven().max_rd_atomic, 0);
	close_all();
	devices[0].rdma_options.rd_atomic = 2;
	open_knobs();
	(void)settle(&theirs);
	ck_assert_uint_eq(fake_param().responder_resources, 2);
	ck_assert_uint_eq(fake_driven().max_dest_rd_atomic, 2);
	close_all();
}
END_TEST

START_TEST(registrations__are_relaxed_only_when_told)
{
	struct fabric_session *session;

	open_knobs();
	session = session_new(0);
	(void)exposure_new(session);
	ck_assert(!(fake_access() & IBV_ACCESS_RELAXED_ORDERING));
	close_all();
	devices[0].rdma_options.relaxed_ordering = 1;
	open_knobs();
	session = session_new(0);
	(void)exposure_new(session);
	ck_assert(fake_access() & IBV_ACCESS_RELAXED_ORDERING);
	(void)exposure_new(session_new(1));
	ck_assert(!(fake_access() & IBV_ACCESS_RELAXED_ORDERING));
	close_all();
}
END_TEST

START_TEST(address__is_the_only_one_to_serve)
{
	devices[0].address =
		(struct fabric_address){ .family = 6, .bytes = { 0xfd, [15] = 1 } };
	open_knobs();
	ck_assert_uint_eq(SERVER->n_endpoints(server), 2);
	ck_assert_str_eq(SERVER->endpoint(server, 1)->device, "fake0");
	ck_assert_uint_eq(SERVER->endpoint(server, 1)->address.family, 6);
	ck_assert_str_eq(SERVER->endpoint(server, 0)->device, "fake1");
	close_all();
	devices[0].address.bytes[15] = 2;
	open_knobs();
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	ck_assert_str_eq(SERVER->endpoint(server, 0)->device, "fake1");
	close_all();
}
END_TEST

START_TEST(port__of_the_device_is_the_only_one_to_serve)
{
	devices[0].port = 1;
	open_knobs();
	ck_assert_uint_eq(SERVER->n_endpoints(server), 2);
	close_all();
	devices[0].port = 2;
	open_knobs();
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	ck_assert_str_eq(SERVER->endpoint(server, 0)->device, "fake1");
	close_all();
}
END_TEST

START_TEST(knobs__in_effect_are_shown)
{
	const struct fabric_device_attr *can;
	struct fabric_port_attr port;

	devices[0].rdma_options.mtu = 4096;
	devices[0].rdma_options.rd_atomic = 3;
	devices[1].rdma_options.mtu = 512;
	devices[1].rdma_options.traffic_class = 8;
	open_knobs();
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), 0);
	ck_assert_int_eq(port.rdma_options.mtu, 1024); /* the port's */
	ck_assert_int_eq(port.rdma_options.rd_atomic, 3);
	ck_assert_int_eq(port.rdma_options.traffic_class, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(port.rdma_options.retry_count, 6);
	ck_assert_int_eq(SERVER->device(server, 1, &can, &port), 0);
	ck_assert_int_eq(port.rdma_options.mtu, 512);
	ck_assert_int_eq(port.rdma_options.rd_atomic, 8); /* the device's */
	ck_assert_int_eq(port.rdma_options.traffic_class, 8);
	close_all();
	fake.iwarp = true;
	open_knobs();
	ck_assert_int_eq(SERVER->device(server, 1, &can, &port), 0);
	ck_assert_int_eq(port.rdma_options.mtu, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(port.rdma_options.retry_count, FABRIC_OPTION_AUTO);
	ck_assert_int_eq(port.rdma_options.traffic_class, 8);
	close_all();
}
END_TEST

START_TEST(iwarp__leaves_the_queue_pair_to_the_kernel)
{
	struct rdma_cm_id *id;

	fake.iwarp = true;
	devices[0].rdma_options.mtu = 256;
	open_knobs();
	id = channel_new(session_new(0), 1);
	ck_assert_int_eq(id->qp->state, IBV_QPS_INIT);
	ck_assert_uint_eq(fake_param().private_data_len, 0);
	close_all();
}
END_TEST

START_TEST(channel__that_cannot_be_driven_is_refused)
{
	struct fabric_session *session;

	open_knobs();
	session = session_new(0);
	/* queue pair, registration, eight receives, INIT, RTR and RTS of two calls each,
	 * and the answer; when it is one of a thread that is about something else, once
	 * more */
	for (unsigned i = 1, n = 1; i <= 40; i++) {
		fake_fail_at(n);
		seen.admitted = session;
		if (fake_fate(request(1, i)) == FAKE_ACCEPTED)
			continue;
		n++;
		ck_assert(fake_failed());
		ck_assert_str_ne(seen.why, "");
		if (!strcmp(fake_failed_call(), "rdma_accept"))
			break;
	}
	ck_assert_str_eq(fake_failed_call(), "rdma_accept");
	fake_fail_at(0);
	SERVER->session_close(session);
	ck_assert_uint_eq(fake_live_qps(), 0);
	close_all();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-knobs-server");
	TCase *tcase = tcase_create("knobs");

	tcase_add_loop_test(tcase, mtu__is_the_least_of_both_and_the_path, 0,
			    sizeof(mtus) / sizeof(mtus[0]));
	tcase_add_loop_test(tcase, retries__are_the_least_of_both, 0,
			    sizeof(retries) / sizeof(retries[0]));
	tcase_add_test(tcase, packets__are_marked_as_told);
	tcase_add_test(tcase, rd_atomic__is_the_least_of_knob_device_and_peer);
	tcase_add_test(tcase, registrations__are_relaxed_only_when_told);
	tcase_add_test(tcase, address__is_the_only_one_to_serve);
	tcase_add_test(tcase, port__of_the_device_is_the_only_one_to_serve);
	tcase_add_test(tcase, knobs__in_effect_are_shown);
	tcase_add_test(tcase, iwarp__leaves_the_queue_pair_to_the_kernel);
	tcase_add_test(tcase, channel__that_cannot_be_driven_is_refused);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
