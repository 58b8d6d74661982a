/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/zero.h"

#ifdef __SSE2__
#include <emmintrin.h>

void zero_stream(void *addr, size_t bytes)
{
	const __m128i zero = _mm_setzero_si128();
	__m128i *to = addr;

	for (size_t i = 0; i < bytes / sizeof(zero); i += 4) {
		_mm_stream_si128(to + i, zero);
		_mm_stream_si128(to + i + 1, zero);
		_mm_stream_si128(to + i + 2, zero);
		_mm_stream_si128(to + i + 3, zero);
	}
	/* non-temporal stores are not ordered without it */
	_mm_sfence();
}

#else
#include <string.h>

void zero_stream(void *addr, size_t bytes)
{
	/* libc zeroes whole cache lines if the processor can */
	memset(addr, 0, bytes);
}

#endif
