/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocators that `alloc` compares, each over one range of addresses. */
#ifndef TESTS_BENCH_ALLOC_H
#define TESTS_BENCH_ALLOC_H

#include <stdint.h>

/* Sizes are multiples of it. */
#define ALLOC_GRAIN UINT64_C(4096)

struct allocator {
	const char *name;
	/* Begin with all of a range free; end that.  Both end the program on failure. */
	void (*open)(uint64_t bytes);
	void (*close)(void);
	/* NULL: there is no room. */
	void *(*take)(uint64_t bytes);
	void (*give)(void *taken);
};

extern const struct allocator allocator_ours, allocator_dpdk;

#endif
