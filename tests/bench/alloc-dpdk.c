/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's malloc on a heap of its own in a reserved range of addresses.  Only the pages with the
 * allocator's headers take memory.  Headers and blocks may start at any cache line, the cheapest
 * alignment for DPDK. */
#include "alloc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#define HEAP "range"
#define PAGE_BYTES (UINT64_C(2) << 20)

static struct {
	char *area; /* PAGE_BYTES more than the range */
	char *begin;
	uint64_t bytes;
	int socket;
	bool booted;
} range;

/* Replaces memset(), which does nothing in the range: rte_free() zeroes freed memory, rmemd
 * leaves that to its scrubbers, and the benchmark compares only the allocators. */
void *memset_outside_range(void *dst, int value, size_t bytes) __asm__("memset")
	__attribute__((visibility("default")));

__attribute__((optimize("no-tree-loop-distribute-patterns"))) void *
memset_outside_range(void *dst, int value, size_t bytes)
{
	char *to = dst;

	if (to >= range.begin && to < range.begin + range.bytes)
		return dst;
	for (size_t i = 0; i < bytes; i++)
		to[i] = (char)value;
	return dst;
}

static void give_up(const char *what)
{
	(void)fprintf(stderr, "alloc: DPDK: %s: %s\n", what, rte_strerror(rte_errno));
	exit(1);
}

static void dpdk_boot(void)
{
	static char words[][16] = { "alloc",
				    "--no-huge",
				    "--no-pci",
				    "--no-shconf",
				    "--no-telemetry",
				    "--log-level=4",
				    "-m",
				    "64",
				    "-l",
				    "0" };
	char *argv[sizeof(words) / sizeof(words[0])];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		argv[i] = words[i];
	if (rte_eal_init(sizeof(words) / sizeof(words[0]), argv) < 0)
		give_up("rte_eal_init");
	range.booted = true;
}

static void dpdk_open(uint64_t bytes)
{
	if (!range.booted)
		dpdk_boot();
	range.area = mmap(NULL, bytes + PAGE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range.area == MAP_FAILED) {
		perror("alloc: the range");
		exit(1);
	}
	range.begin = range.area + (-(uintptr_t)range.area & (PAGE_BYTES - 1));
	range.bytes = bytes;
	if (rte_malloc_heap_create(HEAP))
		give_up("rte_malloc_heap_create");
	if (rte_malloc_heap_memory_add(HEAP, range.begin, bytes, NULL,
				       (unsigned)(bytes / PAGE_BYTES), PAGE_BYTES))
		give_up("rte_malloc_heap_memory_add");
	range.socket = rte_malloc_heap_get_socket(HEAP);
	if (range.socket < 0)
		give_up("rte_malloc_heap_get_socket");
}

static void dpdk_close(void)
{
	if (rte_malloc_heap_memory_remove(HEAP, range.begin, range.bytes))
		give_up("rte_malloc_heap_memory_remove");
	if (rte_malloc_heap_destroy(HEAP))
		give_up("rte_malloc_heap_destroy");
	(void)munmap(range.area, range.bytes + PAGE_BYTES);
	range.bytes = 0;
}

static void *dpdk_alloc(uint64_t bytes)
{
	return rte_malloc_socket(NULL, bytes, 0, range.socket);
}

static void dpdk_free(void *block)
{
	rte_free(block);
}

const struct allocator allocator_dpdk = {
	.name = "DPDK",
	.open = dpdk_open,
	.close = dpdk_close,
	.alloc = dpdk_alloc,
	.free = dpdk_free,
};
