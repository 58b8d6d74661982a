/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of OpenSSL's errors.  Threads: [any]. */
#ifndef TLS_FAILURE_H
#define TLS_FAILURE_H

struct ssl_st;

/* Set a text "WHAT: the reason" of OpenSSL's oldest error in this thread, and forget all of them.
 * Returns `err`. */
int tls_failure(int err, const char *what) __attribute__((cold));
/* The same for a connection that failed, with texts for what one side may refuse; returns the
 * errno.  A client may learn that it is refused only after its handshake. */
int tls_connection_failure(const struct ssl_st *ssl) __attribute__((cold));

#endif
