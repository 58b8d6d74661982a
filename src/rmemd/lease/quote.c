/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/quote.h"

#include <stdio.h>
#include <string.h>

/* Two quotes, three dots and the end of the string. */
#define KEPT_BYTES (QUOTE_BYTES - 6)

const char *quote_name(const char *name, char buf[QUOTE_BYTES])
{
	size_t bytes = strlen(name), kept = bytes;

	if (bytes > KEPT_BYTES) {
		kept = KEPT_BYTES;
		/* not in the middle of a character of UTF-8 */
		while (kept > KEPT_BYTES - 4 &&
		       ((unsigned char)name[kept] & 0xc0) == 0x80)
			kept--;
	}
	(void)snprintf(buf, QUOTE_BYTES, "\"%.*s\"%s", (int)kept, name,
		       kept < bytes ? "..." : "");
	return buf;
}
