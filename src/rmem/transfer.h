/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between a lease and a file descriptor, with several chunks in flight, through registered
 * memory.  A signal caught by interrupt_catch() ends a transfer with -EINTR.  Threads: [main]. */
#ifndef RMEM_TRANSFER_H
#define RMEM_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

#include "rmem/progress.h"

struct transfer;

/* Create the queue and the buffer.  Borrows session and progress.  The caller calls
 * transfer_free() before rmem_close().  -errno with err_text(). */
int transfer_create(rmem *session, struct progress *progress,
		    struct transfer **ret_transfer);

/* Operations in flight are flushed.  NULL is allowed. */
void transfer_free(struct transfer *t);

/* Write everything read from `fd` to the start of the lease, which grows as needed, a little in
 * advance.  *ret_bytes: number of bytes written; the lease may be longer. */
int transfer_put(struct transfer *t, rmem_lease *lease, int fd, uint64_t *ret_bytes);

/* Write `bytes` of the lease, from `offset` on, to `fd`.  A few MiB are read as a whole before any
 * of them is written.  `text`: -EINVAL with text at the first of them that is no visible text. */
int transfer_get(struct transfer *t, rmem_lease *lease, int fd, uint64_t offset,
		 uint64_t bytes, bool text);
/* Whether the last transfer_get() has written anything. */
bool transfer_wrote(const struct transfer *t);
/* After a transfer that failed: end its operations, so that another can begin. */
int transfer_reset(struct transfer *t);

#endif
