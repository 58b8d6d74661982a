/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/control/connection-stage.h"

#include <check.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rmemd/control/client_socket.h"
#include "rmemd/control/handshakes.h"
#include "wire/codec.h"

struct event_base *base;
struct connections *connections;
uint8_t frame[WIRE_FRAME_MAX];
struct wire_msg received;

void connections_setup(void)
{
	control_setup();
	stage_config.connections_max = 2;
	stage_control.newcomers_max = 3;
	base = event_base_new();
	ck_assert_ptr_nonnull(base);
	stage_control.base = base;
	ck_assert_int_eq(connections_open(&stage_control, &connections), 0);
	stage_control.connections = connections;
}

void connections_teardown(void)
{
	connections_close(connections);
	event_base_free(base);
	control_teardown();
}

void run_loop(void)
{
	for (unsigned i = 0; i < 10; i++) {
		/* what a thread has comes back */
		bool waits = handshakes_under_way(connections->handshakes) > 0;

		ck_assert_int_ge(
			event_base_loop(base,
					EVLOOP_ONCE | (waits ? 0 : EVLOOP_NONBLOCK)),
			0);
		slices_run(&stage_control.slices);
	}
}

int encode(struct wire_msg *msg, uint64_t id)
{
	int bytes;

	msg->id = id;
	bytes = wire_encode(msg, frame, sizeof(frame));
	ck_assert_int_gt(bytes, 0);
	return bytes;
}

void send_bytes(int fd, const void *bytes, int n)
{
	ck_assert_int_eq((int)send(fd, bytes, (size_t)n, MSG_NOSIGNAL), n);
}

void client_write(int fd, const void *bytes, int n)
{
	send_bytes(fd, bytes, n);
	run_loop();
}

bool receive(int fd)
{
	static uint8_t msg[WIRE_FRAME_MAX];
	int bytes;

	switch (recv(fd, msg, WIRE_HEADER_BYTES, MSG_DONTWAIT)) {
	case 0:
		return false;
	case WIRE_HEADER_BYTES:
		break;
	default:
		ck_abort_msg("no message has arrived");
	}
	bytes = wire_frame_bytes(msg, WIRE_HEADER_BYTES);
	ck_assert_int_ge(bytes, WIRE_HEADER_BYTES);
	if (bytes > WIRE_HEADER_BYTES)
		ck_assert_int_eq((int)recv(fd, msg + WIRE_HEADER_BYTES,
					   (size_t)bytes - WIRE_HEADER_BYTES,
					   MSG_DONTWAIT),
				 bytes - WIRE_HEADER_BYTES);
	ck_assert_int_eq(wire_decode(msg, (size_t)bytes, &received), 0);
	return true;
}

void expect(int fd, enum wire_type type)
{
	ck_assert(receive(fd));
	ck_assert_int_eq((int)received.type, (int)type);
}

void request(int fd, struct wire_msg *msg, uint64_t id, enum wire_type type)
{
	client_write(fd, frame, encode(msg, id));
	expect(fd, type);
}

void open_session(int fd)
{
	request(fd, hello(), 1, WIRE_TYPE_welcome);
}

void disconnect(int fd)
{
	ck_assert_int_eq(close(fd), 0);
	run_loop();
}
