/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits that control groups set to the memory of a process: its own group and those above it
 * that are visible here, of version 1 and 2.  Threads: [any]. */
#ifndef RMEMD_POOL_CGROUP_H
#define RMEMD_POOL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_PATH_BYTES 512
#define CGROUP_TEXT_BYTES 768

struct cgroup_limit {
	char path[CGROUP_PATH_BYTES]; /* the file that has the limit */
	const char *setting; /* its name in a unit of systemd; NULL: it has none */
	bool service;        /* the group is that of rmemd.service */
	uint64_t bytes;
	uint64_t used; /* without what the kernel can drop */
	/* bytes for the process itself, and for what the kernel needs beside each page */
	uint64_t kept;
	uint64_t left; /* for pools */
};

/* The limit of which least is left: of huge pages of this size, or of other memory if page_bytes
 * is 0.  process: "self", or a number.  -ENOENT: there is none, or it is not visible */
int cgroup_limit(const char *process, uint64_t page_bytes,
		 struct cgroup_limit *ret_limit);
/* The numbers of a limit of memory that is not in huge pages. */
void cgroup_set_memory(struct cgroup_limit *limit, uint64_t bytes, uint64_t used);
/* What the limit is, and how to raise it: "FILE is 1 GiB, of which ...". */
#define CGROUP_TEXT(limit) cgroup_text(limit, (char[CGROUP_TEXT_BYTES]){ 0 })
const char *cgroup_text(const struct cgroup_limit *limit, char buf[CGROUP_TEXT_BYTES]);

#endif
