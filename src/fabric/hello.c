/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/hello.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"

struct hello_wire {
	uint32_t magic; /* the bytes of FABRIC_HELLO_MAGIC */
	uint16_t bytes; /* length of the hello, which rdma_cm pads */
	uint16_t version;
	uint64_t session;
	uint32_t channel;
	uint8_t token[FABRIC_TOKEN_BYTES];
	uint8_t origin[FABRIC_ORIGIN_BYTES];
} __attribute__((packed));

_Static_assert(sizeof(struct hello_wire) == FABRIC_HELLO_BYTES, "hello on the wire");

void fabric_hello_encode(const struct fabric_hello *hello,
			 uint8_t buf[FABRIC_HELLO_BYTES])
{
	struct hello_wire wire = {
		.bytes = htole16(FABRIC_HELLO_BYTES),
		.version = htole16(FABRIC_VERSION),
		.session = htole64(hello->session),
		.channel = htole32(hello->channel),
	};

	memcpy(&wire.magic, FABRIC_HELLO_MAGIC, sizeof(wire.magic));
	memcpy(wire.token, hello->token, FABRIC_TOKEN_BYTES);
	memcpy(wire.origin, hello->origin, FABRIC_ORIGIN_BYTES);
	memcpy(buf, &wire, FABRIC_HELLO_BYTES);
}

int fabric_hello_decode(const uint8_t *buf, size_t bytes,
			struct fabric_hello *ret_hello)
{
	struct hello_wire wire;

	if (bytes < sizeof(wire))
		return err_set(-EPROTO, "a channel's hello of %zu bytes is too short",
			       bytes);
	memcpy(&wire, buf, sizeof(wire));
	if (!fabric_hello_begins(buf, bytes))
		return err_set(-EPROTO, "a channel's hello without rmem's magic");
	if (le16toh(wire.version) != FABRIC_VERSION ||
	    le16toh(wire.bytes) != FABRIC_HELLO_BYTES)
		return err_set(-EPROTO,
			       "a channel's hello of version %u, %u bytes; this is "
			       "version %u",
			       le16toh(wire.version), le16toh(wire.bytes),
			       FABRIC_VERSION);
	*ret_hello = (struct fabric_hello){ .session = le64toh(wire.session),
					    .channel = le32toh(wire.channel) };
	memcpy(ret_hello->token, wire.token, FABRIC_TOKEN_BYTES);
	memcpy(ret_hello->origin, wire.origin, FABRIC_ORIGIN_BYTES);
	return 0;
}
