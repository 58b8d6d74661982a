/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol "rmem/1", which both sides of a TLS connection agree on by ALPN (RFC 7301): a key or
 * a certificate that is good for rmem is of no use with another protocol, and the other way round.
 * Threads: [any]. */
#ifndef TLS_ALPN_H
#define TLS_ALPN_H

#include <stdbool.h>

#include <openssl/ssl.h>

/* The name with its length before it, as on the wire. */
extern const unsigned char alpn_name[7];

/* Offer it, and as a server accept nobody who does not.  False: no memory. */
bool alpn_require(SSL_CTX *ctx);
/* After the handshake: whether it was agreed on.  0, or -EPROTO. */
int alpn_check(const SSL *ssl);

#endif
