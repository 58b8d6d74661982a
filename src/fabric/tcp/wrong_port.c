/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/wrong_port.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/msg.h"

/* The start of a control hello: the header, and the first field. */
struct control_hello {
	uint32_t bytes;
	uint16_t type, zero;
	uint64_t id;
	uint32_t magic;
} __attribute__((packed));

/* The message `error`. */
struct control_error {
	uint32_t bytes;
	uint16_t type, zero;
	uint64_t id;
	uint32_t code;
	uint16_t text_bytes;
	char text[WIRE_NAME_MAX + 1];
} __attribute__((packed));

_Static_assert(sizeof(struct control_hello) <= FABRIC_HELLO_BYTES &&
		       offsetof(struct control_hello, magic) == WIRE_HEADER_BYTES &&
		       offsetof(struct control_error, code) == WIRE_HEADER_BYTES,
	       "frames on the wire");

bool wrong_port_reached(const uint8_t hello[FABRIC_HELLO_BYTES])
{
	struct control_hello control;

	memcpy(&control, hello, sizeof(control));
	return le16toh(control.type) == WIRE_TYPE_hello && control.zero == 0 &&
	       le32toh(control.magic) == WIRE_MAGIC;
}

/* A socket that is closed with unread input resets the connection, and the client may lose the
 * answer. */
static void input_drop(int fd)
{
	uint8_t buf[4096];

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		continue;
}

void wrong_port_answer(int fd, const uint8_t hello[FABRIC_HELLO_BYTES], uint16_t port)
{
	struct control_error error = { .type = htole16(WIRE_TYPE_error),
				       .code = htole32(EPROTO) };
	size_t text_bytes, bytes;

	(void)snprintf(
		error.text, sizeof(error.text),
		"port %u of this server is for data; a URI names its control "
		"port, which [server] port or rmemd.socket sets (by default 7460)",
		port);
	text_bytes = strlen(error.text);
	bytes = offsetof(struct control_error, text) + text_bytes;
	error.bytes = htole32((uint32_t)bytes);
	error.text_bytes = htole16((uint16_t)text_bytes);
	memcpy(&error.id, hello + offsetof(struct control_hello, id), sizeof(error.id));
	input_drop(fd);
	/* the first bytes on a socket fit its buffer; an error is the client's loss */
	(void)!send(fd, &error, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}
