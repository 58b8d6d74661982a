/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/control/connection-stage.h"

#include <check.h>
#include <sys/socket.h>

#include "wire/codec.h"

struct event_base *base;
struct connections *connections;
uint8_t frame[WIRE_FRAME_MAX];
struct wire_msg got;

void connections_setup(void)
{
	control_setup();
	stage_config.connections_max = 2;
	base = event_base_new();
	ck_assert_ptr_nonnull(base);
	ck_assert_int_eq(connections_open(base, &stage_control, &connections), 0);
}

void connections_teardown(void)
{
	connections_close(connections);
	event_base_free(base);
	control_teardown();
}

void turn(void)
{
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
}

int encode(struct wire_msg *msg, uint64_t id)
{
	int bytes;

	msg->id = id;
	bytes = wire_encode(msg, frame, sizeof(frame));
	ck_assert_int_gt(bytes, 0);
	return bytes;
}

void say(int fd, const void *bytes, int n)
{
	ck_assert_int_eq((int)send(fd, bytes, (size_t)n, MSG_NOSIGNAL), n);
	turn();
}

bool hear(int fd)
{
	static uint8_t answer[WIRE_FRAME_MAX];
	int bytes;

	switch (recv(fd, answer, WIRE_HEADER_BYTES, MSG_DONTWAIT)) {
	case 0:
		return false;
	case WIRE_HEADER_BYTES:
		break;
	default:
		ck_abort_msg("no answer");
	}
	bytes = wire_frame_bytes(answer, WIRE_HEADER_BYTES);
	ck_assert_int_ge(bytes, WIRE_HEADER_BYTES);
	if (bytes > WIRE_HEADER_BYTES)
		ck_assert_int_eq((int)recv(fd, answer + WIRE_HEADER_BYTES,
					   (size_t)bytes - WIRE_HEADER_BYTES,
					   MSG_DONTWAIT),
				 bytes - WIRE_HEADER_BYTES);
	ck_assert_int_eq(wire_decode(answer, (size_t)bytes, &got), 0);
	return true;
}

void open_session(int fd)
{
	say(fd, frame, encode(hello(), 1));
	ck_assert(hear(fd));
	ck_assert_int_eq((int)got.type, (int)WIRE_TYPE_welcome);
}
