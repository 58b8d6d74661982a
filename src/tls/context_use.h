/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts, for streams alone.  Threads: [any]. */
#ifndef TLS_CONTEXT_USE_H
#define TLS_CONTEXT_USE_H

#include <stdbool.h>

#include <openssl/ssl.h>
#include <openssl/x509.h>

struct tls_context;

/* A connection to be; its app data must be its stream before the handshake.  NULL: no memory. */
SSL *tls_context_ssl(struct tls_context *context);
/* Whether the key that a client showed is there. */
bool tls_context_has_key(const struct tls_context *context, const char *identity);
/* Whether a client's certificate is good now. */
bool tls_context_accepts(const struct tls_context *context, X509 *certificate,
			 STACK_OF(X509) * chain);

#endif
