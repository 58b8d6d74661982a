/* SPDX-License-Identifier: BSD-3-Clause */
/* start 2M|base MIB ROUNDS NODE...: measures how long a pool of MIB on each NODE takes to open:
 * one pool after the other (serial), all by one call (together), and, for comparison, populated
 * by one thread in a plain loop (plain).  Prints a line of JSON with medians. */
#include <linux/memfd.h>
#include <numa.h>
#include <numaif.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/pool/pools.h"

#define NODES_MAX 16
#define ROUNDS_MAX 1000

static struct pool_params params[NODES_MAX];
static unsigned n_nodes;

enum way { SERIAL, TOGETHER, AGAIN, PLAIN, WAYS };

static double ms_per_gib[WAYS][ROUNDS_MAX];

static void fail(const char *what)
{
	(void)fprintf(stderr, "start: %s\n", what);
	exit(1);
}

/* Open the pools of n nodes by one call. */
static struct pools *pools_open_n(unsigned first, unsigned n)
{
	struct pools *pools;

	if (pools_open(&params[first], n, NULL, &pools))
		fail(err_text());
	return pools;
}

/* The time to open all pools, `at_once` by one call; closes them again. */
static uint64_t pools_ns(unsigned at_once)
{
	struct pools *pools[NODES_MAX];
	uint64_t begin_ns = clock_now_ns(), took_ns;
	unsigned n = 0;

	for (unsigned i = 0; i < n_nodes; i += at_once)
		pools[n++] = pools_open_n(i, at_once);
	took_ns = clock_now_ns() - begin_ns;
	while (n > 0)
		pools_close(pools[--n]);
	return took_ns;
}

/* A pool by the shortest program that binds memory to a node. */
static void *plain_open(const struct pool_params *pool, int *ret_fd)
{
	bool huge = pool->pages == POOL_PAGES_2M;
	struct bitmask *mask = numa_allocate_nodemask();
	int fd = memfd_create("start", huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0);
	uint64_t page = huge ? UINT64_C(2) << 20 : 4096;
	void *addr;

	if (!mask || fd < 0 || ftruncate(fd, (off_t)pool->bytes))
		fail("no memfd");
	addr = mmap(NULL, pool->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	numa_bitmask_setbit(mask, (unsigned)pool->node);
	if (addr == MAP_FAILED ||
	    mbind(addr, pool->bytes, MPOL_BIND, mask->maskp, mask->size + 1, 0) ||
	    numa_run_on_node(pool->node))
		fail("no memory of the node");
	numa_free_nodemask(mask);
	for (uint64_t i = 0; i < pool->bytes; i += page)
		((volatile char *)addr)[i] = 0;
	*ret_fd = fd;
	return addr;
}

static uint64_t plain_ns(void)
{
	int fds[NODES_MAX];
	void *addrs[NODES_MAX];
	uint64_t begin_ns = clock_now_ns(), took_ns;

	for (unsigned i = 0; i < n_nodes; i++)
		addrs[i] = plain_open(&params[i], &fds[i]);
	took_ns = clock_now_ns() - begin_ns;
	for (unsigned i = 0; i < n_nodes; i++) {
		(void)munmap(addrs[i], params[i].bytes);
		(void)close(fds[i]);
	}
	(void)numa_run_on_node(-1);
	return took_ns;
}

static double way_measure(enum way way)
{
	double gib = (double)params[0].bytes * n_nodes / (double)(1 << 30);
	uint64_t ns =
		way == PLAIN ? plain_ns() : pools_ns(way == TOGETHER ? n_nodes : 1);

	return (double)ns / 1e6 / gib;
}

static int double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *values, unsigned n)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, values, n * sizeof(*values));
	qsort(sorted, n, sizeof(*sorted), double_compare);
	return sorted[n / 2];
}

/* The median of the ratios of one way to SERIAL in each round. */
static double ratio(enum way way, unsigned n)
{
	double ratios[ROUNDS_MAX];

	for (unsigned i = 0; i < n; i++)
		ratios[i] = ms_per_gib[way][i] / ms_per_gib[SERIAL][i];
	return median(ratios, n);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 4 ? (unsigned)atoi(argv[3]) : 0;

	n_nodes = argc > 4 ? (unsigned)argc - 4 : 0;
	if (rounds == 0 || rounds > ROUNDS_MAX || n_nodes > NODES_MAX) {
		(void)fprintf(stderr, "usage: start 2M|base MIB ROUNDS NODE...\n");
		return 2;
	}
	for (unsigned i = 0; i < n_nodes; i++) {
		params[i].node = atoi(argv[4 + i]);
		params[i].bytes = strtoull(argv[2], NULL, 10) << 20;
		params[i].pages =
			strcmp(argv[1], "2M") == 0 ? POOL_PAGES_2M : POOL_PAGES_BASE;
		(void)snprintf(params[i].name, sizeof(params[i].name), "node%d",
			       params[i].node);
	}
	/* in a virtual machine the first access to memory makes the host allocate it: warm up */
	for (unsigned way = 0; way < WAYS; way++)
		(void)way_measure(way);
	for (unsigned i = 0; i < rounds; i++)
		for (unsigned way = 0; way < WAYS; way++)
			ms_per_gib[way][i] = way_measure(way);
	(void)printf("{\"pages\":\"%s\",\"nodes\":%u,\"mib\":%s,\"rounds\":%u,"
		     "\"serial_ms\":%.1f,\"together_ms\":%.1f,\"plain_ms\":%.1f,"
		     "\"ratio\":%.3f,\"aa\":%.3f}\n",
		     pool_pages_name(params[0].pages), n_nodes, argv[2], rounds,
		     median(ms_per_gib[SERIAL], rounds),
		     median(ms_per_gib[TOGETHER], rounds),
		     median(ms_per_gib[PLAIN], rounds), ratio(TOGETHER, rounds),
		     ratio(AGAIN, rounds));
	return 0;
}
