/* SPDX-License-Identifier: BSD-3-Clause */
/* How a session is named at the server, and how it names its devices. */
#include <errno.h>
#include <stdio.h>
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
	(void)strcat(uri, "?channels=3");
	open_over(0, RMEM_FABRIC_RDMA);
	ck_assert_str_eq(info().device, "mlx5_10,mlx5_1");
}
END_TEST

int main(void)
{
	TCase *tc = core_case("names");

	tcase_add_loop_test(tc, open__accepts_any_name_of_the_program, 0,
			    sizeof(programs) / sizeof(programs[0]));
	tcase_add_test(tc, info__lists_every_device_once);
	return unit_main();
}
