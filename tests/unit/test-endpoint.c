/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "rmemd/control/endpoint.h"
#include "unit.h"

#define AWAY UINT64_C(1)

/* What each endpoint's device registers at once. */
static uint64_t devices[4];

static int device(const struct fabric_server *server, unsigned endpoint,
		  const struct fabric_abilities **ret_abilities,
		  struct fabric_port *ret_port)
{
	static struct fabric_abilities abilities[4];

	(void)server;
	if (devices[endpoint] == AWAY)
		return -ENODEV;
	abilities[endpoint].max_mr_bytes = devices[endpoint];
	*ret_abilities = &abilities[endpoint];
	*ret_port = (struct fabric_port){ 0 };
	return 0;
}

static const struct fabric_server_ops rdma = { .name = "verbs", .device = device };
static const struct fabric_server_ops tcp = { .name = "tcp" };

static const struct {
	unsigned n;
	uint64_t devices[4];
	uint64_t max;
} hosts[] = {
	{ 0, { 0 }, 0 },
	{ 1, { UINT64_MAX }, UINT64_MAX },
	{ 3, { 1 << 30, 1 << 20, UINT64_MAX }, 1 << 20 },
	/* one that does not tell limits nothing, nor does one that is not there */
	{ 3, { 0, AWAY, 1 << 30 }, 1 << 30 },
	{ 2, { 0, AWAY }, 0 },
};

START_TEST(segment_max__is_that_of_the_least_device)
{
	struct endpoints endpoints = { .at = { { .ops = &tcp } },
				       .n = hosts[_i].n + 1 };

	for (unsigned i = 0; i < hosts[_i].n; i++) {
		devices[i] = hosts[_i].devices[i];
		endpoints.at[i + 1] = (struct endpoint){ .ops = &rdma, .local = i };
	}
	ck_assert_uint_eq(endpoints_segment_max(&endpoints), hosts[_i].max);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("endpoint");
	TCase *tc = tcase_create("endpoint");

	tcase_add_loop_test(tc, segment_max__is_that_of_the_least_device, 0,
			    sizeof(hosts) / sizeof(hosts[0]));
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
