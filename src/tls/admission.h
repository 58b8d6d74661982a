/* SPDX-License-Identifier: BSD-3-Clause */
/* What admits a data channel.  It is derived from a secret of the session's control connection, so
 * that it is of no use for another channel, or after that connection.  Threads: [any]. */
#ifndef TLS_ADMISSION_H
#define TLS_ADMISSION_H

#include <stddef.h>
#include <stdint.h>

#define ADMISSION_BYTES 16

/* HMAC-SHA256 of the channel's name, cut.  -ENOMEM: the token is random, and admits nothing. */
int admission_token(const uint8_t *secret, size_t secret_bytes, uint64_t session,
		    uint32_t channel, uint8_t ret_token[ADMISSION_BYTES]);

#endif
