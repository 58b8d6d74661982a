/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC-32C (Castagnoli): polynomial 0x1edc6f41, bits reflected, begun and ended with all ones,
 * as iSCSI and ext4 have it; of "123456789" it is 0xe3069283.  With the processor's
 * instruction for it where there is one.  Threads: [any]. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Go on from `crc`, that of what lies before; 0: nothing does. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
/* The same without the instruction, for machines that lack it, and for tests. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t bytes);

/* That of two ranges, one behind the other, from their own. */
uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes);

#endif
