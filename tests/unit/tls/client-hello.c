/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/tls/client-hello.h"

#include <string.h>

#include <openssl/tls1.h>

#include "tls/alpn.h"

#define SUITE_OF_KEYS 0x1301
#define X25519 29
#define NO_GROUP 0x2000 /* and those that follow: of nobody */
#define RECORD_MAX 16384
#define IDENTITY_BYTES 2

static uint8_t message[CLIENT_HELLO_MAX / 8];
static size_t used;

static void put(uint64_t value, unsigned bytes)
{
	for (; bytes > 0; bytes--)
		message[used++] = (uint8_t)(value >> 8 * (bytes - 1));
}

static void put_bytes(uint8_t value, size_t bytes)
{
	memset(message + used, value, bytes);
	used += bytes;
}

/* The length of what follows, in this number of bytes, is set by end(). */
static size_t begin(unsigned bytes)
{
	used += bytes;
	return used;
}

static void end(size_t from, unsigned bytes)
{
	size_t at = used;

	used = from - bytes;
	put(at - from, bytes);
	used = at;
}

static size_t begin_extension(unsigned type)
{
	put(type, 2);
	return begin(2);
}

static void put_groups(const struct client_hello *hello, unsigned group)
{
	size_t extension = begin_extension(TLSEXT_TYPE_supported_groups);
	size_t list = begin(2);

	for (unsigned i = 0; i < hello->n_groups; i++)
		put(NO_GROUP + i, 2);
	put(group, 2);
	end(list, 2);
	end(extension, 2);
}

static void put_shares(const struct client_hello *hello, unsigned group)
{
	size_t extension = begin_extension(TLSEXT_TYPE_key_share), list = begin(2);

	/* each has to be one of the groups */
	for (unsigned i = 0; i < hello->n_shares; i++) {
		put(NO_GROUP + hello->n_groups - hello->n_shares + i, 2);
		put(1, 2);
		put(1, 1);
	}
	put(group, 2);
	put(32, 2);
	put_bytes(9, 32);
	end(list, 2);
	end(extension, 2);
}

static void put_short(unsigned type, uint64_t value, unsigned bytes)
{
	size_t extension = begin_extension(type);

	put(value, bytes);
	end(extension, 2);
}

static void put_protocol(void)
{
	size_t extension =
		begin_extension(TLSEXT_TYPE_application_layer_protocol_negotiation);

	put(sizeof(alpn_name), 2);
	memcpy(message + used, alpn_name, sizeof(alpn_name));
	used += sizeof(alpn_name);
	end(extension, 2);
}

/* The last extension. */
static void put_identities(const struct client_hello *hello)
{
	size_t extension = begin_extension(TLSEXT_TYPE_psk), list = begin(2);

	for (unsigned i = 0; i < hello->n_identities; i++) {
		put(IDENTITY_BYTES, 2);
		put(i, IDENTITY_BYTES);
		put(0, 4);
	}
	end(list, 2);
	list = begin(2);
	put(32, 1);
	put_bytes(7, 32);
	end(list, 2);
	end(extension, 2);
}

static void put_extensions(const struct client_hello *hello)
{
	unsigned group = hello->group ? hello->group : X25519;
	size_t extensions = begin(2), padding;

	put_short(TLSEXT_TYPE_supported_versions, 0x020304, 3);
	put_short(TLSEXT_TYPE_signature_algorithms, 0x000408040403, 6);
	put_short(TLSEXT_TYPE_psk_kex_modes, 0x0101, 2);
	put_protocol();
	put_groups(hello, group);
	put_shares(hello, group);
	padding = begin_extension(TLSEXT_TYPE_padding);
	put_bytes(0, hello->padding);
	end(padding, 2);
	if (hello->n_identities)
		put_identities(hello);
	end(extensions, 2);
}

static void put_message(const struct client_hello *hello)
{
	size_t body;

	used = 0;
	put(1, 1);
	body = begin(3);
	put(0x0303, 2);
	put_bytes(5, 32);
	put(0, 1);
	put(2, 2);
	put(hello->suite ? hello->suite : SUITE_OF_KEYS, 2);
	put(0x0100, 2);
	put_extensions(hello);
	end(body, 3);
}

size_t client_hello_write(const struct client_hello *hello, uint8_t *to)
{
	size_t most = hello->record_bytes ? hello->record_bytes : RECORD_MAX;
	size_t written = 0, n;

	put_message(hello);
	for (size_t at = 0; at < used; at += n) {
		n = used - at < most ? used - at : most;
		to[written++] = 22;
		to[written++] = 3;
		to[written++] = 1;
		to[written++] = (uint8_t)(n >> 8);
		to[written++] = (uint8_t)n;
		memcpy(to + written, message + at, n);
		written += n;
	}
	return written;
}
