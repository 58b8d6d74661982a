/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/codec.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

/* Output of the encoder; after an error nothing more is written. */
struct out {
	uint8_t *at;
	size_t room;
	int err;
};

/* Input of the decoder; the first wrong field is named. */
struct in {
	const uint8_t *at;
	size_t left;
	const char *fault;
	const char *field;
	bool later; /* an end here means that the sender does not know the fields that follow */
};

static void put_int(struct out *out, uint64_t value, size_t bytes)
{
	if (out->err)
		return;
	if (out->room < bytes) {
		out->err = -EMSGSIZE;
		return;
	}
	for (size_t i = 0; i < bytes; i++)
		out->at[i] = (uint8_t)(value >> (8 * i));
	out->at += bytes;
	out->room -= bytes;
}

static void put_raw(struct out *out, const void *src, size_t bytes)
{
	if (out->err)
		return;
	if (out->room < bytes) {
		out->err = -EMSGSIZE;
		return;
	}
	memcpy(out->at, src, bytes);
	out->at += bytes;
	out->room -= bytes;
}

static void put_string(struct out *out, const char *src, size_t max)
{
	size_t len = strnlen(src, max + 1);

	if (len > max) {
		out->err = -EINVAL;
		return;
	}
	put_int(out, len, 2);
	put_raw(out, src, len);
}

static void in_fail(struct in *in, const char *field, const char *fault)
{
	if (in->fault)
		return;
	in->fault = fault;
	in->field = field;
	in->left = 0;
}

/* False: the field is cut off, or the sender does not know it. */
static bool in_has(struct in *in, const char *field, size_t bytes)
{
	if (in->left >= bytes)
		return true;
	if (in->left > 0 || !in->later)
		in_fail(in, field, "is cut off");
	return false;
}

static uint64_t get_int(struct in *in, const char *field, size_t bytes)
{
	uint64_t value = 0;

	if (!in_has(in, field, bytes))
		return 0;
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)in->at[i] << (8 * i);
	in->at += bytes;
	in->left -= bytes;
	return value;
}

static void get_raw(struct in *in, const char *field, void *dst, size_t bytes)
{
	if (!in_has(in, field, bytes)) {
		memset(dst, 0, bytes);
		return;
	}
	memcpy(dst, in->at, bytes);
	in->at += bytes;
	in->left -= bytes;
}

static void get_string(struct in *in, const char *field, char *dst, size_t max)
{
	size_t len = (size_t)get_int(in, field, 2);

	if (len > max) {
		in_fail(in, field, "is too long");
		return;
	}
	if (in->left < len) {
		in_fail(in, field, "is cut off");
		return;
	}
	if (!utf8_clean((const char *)in->at, len)) {
		in_fail(in, field, UTF8_UNCLEAN);
		return;
	}
	memcpy(dst, in->at, len);
	dst[len] = '\0';
	in->at += len;
	in->left -= len;
}

static uint16_t get_count(struct in *in, const char *field, size_t max)
{
	size_t count = (size_t)get_int(in, field, 2);

	if (count > max) {
		in_fail(in, field, "has too many items");
		return 0;
	}
	return (uint16_t)count;
}

