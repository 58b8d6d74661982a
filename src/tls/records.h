/* SPDX-License-Identifier: BSD-3-Clause */
/* How many records of TLS one key of AES-GCM may encrypt.  Threads: [any]. */
#ifndef TLS_RECORDS_H
#define TLS_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#define TLS_RECORD_BYTES 16384 /* the longest one */

/* Less than the 2^24.5 of RFC 8446, 5.5.  Tests lower it before there are streams. */
extern uint64_t tls_records_max;

/* At most so many records carry what one call has sent. */
static inline uint64_t tls_records(size_t bytes)
{
	return bytes / TLS_RECORD_BYTES + 1;
}

#endif
