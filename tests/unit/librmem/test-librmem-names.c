/* SPDX-License-Identifier: BSD-3-Clause */
/* How a session is named at the server, how it names its devices, and the names of leases. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/librmem/core-case.h"

/* Programs whose names are too long or no text, and what is left of them. */
static const struct {
	const char *program, *left;
} programs[] = {
	{ "short", "short" },
	/* the limit is within the last character */
	{ "abcdefghijklmnopqrstuvwxyzabcdefghijklm\xc3\xa9",
	  "abcdefghijklmnopqrstuvwxyzabcdefghijklm" },
	{ "abcdefghijklmnopqrstuvwxyzabcdefghijkl\xc3\xa9",
	  "abcdefghijklmnopqrstuvwxyzabcdefghijkl\xc3\xa9" },
	{ "abcdefghijklmnopqrstuvwxyzabcdefghijkl\xe2\x82\xac-long",
	  "abcdefghijklmnopqrstuvwxyzabcdefghijkl" },
	{ "latin1\xe9", "" },
	{ "two\nlines", "" },
};

START_TEST(open__accepts_any_name_of_the_program)
{
	char expected[80];

	/* cppcheck-suppress unreadVariable ; the library reads the C library's variable */
	program_invocation_short_name = (char *)(uintptr_t)programs[_i].program;
	open_with(0);
	(void)snprintf(expected, sizeof(expected), "%s[%ld]", programs[_i].left,
		       (long)getpid());
	ck_assert_str_eq(proxy.last[WIRE_TYPE_hello].hello.client, expected);
}
END_TEST

/* A name that is part of another is a device of its own; a device is listed once. */
START_TEST(info__lists_every_device_once)
{
	serve_devices(3);
	/* the fake server tells equal devices apart only if they are connected directly */
	for (unsigned i = 1; i <= 3; i++)
		fake_endpoints[i].flags |= FABRIC_ENDPOINT_DIRECT;
	(void)strcpy(fake_endpoints[1].device, "mlx5_10");
	(void)strcpy(fake_endpoints[2].device, "mlx5_1");
	(void)strcpy(fake_endpoints[3].device, "mlx5_10");
	server_restart();
	(void)strcat(stage.uri, "?channels=3");
	open_over(0, RMEM_FABRIC_RDMA);
	ck_assert_str_eq(info().device, "mlx5_10,mlx5_1");
}
END_TEST

static int alloc_or_attach(const char *name, rmem_lease **ret_lease)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();

	params.bytes = 4000;
	params.name = name;
	params.flags = RMEM_ALLOC_ATTACH;
	return rmem_alloc(stage.client, &params, ret_lease);
}

START_TEST(alloc__attaches_the_lease_that_has_the_name)
{
	rmem_lease *lease, *again = NULL;
	uint64_t id;

	open_with(0);
	ck_assert_int_eq(alloc_or_attach("shared", &lease), 0);
	id = rmem_lease_id(lease);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 4000);
	ck_assert_int_eq(rmem_grow(lease, 5000), 0);
	/* this session has it already */
	ck_assert_int_eq(alloc_or_attach("shared", &again), 1);
	ck_assert_ptr_eq(again, lease);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_detach(again), 0);
	ck_assert_int_eq(alloc_or_attach("shared", &lease), 1);
	ck_assert_uint_eq(rmem_lease_id(lease), id);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 5000);
	ck_assert_int_eq(rmem_write(lease, 4500, stage.buf, 8), 0);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	ck_assert_int_eq(alloc_or_attach("shared", &lease), 0);
	ck_assert_uint_ne(rmem_lease_id(lease), id);
}
END_TEST

/* Between the two requests another session removes the lease. */
START_TEST(alloc__tries_again_if_the_lease_ends_meanwhile)
{
	rmem_lease *lease;

	open_with(0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "shared")), 0);
	proxy_fail(WIRE_TYPE_attach, ENOENT, 0);
	ck_assert_int_eq(alloc_or_attach("shared", &lease), 1);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_allocate], 3);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_attach], 2);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 1000);
}
END_TEST

/* It is being granted to another session, and the client does not take the server's time for it:
 * its pauses are of 10, 20, 40, and then 80 ms at least. */
START_TEST(alloc__pauses_between_attempts)
{
	rmem_lease *lease;

	open_with(0);
	ck_assert_int_eq(rmem_detach(alloc(1000, "shared")), 0);
	(void)rmem_thread_timeout(1000);
	proxy_fail(WIRE_TYPE_attach, ENOENT, UINT_MAX);
	ck_assert_int_eq(alloc_or_attach("shared", &lease), -EBUSY);
	ck_assert_uint_le(proxy.seen[WIRE_TYPE_attach], 20);
}
END_TEST

START_TEST(alloc__refuses_wrong_flags)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	open_with(0);
	ck_assert_int_eq(alloc_or_attach(NULL, &lease), -EINVAL);
	ck_assert_msg(strstr(rmem_error(), "no name"), "%s", rmem_error());
	params.name = "a";
	params.flags = RMEM_ALLOC_ATTACH << 1;
	ck_assert_int_eq(rmem_alloc(stage.client, &params, &lease), -EINVAL);
	ck_assert_msg(strstr(rmem_error(), "flags 0x2"), "%s", rmem_error());
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_allocate], 0);
}
END_TEST

START_TEST(lease_name__is_copied)
{
	char name[RMEM_NAME_MAX + 1], longest[RMEM_NAME_MAX + 1];
	rmem_lease *lease, *other;

	open_with(0);
	lease = alloc(1000, NULL);
	(void)strcpy(name, "old");
	ck_assert_uint_eq(rmem_lease_name(lease, name, sizeof(name)), 0);
	ck_assert_str_eq(name, "");
	ck_assert_int_eq(rmem_rename(lease, "first", 0), 0);
	ck_assert_uint_eq(rmem_lease_name(lease, name, sizeof(name)), 5);
	ck_assert_str_eq(name, "first");
	ck_assert_uint_eq(rmem_lease_name(lease, NULL, 0), 5);
	ck_assert_uint_eq(rmem_lease_name(lease, name, 3), 5);
	ck_assert_str_eq(name, "fi");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	other = alloc(1000, longest);
	ck_assert_uint_eq(rmem_lease_name(other, name, sizeof(name)), RMEM_NAME_MAX);
	ck_assert_str_eq(name, longest);
}
END_TEST

START_TEST(open__takes_the_server_from_the_environment)
{
	ck_assert_int_eq(setenv("RMEM_SERVER", stage.uri + strlen("rmem://"), 1), 0);
	ck_assert_int_eq(rmem_open(NULL, NULL, &stage.client), 0);
	ck_assert_uint_eq(proxy.connections, 1);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("names");

	tcase_add_loop_test(tc, open__accepts_any_name_of_the_program, 0,
			    sizeof(programs) / sizeof(programs[0]));
	tcase_add_test(tc, info__lists_every_device_once);
	tcase_add_test(tc, open__takes_the_server_from_the_environment);
	tcase_add_test(tc, alloc__attaches_the_lease_that_has_the_name);
	tcase_add_test(tc, alloc__tries_again_if_the_lease_ends_meanwhile);
	tcase_add_test(tc, alloc__pauses_between_attempts);
	tcase_add_test(tc, alloc__refuses_wrong_flags);
	tcase_add_test(tc, lease_name__is_copied);
	return unit_main();
}
