/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server says of its devices. */
#include <errno.h>
#include <string.h>

#include "unit/unit.h"
#include "unit/fabric/verbs/verbs-server-stage.h"

static const struct fabric_device_attr *can;
static struct fabric_port_attr port;

static void look(void)
{
	ck_assert_int_eq(open_plain(), 0);
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), 0);
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
	/* whatever the driver says */
	{ true, false, IBV_ATOMIC_HCA, FABRIC_IWARP, FABRIC_ATOMICS_NONE, false },
};

START_TEST(abilities__follow_the_transport)
{
	fake.iwarp = kinds[_i].iwarp;
	fake.infiniband = kinds[_i].infiniband;
	fake.atomics = kinds[_i].atomics;
	look();
	ck_assert_int_eq(can->transport, kinds[_i].transport);
	ck_assert_int_eq(can->atomics, kinds[_i].wanted);
	ck_assert(can->write_immediate == kinds[_i].write_immediate);
	close_all();
}
END_TEST

START_TEST(abilities__are_what_the_device_says)
{
	look();
	ck_assert_uint_eq(can->max_qp, 11);
	ck_assert_uint_eq(can->max_qp_wr, 128);
	ck_assert_uint_eq(can->max_sge, 12);
	ck_assert_uint_eq(can->max_cq, 13);
	ck_assert_uint_eq(can->max_cqe, 1000);
	ck_assert_uint_eq(can->max_mr, 14);
	ck_assert_uint_eq(can->max_mr_bytes, 1u << 30);
	ck_assert_uint_eq(can->responder_resources, 8);
	ck_assert_uint_eq(can->initiator_depth, 128);
	ck_assert(!can->on_demand_paging);
	close_all();
}
END_TEST

static const uint32_t inlines[] = { 0, 1, 64, 220, 476, 4096 };

START_TEST(abilities__find_the_most_that_goes_inline)
{
	fake.max_inline = inlines[_i];
	look();
	ck_assert_uint_eq(can->inline_bytes, inlines[_i]);
	ck_assert_uint_eq(fake_live_qps(), 0);
	close_all();
}
END_TEST

START_TEST(abilities__try_relaxed_ordering)
{
	look();
	ck_assert(can->relaxed_ordering);
	ck_assert(fake_access() & IBV_ACCESS_RELAXED_ORDERING);
	close_all();
	fake.reg_error = EOPNOTSUPP;
	look();
	ck_assert(!can->relaxed_ordering);
	close_all();
}
END_TEST

START_TEST(port__is_looked_at_each_time)
{
	look();
	ck_assert_uint_eq(port.number, 1);
	ck_assert_str_eq(port.state, "active");
	ck_assert_uint_eq(port.active_mtu, 1024);
	ck_assert_uint_eq(port.max_mtu, 4096);
	fake.port_down[0] = true;
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), 0);
	ck_assert_str_eq(port.state, "down");
	fake_fail_at(1);
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), 0);
	ck_assert_str_eq(fake_failed_call(), "ibv_query_port");
	ck_assert_ptr_null(port.state);
	ck_assert_uint_eq(port.active_mtu, 0);
	close_all();
}
END_TEST

START_TEST(gids__that_are_served_have_the_endpoints_address)
{
	look();
	ck_assert_uint_eq(port.n_gids, 4);
	ck_assert_uint_eq(port.gids_more, 0);
	for (unsigned i = 0; i < port.n_gids; i++) {
		ck_assert_uint_eq(port.gids[i].index, i);
		ck_assert(port.gids[i].served == (i == 2));
	}
	ck_assert_str_eq(port.gids[1].type, "RoCE v1");
	ck_assert_str_eq(port.gids[2].type, "RoCE v2");
	close_all();
	ck_assert_int_eq(
		open_with((struct fabric_server_params){
			.listen = { .family = 6, .bytes = { 0xfd, [15] = 1 } } }),
		0);
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), 0);
	ck_assert(!port.gids[2].served && port.gids[3].served);
	close_all();
}
END_TEST

START_TEST(gids__are_as_many_as_there_is_room)
{
	fake.more_gids = FABRIC_GIDS_MAX;
	look();
	ck_assert_uint_eq(port.n_gids, FABRIC_GIDS_MAX);
	ck_assert_uint_eq(port.gids_more, 4);
	close_all();
}
END_TEST

START_TEST(device__that_was_removed_says_so)
{
	look();
	fake_event(NULL, RDMA_CM_EVENT_DEVICE_REMOVAL);
	SERVER->process(server);
	ck_assert_int_eq(SERVER->device(server, 0, &can, &port), -ENODEV);
	ck_assert_int_eq(SERVER->device(server, 1, &can, &port), 0);
	close_all();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-devices");
	TCase *tcase = tcase_create("devices");

	tcase_add_loop_test(tcase, abilities__follow_the_transport, 0,
			    sizeof(kinds) / sizeof(kinds[0]));
	tcase_add_test(tcase, abilities__are_what_the_device_says);
	tcase_add_loop_test(tcase, abilities__find_the_most_that_goes_inline, 0,
			    sizeof(inlines) / sizeof(inlines[0]));
	tcase_add_test(tcase, abilities__try_relaxed_ordering);
	tcase_add_test(tcase, port__is_looked_at_each_time);
	tcase_add_test(tcase, gids__that_are_served_have_the_endpoints_address);
	tcase_add_test(tcase, gids__are_as_many_as_there_is_room);
	tcase_add_test(tcase, device__that_was_removed_says_so);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
