/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding and decoding of the hello of a channel. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "fabric/hello.h"
#include "unit/unit.h"

static const struct fabric_hello example = {
	.session = UINT64_C(0x1122334455667788),
	.channel = UINT32_C(0x99aabbcc),
	.token = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
	.origin = { 17, 18, 19, 20, 21, 22, 23, 24 },
};

START_TEST(hello__decodes_to_equal_values)
{
	/* rdma_cm pads private data */
	uint8_t buf[56];
	struct fabric_hello back;

	memset(buf, 0xff, sizeof(buf));
	fabric_hello_encode(&example, buf);
	ck_assert_int_eq(fabric_hello_decode(buf, sizeof(buf), &back), 0);
	ck_assert_uint_eq(back.session, example.session);
	ck_assert_uint_eq(back.channel, example.channel);
	ck_assert_mem_eq(back.token, example.token, FABRIC_TOKEN_BYTES);
	ck_assert_mem_eq(back.origin, example.origin, FABRIC_ORIGIN_BYTES);
	ck_assert_uint_eq(back.peer.family, 0);
	ck_assert_int_eq(fabric_hello_decode(buf, FABRIC_HELLO_BYTES, &back), 0);
	ck_assert_uint_eq(buf[FABRIC_HELLO_BYTES], 0xff);
}
END_TEST

START_TEST(hello__encodes_to_fixed_bytes)
{
	static const uint8_t bytes[FABRIC_HELLO_BYTES] = {
		'r',  'm',  'm',  'h',  44,   0,    1,    0,    0x88, 0x77, 0x66,
		0x55, 0x44, 0x33, 0x22, 0x11, 0xcc, 0xbb, 0xaa, 0x99, 1,    2,
		3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,
		14,   15,   16,   17,   18,   19,   20,   21,   22,   23,   24,
	};
	uint8_t buf[FABRIC_HELLO_BYTES];

	fabric_hello_encode(&example, buf);
	ck_assert_mem_eq(buf, bytes, sizeof(bytes));
}
END_TEST

START_TEST(hello__too_short_is_refused)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	struct fabric_hello back = { .channel = 7 };

	fabric_hello_encode(&example, buf);
	for (size_t bytes = 0; bytes < sizeof(buf); bytes++)
		ck_assert_int_eq(fabric_hello_decode(buf, bytes, &back), -EPROTO);
	ck_assert_uint_eq(back.channel, 7);
}
END_TEST

/* Every byte of magic, length and version counts. */
START_TEST(hello__with_another_header_is_refused)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	struct fabric_hello back = { .channel = 7 };

	fabric_hello_encode(&example, buf);
	buf[_i] ^= 1;
	ck_assert_int_eq(fabric_hello_decode(buf, sizeof(buf), &back), -EPROTO);
	ck_assert_str_ne(err_text(), "");
	ck_assert_uint_eq(back.channel, 7);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("hello", NULL, NULL);

	tcase_add_test(tcase, hello__decodes_to_equal_values);
	tcase_add_test(tcase, hello__encodes_to_fixed_bytes);
	tcase_add_test(tcase, hello__too_short_is_refused);
	tcase_add_loop_test(tcase, hello__with_another_header_is_refused, 0, 8);
	return unit_main();
}
