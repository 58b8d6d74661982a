/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of this host, from /proc and /sys.
 * Threads: [any]; host_set_root before threads start. */
#ifndef RMEMD_POOL_HOST_H
#define RMEMD_POOL_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define HOST_MOUNT_BYTES 256

/* For tests: read below `root`, borrowed, instead of "/".  NULL: "/". */
void host_set_root(const char *root);
/* A file of the host to read, and a file's only number.  NULL and errno, -errno */
FILE *host_open(const char *path);
int host_number(const char *path, uint64_t *ret_value);

/* Whether the kernel has NUMA nodes; otherwise all memory is on node 0. */
bool host_has_nodes(void);
/* Whether the node has memory that this process may use. */
bool host_node_exists(int node);
/* "0-1,4" */
const char *host_nodes(char *buf, size_t buf_bytes);
/* CPUs of the node; of the host when node is -1 or has none. */
unsigned host_cpus(int node);

struct host_huge {
	uint64_t total, free; /* pages */
	bool overcommit;      /* more may be allocated on demand */
};

/* Huge pages of this size on a node, or on the whole host when node is -1.
 *   -ENOENT  CPU or kernel does not support this size */
int host_huge_pages(uint64_t page_bytes, int node, struct host_huge *ret_huge);
/* The path of a file about these huge pages; returns buf. */
const char *host_huge_path(uint64_t page_bytes, int node, const char *file, char *buf,
			   size_t buf_bytes);

/* Bytes available without swapping on a node, or on the host when node is -1.  -ENOENT: unknown */
int host_available(int node, uint64_t *ret_bytes);

/* The length of a transparent huge page. */
uint64_t host_thp_bytes(void);
/* Whether shared memory gets transparent huge pages with madvise; `word` is the kernel's setting.
 * -ENOENT without transparent huge pages. */
int host_shmem_thp(bool *ret_allowed, char *word, size_t word_bytes);
/* Whether files on this tmpfs get transparent huge pages, by the option of its mount at `path`.
 * -ENOENT: unknown */
int host_mount_thp(dev_t device, bool *ret_allowed, char path[HOST_MOUNT_BYTES]);

#endif
