/* SPDX-License-Identifier: BSD-3-Clause */
/* What admits a data channel.  It is derived from the secret that the welcome on the session's
 * control connection carries, so that it is of no use for another channel, or after that
 * connection.  Who sees it does not learn the secret.  Threads: [any]. */
#ifndef TLS_ADMISSION_H
#define TLS_ADMISSION_H

#include <stdint.h>

#define ADMISSION_SECRET_BYTES 32
#define ADMISSION_BYTES 16
#define ADMISSION_ORIGIN_BYTES 8
#define ADMISSION_ADDRESS_BYTES 16
#define ADMISSION_KEY_BYTES 32

/* HMAC-SHA256 of the channel's name, cut.  -ENOMEM: there is none, and nothing to compare with. */
int admission_token(const uint8_t secret[ADMISSION_SECRET_BYTES], uint64_t session,
		    uint32_t channel, uint8_t ret_token[ADMISSION_BYTES]);

/* The address from which the channel comes, if it may be another one than that of the control
 * connection: who has seen the token alone cannot name another.  It is shorter, as each guess costs
 * a connection, and works with the token alone.  -ENOMEM as above. */
int admission_origin(const uint8_t secret[ADMISSION_SECRET_BYTES], uint64_t session,
		     uint32_t channel, const uint8_t address[ADMISSION_ADDRESS_BYTES],
		     uint8_t ret_origin[ADMISSION_ORIGIN_BYTES]);

/* The key of a channel that is under TLS of its own.  -ENOMEM as above. */
int admission_key(const uint8_t secret[ADMISSION_SECRET_BYTES], uint64_t session,
		  uint32_t channel, uint8_t ret_key[ADMISSION_KEY_BYTES]);

#endif
