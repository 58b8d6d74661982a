/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC-32C (Castagnoli) as in iSCSI and ext4: polynomial 0x1edc6f41, bits reflected, initial value
 * and final XOR all ones; of "123456789" it is 0xe3069283.  Uses the instruction of the processor
 * if there is one.  Threads: [any]. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue from `crc`, the CRC of the preceding bytes; 0: there are none. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
/* crc32c() without the instruction, for processors that lack it and for tests. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t bytes);

/* The CRC of two adjacent ranges, from the CRC of each. */
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes);

#endif
