/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/err.h"

/* 0 or -errno */
static int fill(void *dst, size_t bytes)
{
	unsigned char *p = dst;

	while (bytes > 0) {
		ssize_t n = getrandom(p, bytes, 0);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n < 0)
			continue;
		p += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int random_bytes(void *dst, size_t bytes)
{
	int err = fill(dst, bytes);

	return err ? err_errno(err, "getrandom(), which a filter of system calls such "
				    "as seccomp must allow")
		   : 0;
}

uint64_t random_u64(void)
{
	uint64_t value;

	if (fill(&value, sizeof(value))) {
		value = clock_now_ns();
		return random_next(&value);
	}
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
