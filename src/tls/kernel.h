/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS in the kernel: it encrypts and decrypts what passes a socket, which is then used like one
 * without TLS.  Threads: [any]. */
#ifndef TLS_KERNEL_H
#define TLS_KERNEL_H

#include "tls/stream.h"

/* Let the kernel go on with a connection whose handshake is done, before any byte was sent or
 * received after it.
 *   -ENOTSUP  without effect: the kernel does not have TLS, or its module is not loaded
 *   -errno    with text: the connection is of no use any more */
int tls_kernel_take(int fd, struct channel_secrets *secrets);

#endif
