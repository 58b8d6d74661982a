/* SPDX-License-Identifier: BSD-3-Clause */
/* Workarounds for siw (soft-iWARP, the kernel's iWARP in software).  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_IWARP_H
#define FABRIC_VERBS_COMMON_IWARP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* siw's vendor id, from ibv_query_device(). */
#define VERBS_SIW_VENDOR 0x626d74u

/* Call this before the first object is created on a device's context; repeating it is harmless.
 * siw's library (rdma-core 44) mistakes the mapping offset 0x90000, which the kernel assigns like
 * any other, for no offset.  Then no queue pair or completion queue can be created any more, as the
 * offset stays the next free one.  This function creates a completion queue that occupies the
 * offset while the context is open. */
void verbs_siw_reserve(struct ibv_context *verbs, uint32_t vendor);

/* Call this before a context is closed or disassociated: a remaining mapping keeps the context open
 * for the kernel, and a removal of the device would wait for ever. */
void verbs_siw_unreserve(const struct ibv_context *verbs);

/* siw writes to its TCP socket in the calls of the program that posts, and on a closed
 * connection the kernel sends SIGPIPE to this program.  The library must neither let the signal end
 * the program nor change the program's signal handling.  Begin and end are called in one thread. */
struct verbs_sigpipe {
	bool guarded;
	bool blocked, pending; /* the state before, set by the program */
};

/* Whether the program ignores SIGPIPE: then no guard is needed. */
bool verbs_sigpipe_ignored(void);
/* If `guard`, block SIGPIPE in this thread until verbs_sigpipe_end(). */
void verbs_sigpipe_begin(struct verbs_sigpipe *sigpipe, bool guard);
/* Discard a SIGPIPE that arrived since verbs_sigpipe_begin(). */
void verbs_sigpipe_end(const struct verbs_sigpipe *sigpipe);

#endif
