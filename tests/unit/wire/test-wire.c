/* SPDX-License-Identifier: BSD-3-Clause */
/* The codec of the control protocol. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "wire/codec.h"
#include "unit/unit.h"

static uint8_t frame[WIRE_FRAME_MAX];
static struct wire_msg in, out;

/* Fill `in` with distinct values, and lists at their limits. */
static void fill(enum wire_type type)
{
	memset(&in, 0, sizeof(in));
	in.type = type;
	in.id = 0x1122334455667788u;
	switch (type) {
	case WIRE_TYPE_hello:
		in.hello = (struct wire_hello){ .magic = WIRE_MAGIC,
						.version_max = 7,

						.tenant = "t",
						.client = "c",
						.resume = 3 };
		memset(in.hello.token, 0xa5, WIRE_TOKEN_BYTES);
		break;
	case WIRE_TYPE_lease:
		in.lease.lease = 5;
		in.lease.bytes = UINT64_MAX;
		memset(in.lease.name, 'n', WIRE_NAME_MAX);
		in.lease.n_segments = WIRE_SEGMENTS_MAX;
		in.lease.segments[WIRE_SEGMENTS_MAX - 1].node = -1;
		in.lease.segments[WIRE_SEGMENTS_MAX - 1].endpoints = UINT32_MAX;
		in.lease.n_keys = WIRE_KEYS_MAX;
		in.lease.keys[WIRE_KEYS_MAX - 1].rkey = 0xfedcba9876543210u;
		break;
	case WIRE_TYPE_welcome:
		in.welcome.n_endpoints = WIRE_ENDPOINTS_MAX;
		in.welcome.endpoints[WIRE_ENDPOINTS_MAX - 1].node = -1;
		break;
	case WIRE_TYPE_allocate:
		in.allocate.reach = 1u << (WIRE_ENDPOINTS_MAX - 1);
		break;
	case WIRE_TYPE_entries:
		in.entries.n_entries = WIRE_ENTRIES_MAX;
		memset(in.entries.entries[WIRE_ENTRIES_MAX - 1].name, 'e',
		       WIRE_NAME_MAX);
		break;
	case WIRE_TYPE_notified:
		in.notified.n_notices = WIRE_NOTICES_MAX;
		in.notified.notices[WIRE_NOTICES_MAX - 1] = (struct wire_notice){
			.lease = 9, .value = 0xfedcba98u, .lost = 0x76543210u
		};
		break;
	default:
		break;
	}
}

#define TYPE_OF(name, number, since, text) WIRE_TYPE_##name,
static const enum wire_type types[] = { WIRE_MESSAGES(TYPE_OF) };
#define N_TYPES (int)(sizeof(types) / sizeof(types[0]))

/* Encode `in` into the frame; returns the bytes, or the error. */
static int encode(void)
{
	return wire_encode(&in, frame, sizeof(frame));
}

static int fill_and_encode(enum wire_type type)
{
	fill(type);
	return encode();
}

/* Decode the frame into `out`; returns the result. */
static int decode(int bytes)
{
	return wire_decode(frame, (size_t)bytes, &out);
}

START_TEST(codec__decodes_its_own_frames)
{
	int bytes = fill_and_encode(types[_i]);

	ck_assert_int_ge(bytes, WIRE_HEADER_BYTES);
	ck_assert_int_eq(wire_frame_bytes(frame, 4), bytes);
	ck_assert_int_eq(decode(bytes), 0);
	ck_assert_mem_eq(&in, &out, sizeof(in));
}
END_TEST

START_TEST(decode__refuses_truncated_frames)
{
	int bytes = fill_and_encode(types[_i]);

	for (int cut = 0; cut < bytes; cut += cut < 400 ? 1 : 97) {
		if (cut >= 4)
			memcpy(frame, &(uint32_t){ (uint32_t)cut }, 4);
		ck_assert_int_eq(decode(cut), -EPROTO);
	}
}
END_TEST

/* A later version may have more fields. */
START_TEST(decode__ignores_what_is_behind_the_last_field)
{
	int bytes = fill_and_encode(types[_i]), longer = bytes + 7;

	if (longer > WIRE_FRAME_MAX)
		return;
	memset(frame + bytes, 0xff, 7);
	memcpy(frame, &(uint32_t){ (uint32_t)longer }, 4);
	ck_assert_int_eq(decode(longer), 0);
	ck_assert_mem_eq(&in, &out, sizeof(in));
}
END_TEST

START_TEST(decode__writes_only_the_members_of_the_frame)
{
	int bytes;

	memset(&in, 0, sizeof(in));
	in.type = WIRE_TYPE_lease;
	in.lease.n_keys = 1;
	bytes = encode();
	memset(&out, 0x5a, sizeof(out));
	ck_assert_int_eq(decode(bytes), 0);
	ck_assert_uint_eq(out.lease.keys[0].rkey, 0);
	for (size_t i = 1; i < WIRE_KEYS_MAX; i++)
		ck_assert_uint_eq(((uint8_t *)&out.lease.keys[i])[0], 0x5a);
}
END_TEST

START_TEST(encode__fails_when_the_buffer_is_too_small)
{
	int bytes = fill_and_encode(types[_i]);

	for (int capacity = 0; capacity < bytes; capacity += capacity < 400 ? 1 : 97)
		ck_assert_int_eq(wire_encode(&in, frame, (size_t)capacity), -EMSGSIZE);
}
END_TEST

