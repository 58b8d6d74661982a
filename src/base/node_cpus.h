/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPUs of a NUMA node, without libnuma, which ends the process or caches an empty answer when
 * it has no memory.  Threads: [any] */
#ifndef BASE_NODE_CPUS_H
#define BASE_NODE_CPUS_H

#include <sched.h>

/* The number of the node's CPUs; 0: it has none, or the kernel does not tell. */
unsigned node_cpus(int node, cpu_set_t *ret_cpus);
/* "0-3,8", as the kernel writes it; other text ends the list. */
unsigned node_cpus_parse(const char *text, cpu_set_t *ret_cpus);
/* Let this thread run on the node's CPUs only.  Others would only be slower, so a failure does no
 * harm.  node -1: no effect */
void node_cpus_use(int node);

#endif
