/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenSSL initialises itself and looks for its algorithms once, when it first needs them; what
 * fails then for want of memory stays missing until the process ends.  Threads: before others
 * start. */
#ifndef TLS_PREPARE_H
#define TLS_PREPARE_H

/* Let it do so now, by a handshake and a token that are thrown away.  -ENOMEM, -EMFILE ... */
int tls_prepare(void);

#endif
