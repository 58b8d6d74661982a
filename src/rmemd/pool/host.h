/* SPDX-License-Identifier: BSD-3-Clause */
/* What memory this host has to give, as the kernel tells it in /proc and /sys.
 * Threads: [any]; host_set_root and host_look before threads start. */
#ifndef RMEMD_POOL_HOST_H
#define RMEMD_POOL_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HOST_MOUNT_BYTES 256

/* Read below `root` instead of "/", for tests; NULL: "/" again.  Borrowed. */
void host_set_root(const char *root);

/* Which CPUs nodes have libnuma reads when it is first asked, and without a lock: have it do so
 * before there are threads that ask. */
void host_look(void);

/* The kernel knows NUMA nodes; without, everything is node 0. */
bool host_has_nodes(void);
/* Node has memory this process may use. */
bool host_node_exists(int node);
/* "0-1,4" */
const char *host_nodes(char *buf, size_t buf_bytes);
/* CPUs of the node; of the host when node is -1 or has none. */
unsigned host_cpus(int node);

struct host_huge {
	uint64_t total, free; /* pages */
	bool overcommit;      /* more may be had on demand */
};

/* Huge pages of this size on a node, or on the whole host when node is -1.
 *   -ENOENT  CPU or kernel has none of this size */
int host_huge_pages(uint64_t page_bytes, int node, struct host_huge *ret_huge);
/* The file that sets how many there are; returns buf. */
const char *host_huge_path(uint64_t page_bytes, int node, char *buf, size_t buf_bytes);

/* Bytes that can be had without swapping on a node, or on the host when node is -1.
 * -ENOENT when the kernel does not tell. */
int host_available(int node, uint64_t *ret_bytes);

/* Shared memory may get transparent huge pages when asked for by madvise; else `word` is
 * what the kernel is set to.  -ENOENT without transparent huge pages. */
int host_shmem_thp(bool *ret_allowed, char *word, size_t word_bytes);
/* The same of files on that tmpfs, which its mount decides; `path` is where it is mounted.
 * -ENOENT when the kernel does not tell. */
int host_mount_thp(dev_t device, bool *ret_allowed, char path[HOST_MOUNT_BYTES]);

#endif
