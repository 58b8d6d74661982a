/* SPDX-License-Identifier: BSD-3-Clause */
/* The first message of a handshake of TLS 1.3, with whatever a stranger may put into it. */
#ifndef UNIT_TLS_CLIENT_HELLO_H
#define UNIT_TLS_CLIENT_HELLO_H

#include <stddef.h>
#include <stdint.h>

struct client_hello {
	uint16_t suite;    /* 0: that of pre-shared keys */
	uint16_t group;    /* of the first key share, which is 32 bytes; 0: X25519 */
	unsigned n_groups; /* groups before it that do not exist */
	unsigned n_shares; /* of such groups, before it */
	unsigned n_identities; /* of pre-shared keys that nobody has */
	size_t padding;        /* bytes that mean nothing */
	size_t record_bytes;   /* in each record; 0: as many as there may be */
};

#define CLIENT_HELLO_MAX ((size_t)1 << 20)

/* Write the records; returns their bytes, at most CLIENT_HELLO_MAX. */
size_t client_hello_write(const struct client_hello *hello, uint8_t *to);

#endif