START_TEST(encode__refuses_lists_and_strings_over_their_limits)
{
	fill(WIRE_TYPE_lease);
	in.lease.n_keys = WIRE_KEYS_MAX + 1;
	ck_assert_int_eq(encode(), -EINVAL);
	fill(WIRE_TYPE_remove);
	memset(in.remove.name, 'x', sizeof(in.remove.name));
	ck_assert_int_eq(encode(), -EINVAL);
}
END_TEST

START_TEST(decode__error_has_message_and_field)
{
	fill(WIRE_TYPE_remove);
	(void)snprintf(in.remove.name, sizeof(in.remove.name), "a\nb");
	ck_assert_int_eq(decode(encode()), -EPROTO);
	ck_assert_str_eq(
		err_text(),
		"message remove: name has a control character or an invisible one, or "
		"is not UTF-8");
}
END_TEST

static const struct {
	const char *name;
	int err;
} names[] = {
	{ "plain", 0 },
	{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x98", 0 },
	{ "\xc2\xa0", 0 },
	{ "\xc2\x9b"
	  "31m",
	  -EPROTO },
	{ "\x9b"
	  "31m",
	  -EPROTO },
	{ "\x1b[31m", -EPROTO },
	{ "\x7f", -EPROTO },
	{ "cut\xe2\x82", -EPROTO },
	{ "\xc0\xaf", -EPROTO },
	{ "\xe0\x80\xaf", -EPROTO },
	{ "\xed\xa0\x80", -EPROTO },
	{ "\xf4\x90\x80\x80", -EPROTO },
	{ "\xe2\x80\xae", -EPROTO },
	{ "\xe2\x80\x8b", -EPROTO },
	{ "\xff", -EPROTO },
};

START_TEST(decode__accepts_only_printable_utf8)
{
	fill(WIRE_TYPE_remove);
	(void)snprintf(in.remove.name, sizeof(in.remove.name), "%s", names[_i].name);
	ck_assert_int_eq(decode(encode()), names[_i].err);
}
END_TEST

START_TEST(decode__refuses_unknown_types_and_reserved_bits)
{
	int bytes = fill_and_encode(WIRE_TYPE_ping);

	frame[4] = 0x3f;
	ck_assert_int_eq(decode(bytes), -EPROTO);
	frame[4] = WIRE_TYPE_ping;
	frame[6] = 1;
	ck_assert_int_eq(decode(bytes), -EPROTO);
}
END_TEST

START_TEST(frame_bytes__bounds_the_length)
{
	uint8_t head[4] = { 15, 0, 0, 0 };

	ck_assert_int_eq(wire_frame_bytes(head, 3), 0);
	ck_assert_int_eq(wire_frame_bytes(head, 4), -EPROTO);
	head[0] = 16;
	ck_assert_int_eq(wire_frame_bytes(head, 4), 16);
	memcpy(head, &(uint32_t){ WIRE_FRAME_MAX + 1 }, 4);
	ck_assert_int_eq(wire_frame_bytes(head, 4), -EPROTO);
}
END_TEST

START_TEST(decode__survives_random_bytes)
{
	static uint8_t again[WIRE_FRAME_MAX];
	unsigned seed = 20261120u + (unsigned)_i;

	srand(seed);
	for (int round = 0; round < 2000; round++) {
		size_t bytes = WIRE_HEADER_BYTES + (size_t)rand() % 600;

		for (size_t i = 0; i < bytes; i++)
			frame[i] = (uint8_t)rand();
		memcpy(frame, &(uint32_t){ (uint32_t)bytes }, 4);
		frame[4] = (uint8_t)types[rand() % N_TYPES];
		frame[5] = frame[6] = frame[7] = 0;
		if (decode((int)bytes) == 0) {
			int known = wire_encode(&out, again, sizeof(again));

			ck_assert_msg(known > 0 && known <= (int)bytes &&
					      !memcmp(again + 4, frame + 4,
						      (size_t)known - 4),
				      "seed %u round %d: decoded, but encoded "
				      "differently",
				      seed, round);
		}
	}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("codec", NULL, NULL);

	tcase_add_loop_test(tc, codec__decodes_its_own_frames, 0, N_TYPES);
	tcase_add_loop_test(tc, decode__refuses_truncated_frames, 0, N_TYPES);
	tcase_add_loop_test(tc, decode__ignores_what_is_behind_the_last_field, 0,
			    N_TYPES);
	tcase_add_test(tc, decode__writes_only_the_members_of_the_frame);
	tcase_add_loop_test(tc, encode__fails_when_the_buffer_is_too_small, 0, N_TYPES);
	tcase_add_test(tc, encode__refuses_lists_and_strings_over_their_limits);
	tcase_add_test(tc, decode__error_has_message_and_field);
	tcase_add_loop_test(tc, decode__accepts_only_printable_utf8, 0,
			    sizeof(names) / sizeof(names[0]));
	tcase_add_test(tc, decode__refuses_unknown_types_and_reserved_bits);
	tcase_add_test(tc, frame_bytes__bounds_the_length);
	tcase_add_loop_test(tc, decode__survives_random_bytes, 0, 4);
	return unit_main();
}
