/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/random.h"

#include <sys/random.h>

void random_bytes(void *dst, size_t bytes)
{
	unsigned char *p = dst;

	while (bytes > 0) {
		ssize_t n = getrandom(p, bytes, 0);

		/* only EINTR is possible, with nothing read */
		if (n <= 0)
			continue;
		p += n;
		bytes -= (size_t)n;
	}
}

uint64_t random_u64(void)
{
	uint64_t value;

	random_bytes(&value, sizeof(value));
	return value;
}

bool secret_equal(const void *a, const void *b, size_t bytes)
{
	const volatile unsigned char *x = a, *y = b;
	unsigned char differs = 0;

	for (size_t i = 0; i < bytes; i++)
		differs |= (unsigned char)(x[i] ^ y[i]);
	return differs == 0;
}
