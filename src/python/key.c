// SPDX-License-Identifier: BSD-3-Clause
#include "python/key.h"

int key_give(void *ctx, const char *Py_UNUSED(text), unsigned char *key, size_t room,
	     size_t *ret_bytes)
{
	const struct key *given = ctx;

	if ((size_t)given->n > room)
		return -1;
	memcpy(key, given->bytes, (size_t)given->n);
	*ret_bytes = (size_t)given->n;
	return 0;
}
