/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band requests of a hostile client of the tcp fabric; host_close() checks that no
 * byte outside of the mr was written. */
#include <endian.h>
#include <string.h>

#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "unit/unit.h"

START_TEST(request__malformed_ends_the_stream)
{
	static const struct {
		uint32_t op, bytes;
	} invalid[] = {
		{ FABRIC_PING, 1 },
		{ FABRIC_NOTIFY, 1 },
		{ FABRIC_NOTIFY, UINT32_MAX },
		{ FABRIC_FILL, 0 },
		{ FABRIC_COPY, 0 },
		{ FABRIC_CRC, 0 },
		{ FABRIC_FILL, FABRIC_INBAND_BYTES_MAX + 1 },
		{ FABRIC_COPY, FABRIC_INBAND_BYTES_MAX + 1 },
		{ FABRIC_CRC, UINT32_MAX },
		{ FABRIC_NOTIFY + 1, 8 },
		{ FABRIC_PING | 1u << 16, 0 },
	};
	int fd = raw_channel_open();
	struct inband_request request =
		inband_make(invalid[_i].op, 0, invalid[_i].bytes, 1);

	raw_send(fd, &request, sizeof(request));
	raw_expect_end(fd);
	raw_close_await(fd, 1);
	ck_assert_msg(strstr(seen.why, "in-band") || strstr(seen.why, "unknown"), "%s",
		      seen.why);
	host_check_serves();
}
END_TEST

START_TEST(request__out_of_bounds_is_refused)
{
	static const struct {
		uint64_t offset;
		uint32_t bytes;
	} wrong[] = {
		{ UINT64_MAX, 1 },
		{ UINT64_MAX, 2 },
		{ MIDDLE, 1 },
		{ MIDDLE - 1, 2 },
		{ UINT64_MAX - 7, 16 },
		{ MIDDLE - FABRIC_INBAND_BYTES_MAX + 1, FABRIC_INBAND_BYTES_MAX },
	};
	int fd = raw_channel_open();
	struct inband_request request;

	for (unsigned i = 0; i < 6; i++)
		for (uint32_t op = FABRIC_FILL; op <= FABRIC_CRC; op++) {
			request = inband_make(op, wrong[i].offset, wrong[i].bytes, i);
			raw_send(fd, &request, sizeof(request));
			raw_expect(fd, FABRIC_OUTSIDE, 0, i);
		}
	/* also as the source of a copy */
	for (unsigned i = 0; i < 6; i++) {
		request = inband_make(FABRIC_COPY, 0, wrong[i].bytes, i);
		request.operands.source_addr =
			inband_make(FABRIC_COPY, wrong[i].offset, 0, 0).addr;
		raw_send(fd, &request, sizeof(request));
		raw_expect(fd, FABRIC_OUTSIDE, 0, i);
		request = inband_make(FABRIC_COPY, 0, 8, i);
		request.operands.source_rkey ^= 1;
		raw_send(fd, &request, sizeof(request));
		raw_expect(fd, FABRIC_STALE, 0, i);
	}
	raw_close_await(fd, 1);
}
END_TEST

START_TEST(request__may_arrive_in_parts)
{
	struct inband_request two[2] = {
		inband_make(FABRIC_FILL, 0, 100, 1),
		inband_make(FABRIC_COPY, 1000, 100, 2),
	};
	const char *bytes = (const char *)two;
	int fd = raw_channel_open();

	for (size_t at = 0; at < sizeof(two); at += 8)
		raw_send(fd, bytes + at, 8);
	(void)raw_expect_word(fd, 1);
	(void)raw_expect_word(fd, 2);
	ck_assert(bytes_equal(host.memory, 100, 0x77));
	ck_assert(bytes_equal(host.memory + 1000, 100, 0x77));
	raw_close_await(fd, 1);
}
END_TEST

/* The result of an overlapping copy is undefined, but no other byte is written. */
START_TEST(copy__of_ranges_that_overlap_stays_inside)
{
	struct inband_request request = inband_make(FABRIC_COPY, 1, 4096, 1);
	int fd = raw_channel_open();

	memset(host.memory, 1, 4097);
	raw_send(fd, &request, sizeof(request));
	(void)raw_expect_word(fd, 1);
	ck_assert(bytes_equal(host.memory, 4097, 1));
	raw_close_await(fd, 1);
}
END_TEST

/* Each process() delivers the notifications of one memory region. */
START_TEST(notifications__are_delivered_in_turns)
{
	struct fabric_key keys[3];
	struct inband_request request;
	int fd = raw_channel_open();

	host_await(&seen.ups, 1);
	for (unsigned i = 0; i < 3; i++) {
		if (i > 0)
			host_register();
		keys[i] = seen.key;
	}
	for (unsigned i = 0; i < 3; i++) {
		seen.key = keys[i];
		request = inband_make(FABRIC_NOTIFY, 0, 0, i);
		raw_send(fd, &request, sizeof(request));
	}
	/* the server delivers nothing until the next process() */
	for (unsigned i = 0; i < 3; i++)
		(void)raw_expect_word(fd, i);
	seen.notified_ms = 20;
	for (unsigned i = 1; i <= 3; i++) {
		host_process_next();
		ck_assert_uint_eq(seen.notified, i);
	}
	seen.notified_ms = 0;
	raw_close_await(fd, 1);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("inband", host_open, host_close);

	tcase_add_loop_test(tcase, request__malformed_ends_the_stream, 0, 11);
	tcase_add_test(tcase, request__out_of_bounds_is_refused);
	tcase_add_test(tcase, request__may_arrive_in_parts);
	tcase_add_test(tcase, copy__of_ranges_that_overlap_stays_inside);
	tcase_add_test(tcase, notifications__are_delivered_in_turns);
	return unit_main();
}
