/* SPDX-License-Identifier: BSD-3-Clause */
/* The private data of the fake librdmacm's events, in a buffer of its exact size.  Linked with
 * $(FUZZ_CM). */
#ifndef TESTS_FUZZ_CM_DATA_H
#define TESTS_FUZZ_CM_DATA_H

#include <stddef.h>
#include <stdint.h>

/* Each event of a connection has this data from now on, up to 255 bytes; NULL: what the fake
 * makes. */
void cm_data_set(const uint8_t *data, size_t bytes);

#endif
