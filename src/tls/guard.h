/* SPDX-License-Identifier: BSD-3-Clause */
/* What OpenSSL leaves of keys in memory.  Threads: before others start. */
#ifndef TLS_GUARD_H
#define TLS_GUARD_H

/* Keep private keys in locked memory that core dumps leave out, and wipe all that OpenSSL frees.
 * It is for the whole process, so for a program, and before its first use of OpenSSL. */
void tls_guard(void);

#endif
