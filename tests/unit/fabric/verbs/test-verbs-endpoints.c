/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of devices and ports that the server reports. */
#include <errno.h>
#include <string.h>

#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

static const struct fabric_device_attr *attr;
static struct fabric_port_attr port;

static void open_and_query(void)
{
	server_open();
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), 0);
}

static const struct {
	bool iwarp, infiniband;
	enum ibv_atomic_cap atomics;
	enum fabric_transport transport;
	enum fabric_atomics wanted;
	bool write_immediate;
} kinds[] = {
	{ false, false, IBV_ATOMIC_NONE, FABRIC_ROCE, FABRIC_ATOMICS_NONE, true },
	{ false, false, IBV_ATOMIC_HCA, FABRIC_ROCE, FABRIC_ATOMICS_DEVICE, true },
	{ false, true, IBV_ATOMIC_GLOB, FABRIC_INFINIBAND, FABRIC_ATOMICS_GLOBAL,
	  true },
	/* iWARP has none, although the driver reports atomics */
	{ true, false, IBV_ATOMIC_HCA, FABRIC_IWARP, FABRIC_ATOMICS_NONE, false },
};

START_TEST(device_attr__depends_on_the_transport)
{
	verbs_fake.iwarp = kinds[_i].iwarp;
	verbs_fake.infiniband = kinds[_i].infiniband;
	verbs_fake.atomics = kinds[_i].atomics;
	open_and_query();
	ck_assert_int_eq(attr->transport, kinds[_i].transport);
	ck_assert_int_eq(attr->atomics, kinds[_i].wanted);
	ck_assert(attr->write_immediate == kinds[_i].write_immediate);
}
END_TEST

START_TEST(device_attr__is_what_the_driver_reports)
{
	open_and_query();
	ck_assert_uint_eq(attr->max_qp, 11);
	ck_assert_uint_eq(attr->max_qp_wr, 128);
	ck_assert_uint_eq(attr->max_sge, 12);
	ck_assert_uint_eq(attr->max_cq, 13);
	ck_assert_uint_eq(attr->max_cqe, 1000);
	ck_assert_uint_eq(attr->max_mr, 14);
	ck_assert_uint_eq(attr->max_mr_bytes, 1u << 30);
	ck_assert_uint_eq(attr->responder_resources, 8);
	ck_assert_uint_eq(attr->initiator_depth, 128);
	ck_assert(!attr->on_demand_paging);
}
END_TEST

static const uint32_t inlines[] = { 0, 1, 64, 220, 476, 4096 };

START_TEST(device_attr__finds_the_inline_limit)
{
	verbs_fake.max_inline = inlines[_i];
	open_and_query();
	ck_assert_uint_eq(attr->inline_bytes, inlines[_i]);
	ck_assert_uint_eq(live_qps(), 0);
}
END_TEST

START_TEST(device_attr__probes_relaxed_ordering)
{
	open_and_query();
	ck_assert(attr->relaxed_ordering);
	ck_assert(fake_access() & IBV_ACCESS_RELAXED_ORDERING);
	server_close();
	verbs_fake.reg_error = EOPNOTSUPP;
	open_and_query();
	ck_assert(!attr->relaxed_ordering);
}
END_TEST

START_TEST(port__is_queried_each_time)
{
	open_and_query();
	ck_assert_uint_eq(port.number, 1);
	ck_assert_str_eq(port.state, "active");
	ck_assert_uint_eq(port.active_mtu, 1024);
	ck_assert_uint_eq(port.max_mtu, 4096);
	verbs_fake.port_down[0] = true;
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), 0);
	ck_assert_str_eq(port.state, "down");
	fake_fail_at(1);
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), 0);
	ck_assert_str_eq(fake_failed_call(), "ibv_query_port");
	ck_assert_ptr_null(port.state);
	ck_assert_uint_eq(port.active_mtu, 0);
}
END_TEST

START_TEST(gids__served_have_the_address_of_the_endpoint)
{
	open_and_query();
	ck_assert_uint_eq(port.n_gids, 4);
	ck_assert_uint_eq(port.gids_more, 0);
	for (unsigned i = 0; i < port.n_gids; i++) {
		ck_assert_uint_eq(port.gids[i].index, i);
		ck_assert(port.gids[i].served == (i == 2));
	}
	ck_assert_str_eq(port.gids[1].type, "RoCE v1");
	ck_assert_str_eq(port.gids[2].type, "RoCE v2");
	server_close();
	ck_assert_int_eq(
		server_try_open((struct fabric_server_params){
			.listen = { .family = 6, .bytes = { 0xfd, [15] = 1 } } }),
		0);
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), 0);
	ck_assert(!port.gids[2].served && port.gids[3].served);
}
END_TEST

START_TEST(gids__are_limited_to_the_array)
{
	verbs_fake.extra_gids = FABRIC_GIDS_MAX;
	open_and_query();
	ck_assert_uint_eq(port.n_gids, FABRIC_GIDS_MAX);
	ck_assert_uint_eq(port.gids_more, 4);
}
END_TEST

START_TEST(device__removed_gives_enodev)
{
	open_and_query();
	fake_event(NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	SERVER->process(server);
	ck_assert_int_eq(SERVER->device(server, 0, &attr, &port), -ENODEV);
	ck_assert_int_eq(SERVER->device(server, 1, &attr, &port), 0);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("endpoints", NULL, server_close);

	tcase_add_loop_test(tcase, device_attr__depends_on_the_transport, 0,
			    COUNT(kinds));
	tcase_add_test(tcase, device_attr__is_what_the_driver_reports);
	tcase_add_loop_test(tcase, device_attr__finds_the_inline_limit, 0,
			    COUNT(inlines));
	tcase_add_test(tcase, device_attr__probes_relaxed_ordering);
	tcase_add_test(tcase, port__is_queried_each_time);
	tcase_add_test(tcase, gids__served_have_the_address_of_the_endpoint);
	tcase_add_test(tcase, gids__are_limited_to_the_array);
	tcase_add_test(tcase, device__removed_gives_enodev);
	return unit_main();
}
