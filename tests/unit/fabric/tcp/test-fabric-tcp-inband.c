/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band requests of a client that means the server no good, byte by byte; host_close()
 * checks that nothing outside of what was exposed was touched. */
#include <endian.h>
#include <poll.h>
#include <string.h>

#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "fabric/inband.h"
#include "unit/unit.h"

static struct inband_request inband(uint32_t op, uint64_t offset, uint32_t bytes,
				    uint64_t cookie)
{
	return (struct inband_request){
		.op = htole32(op),
		.bytes = htole32(bytes),
		.rkey = htole64(host.key.rkey),
		.addr = htole64(host.key.addr + offset),
		.cookie = htole64(cookie),
		.operands = { .source_rkey = htole64(host.key.rkey),
			      .source_addr = htole64(host.key.addr),
			      .operand = 0x7777777777777777 },
	};
}

static void inband_expect(int fd, uint64_t cookie)
{
	uint64_t result;

	raw_expect(fd, STREAM_DONE, sizeof(result), cookie);
	raw_recv(fd, &result, sizeof(result));
}

START_TEST(request__that_breaks_the_rules_ends_the_stream)
{
	static const struct {
		uint32_t op, bytes;
	} broken[] = {
		{ INBAND_PING, 1 },
		{ INBAND_NOTIFY, 1 },
		{ INBAND_NOTIFY, UINT32_MAX },
		{ INBAND_FILL, 0 },
		{ INBAND_COPY, 0 },
		{ INBAND_CRC, 0 },
		{ INBAND_FILL, FABRIC_INBAND_BYTES_MAX + 1 },
		{ INBAND_COPY, FABRIC_INBAND_BYTES_MAX + 1 },
		{ INBAND_CRC, UINT32_MAX },
		{ INBAND_NOTIFY + 1, 8 },
	};
	int fd = raw_join();
	struct inband_request request = inband(broken[_i].op, 0, broken[_i].bytes, 1);

	raw_send(fd, &request, sizeof(request));
	raw_expect_end(fd);
	raw_close(fd, false);
	host_await(&host.downs, 1);
	ck_assert_msg(strstr(host.why, "in-band") || strstr(host.why, "unknown"), "%s",
		      host.why);
	host_is_well();
}
END_TEST

START_TEST(request__with_lengths_that_wrap_is_refused)
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
	int fd = raw_join();
	struct inband_request request;

	for (unsigned i = 0; i < 6; i++)
		for (uint32_t op = INBAND_FILL; op <= INBAND_CRC; op++) {
			request = inband(op, wrong[i].offset, wrong[i].bytes, i);
			raw_send(fd, &request, sizeof(request));
			raw_expect(fd, STREAM_REFUSED, 0, i);
		}
	/* the source of a copy, too */
	for (unsigned i = 0; i < 6; i++) {
		request = inband(INBAND_COPY, 0, wrong[i].bytes, i);
		request.operands.source_addr = htole64(host.key.addr + wrong[i].offset);
		raw_send(fd, &request, sizeof(request));
		raw_expect(fd, STREAM_REFUSED, 0, i);
		request = inband(INBAND_COPY, 0, 8, i);
		request.operands.source_rkey ^= 1;
		raw_send(fd, &request, sizeof(request));
		raw_expect(fd, STREAM_REFUSED, 0, i);
	}
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

START_TEST(request__may_come_in_bits)
{
	struct inband_request two[2] = {
		inband(INBAND_FILL, 0, 100, 1),
		inband(INBAND_COPY, 1000, 100, 2),
	};
	const char *bytes = (const char *)two;
	int fd = raw_join();

	for (size_t at = 0; at < sizeof(two); at += 8)
		raw_send(fd, bytes + at, 8);
	inband_expect(fd, 1);
	inband_expect(fd, 2);
	ck_assert(area_is(host.memory, 100, 0x77));
	ck_assert(area_is(host.memory + 1000, 100, 0x77));
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

/* What overlaps is the peer's own affair, as long as it stays inside. */
START_TEST(copy__of_ranges_that_overlap_stays_inside)
{
	struct inband_request request = inband(INBAND_COPY, 1, 4096, 1);
	int fd = raw_join();

	memset(host.memory, 1, 4097);
	raw_send(fd, &request, sizeof(request));
	inband_expect(fd, 1);
	ck_assert(area_is(host.memory, 4097, 1));
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

/* However many mrs have some, and however long each takes, others get their turn. */
START_TEST(notifications__leave_turns_to_others)
{
	struct pollfd server = { .fd = ops->fd(host.server), .events = POLLIN };
	struct fabric_mr *mr;
	struct fabric_key keys[3];
	struct inband_request request;
	int fd = raw_join();

	host_await(&host.ups, 1);
	for (unsigned i = 0; i < 3; i++) {
		if (i > 0)
			ck_assert_int_eq(ops->reg_mr(host.session, host.memory, MIDDLE,
						     RW, NULL, &mr),
					 0);
		host_await(&host.exposed, i + 1);
		keys[i] = host.key;
	}
	for (unsigned i = 0; i < 3; i++) {
		host.key = keys[i];
		request = inband(INBAND_NOTIFY, 0, 0, i);
		raw_send(fd, &request, sizeof(request));
	}
	/* the loop is in here, so nothing is delivered meanwhile */
	for (unsigned i = 0; i < 3; i++)
		inband_expect(fd, i);
	host.note_ms = 20;
	for (unsigned i = 1; i <= 3; i++) {
		ck_assert_int_eq(poll(&server, 1, WAIT_MS), 1);
		ops->process(host.server);
		ck_assert_uint_eq(host.notified, i);
	}
	host.note_ms = 0;
	raw_close(fd, false);
	host_await(&host.downs, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fabric-tcp-inband");
	TCase *tcase = tcase_create("inband");

	tcase_add_checked_fixture(tcase, host_open, host_close);
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, request__that_breaks_the_rules_ends_the_stream, 0,
			    10);
	tcase_add_test(tcase, request__with_lengths_that_wrap_is_refused);
	tcase_add_test(tcase, request__may_come_in_bits);
	tcase_add_test(tcase, copy__of_ranges_that_overlap_stays_inside);
	tcase_add_test(tcase, notifications__leave_turns_to_others);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
