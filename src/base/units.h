/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes, durations and switches as text: what rmemd.conf(5) says under "Types", for
 * configuration, options and URIs.  Threads: [any]. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "4096", "64K", "2m", "1 GiB": powers of 1024.  -EINVAL, -ERANGE with text. */
int units_parse_bytes(const char *text, uint64_t *ret_bytes);

/* "250ms", "2 s", "5min", "1h", "7d"; a bare number is refused unless it is 0.
 * -EINVAL, -ERANGE with text. */
int units_parse_ms(const char *text, uint64_t *ret_ms);

/* "yes", "no".  -EINVAL with text. */
int units_parse_switch(const char *text, bool *ret_on);

/* Plain decimal number from min to max.  -EINVAL, -ERANGE with text. */
int units_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value);

/* "1.5 GiB" into buf; returns buf. */
const char *units_format_bytes(uint64_t bytes, char *buf, size_t buf_bytes);
/* Exactly, as the functions above parse it: "1536M", "90s", "0"; returns buf. */
const char *units_write_bytes(uint64_t bytes, char *buf, size_t buf_bytes);
const char *units_write_ms(uint64_t ms, char *buf, size_t buf_bytes);
/* units_format_bytes() into a buffer that lives as long as the enclosing block. */
#define UNITS_BYTES(bytes) units_format_bytes(bytes, (char[32]){ 0 }, 32)

#endif