#define PUT_U8(name) put_int(out, m->name, 1);
#define PUT_U16(name) put_int(out, m->name, 2);
#define PUT_U32(name) put_int(out, m->name, 4);
#define PUT_U64(name) put_int(out, m->name, 8);
#define PUT_I32(name) put_int(out, (uint32_t)m->name, 4);
#define PUT_STR(name, max) put_string(out, m->name, max);
#define PUT_RAW(name, n) put_raw(out, m->name, n);
#define PUT_LIST(name, item, max)                             \
	if (m->n_##name > (max))                              \
		out->err = -EINVAL;                           \
	put_int(out, m->n_##name, 2);                         \
	for (size_t i = 0; !out->err && i < m->n_##name; i++) \
		put_##item(out, &m->name[i]);
#define PUT_FUNCTION(type)                                                     \
	static void put_##type(struct out *out, const struct wire_##type *m)   \
	{                                                                      \
		(void)out;                                                     \
		(void)m;                                                       \
		WIRE_FIELDS_##type(PUT_U8, PUT_U16, PUT_U32, PUT_U64, PUT_I32, \
				   PUT_STR, PUT_RAW, PUT_LIST, )               \
	}
#define PUT_MESSAGE(name, number, since, text) PUT_FUNCTION(name)

#define GET_U8(name) m->name = (uint8_t)get_int(in, #name, 1);
#define GET_U16(name) m->name = (uint16_t)get_int(in, #name, 2);
#define GET_U32(name) m->name = (uint32_t)get_int(in, #name, 4);
#define GET_U64(name) m->name = get_int(in, #name, 8);
#define GET_I32(name) m->name = (int32_t)(uint32_t)get_int(in, #name, 4);
#define GET_STR(name, max) get_string(in, #name, m->name, max);
#define GET_RAW(name, n) get_raw(in, #name, m->name, n);
#define GET_LIST(name, item, max)                \
	m->n_##name = get_count(in, #name, max); \
	for (size_t i = 0; i < m->n_##name; i++) \
		get_##item(in, &m->name[i]);
#define GET_FUNCTION(type)                                                        \
	static void get_##type(struct in *in, struct wire_##type *m)              \
	{                                                                         \
		(void)in;                                                         \
		(void)m;                                                          \
		WIRE_FIELDS_##type(GET_U8, GET_U16, GET_U32, GET_U64, GET_I32,    \
				   GET_STR, GET_RAW, GET_LIST, in->later = true;) \
	}
#define GET_MESSAGE(name, number, since, text) GET_FUNCTION(name)

/* clang-format off */
WIRE_ITEMS(PUT_FUNCTION)
WIRE_MESSAGES(PUT_MESSAGE)
WIRE_ITEMS(GET_FUNCTION)
WIRE_MESSAGES(GET_MESSAGE)
/* clang-format on */

#define PUT_CASE(name, number, since, text)   \
	case WIRE_TYPE_##name:                \
		put_##name(&out, &msg->name); \
		break;
#define GET_CASE(name, number, since, text)  \
	case WIRE_TYPE_##name:               \
		get_##name(&in, &msg->name); \
		break;
/* Size of the part of struct wire_msg that a message of the type uses. */
#define SIZE_CASE(name, number, since, text) \
	case WIRE_TYPE_##name:               \
		return offsetof(struct wire_msg, name) + sizeof(struct wire_##name);
#define NAME_CASE(name, number, since, text) \
	case WIRE_TYPE_##name:               \
		return #name;

const char *wire_type_name(unsigned number)
{
	switch (number) {
		WIRE_MESSAGES(NAME_CASE)
	default:
		return NULL;
	}
}

static size_t msg_bytes(enum wire_type type)
{
	switch (type) {
		WIRE_MESSAGES(SIZE_CASE)
	}
	return sizeof(struct wire_msg);
}

void wire_msg_init(struct wire_msg *msg, enum wire_type type)
{
	memset(msg, 0, msg_bytes(type));
	msg->type = type;
}

int wire_encode(const struct wire_msg *msg, uint8_t *buf, size_t buf_bytes)
{
	size_t room = buf_bytes < WIRE_FRAME_MAX ? buf_bytes : WIRE_FRAME_MAX;
	struct out head = { buf, room, 0 }, out;
	size_t bytes;

	if (room < WIRE_HEADER_BYTES)
		return -EMSGSIZE;
	out = (struct out){ buf + WIRE_HEADER_BYTES, room - WIRE_HEADER_BYTES, 0 };
	switch (msg->type) {
		WIRE_MESSAGES(PUT_CASE)
	default:
		return -EINVAL;
	}
	if (out.err)
		return out.err;
	bytes = (size_t)(out.at - buf);
	put_int(&head, bytes, 4);
	put_int(&head, (uint64_t)msg->type, 2);
	put_int(&head, 0, 2);
	put_int(&head, msg->id, 8);
	return (int)bytes;
}

void wire_frame_number(uint8_t *frame, uint64_t id)
{
	struct out out = { frame + WIRE_HEADER_BYTES - sizeof(id), sizeof(id), 0 };

	put_int(&out, id, sizeof(id));
}

int wire_frame_bytes(const uint8_t *buf, size_t bytes)
{
	struct in in = { .at = buf, .left = bytes };
	uint64_t length;

	if (bytes < 4)
		return 0;
	length = get_int(&in, "length", 4);
	if (length < WIRE_HEADER_BYTES || length > WIRE_FRAME_MAX)
		return err_set(-EPROTO, "a frame of %u bytes: no such frame exists",
			       (unsigned)length);
	return (int)length;
}

static int body_decode(struct in in, struct wire_msg *msg)
{
	switch (msg->type) {
		WIRE_MESSAGES(GET_CASE)
	}
	if (in.fault)
		return err_set(-EPROTO, "message %s: %s %s", wire_type_name(msg->type),
			       in.field, in.fault);
	return 0;
}

unsigned wire_frame_type(const uint8_t *buf)
{
	struct in in = { .at = buf, .left = WIRE_HEADER_BYTES };

	(void)get_int(&in, "length", 4);
	return (unsigned)get_int(&in, "type", 2);
}

bool wire_frame_reserved(const uint8_t *buf)
{
	struct in in = { .at = buf, .left = WIRE_HEADER_BYTES };

	(void)get_int(&in, "length", 4);
	(void)get_int(&in, "type", 2);
	return get_int(&in, "zero", 2) != 0;
}

uint64_t wire_frame_id(const uint8_t *buf, size_t bytes)
{
	struct in in = { .at = buf, .left = WIRE_HEADER_BYTES };

	if (bytes < WIRE_HEADER_BYTES)
		return 0;
	(void)get_int(&in, "length", 4);
	(void)get_int(&in, "type", 4);
	return get_int(&in, "id", 8);
}

int wire_decode(const uint8_t *buf, size_t bytes, struct wire_msg *msg)
{
	struct in in = { .at = buf, .left = bytes };
	unsigned number, zero;
	uint64_t id;

	if (bytes < WIRE_HEADER_BYTES || get_int(&in, "length", 4) != bytes)
		return err_set(-EPROTO, "a frame whose length does not match");
	number = (unsigned)get_int(&in, "type", 2);
	zero = (unsigned)get_int(&in, "zero", 2);
	id = get_int(&in, "id", 8);
	if (!wire_type_name(number))
		return err_set(-EPROTO, "message type 0x%x is unknown", number);
	if (zero)
		return err_set(-EPROTO, "a header with reserved bits set");
	msg->type = (enum wire_type)number;
	msg->id = id;
	return body_decode(in, msg);
}
