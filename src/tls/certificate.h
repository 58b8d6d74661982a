/* SPDX-License-Identifier: BSD-3-Clause */
/* The names in a certificate, and what it is good for.  Threads: [any]. */
#ifndef TLS_CERTIFICATE_H
#define TLS_CERTIFICATE_H

#include <stdbool.h>

#include <openssl/x509.h>

/* Whether a pattern of stream_certified_as() fits. */
bool certificate_matches(X509 *certificate, const char *patterns);
/* 0; -EINVAL: the text names the pattern that is malformed. */
int certificate_patterns_check(const char *patterns);
/* Whether clients accept it as a server's: tls_context_check_certificate(). */
int certificate_serves(X509 *certificate);

#endif
