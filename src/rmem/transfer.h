/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes between a lease and a file descriptor, several chunks in flight through
 * registered memory.  A signal caught by interrupt_catch() ends a transfer with -EINTR.
 * Threads: none but main. */
#ifndef RMEM_TRANSFER_H
#define RMEM_TRANSFER_H

#include <stdint.h>

#include <rmem/rmem.h>

#include "rmem/progress.h"

struct transfer;

/* Make a queue and the memory behind it.  Borrows @session and @progress.
 * The caller ends it with transfer_free(), before rmem_close().  -errno with
 * err_text(). */
int transfer_create(rmem *session, struct progress *progress,
		    struct transfer **ret_transfer);

/* NULL: nothing.  What is in flight is flushed. */
void transfer_free(struct transfer *t);

/* Write all that can be read from `fd` to the start of the lease, which grows as
 * needed: by doubling, or by less where the server has no more. ret_bytes  how many
 * that were; they are placed, the lease may be longer */
int transfer_put(struct transfer *t, rmem_lease *lease, int fd, uint64_t *ret_bytes);

/* Write the first `bytes` of the lease to `fd`. */
int transfer_get(struct transfer *t, rmem_lease *lease, int fd, uint64_t bytes);

#endif
