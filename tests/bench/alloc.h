/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocators that `alloc` compares, each over one range of addresses. */
#ifndef TESTS_BENCH_ALLOC_H
#define TESTS_BENCH_ALLOC_H

#include <stdint.h>

/* Every size is a multiple. */
#define ALLOC_GRAIN UINT64_C(4096)

struct allocator {
	const char *name;
	/* Make a range of which all is free; destroy it.  Both end the program on failure. */
	void (*open)(uint64_t bytes);
	void (*close)(void);
	/* NULL: no free block is large enough. */
	void *(*alloc)(uint64_t bytes);
	void (*free)(void *block);
};

extern const struct allocator allocator_ours, allocator_dpdk;

#endif
