/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the daemon's memory is kept when the process ends: in the files of a directory, as
 * memfds that the service manager holds, or not at all.  Threads: [loop]. */
#ifndef RMEMD_SYSTEM_FDSTORE_H
#define RMEMD_SYSTEM_FDSTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/system/systemd.h"

struct fdstore;

/* dir  on tmpfs or hugetlbfs, for this user alone; "": the service manager keeps it, if there
 *      is one that does
 * fds  what was passed at start, taken over
 *   -EINVAL  no such directory, or one that others may look into, or the service manager
 *            keeps something that is lent
 *   -EBUSY   another rmemd has it
 *   -ENOMEM, or what the kernel says */
int fdstore_open(const char *dir, const struct systemd_fds *fds,
		 struct fdstore **ret_keep);
/* Closes all descriptors; what they stand for stays.  NULL: nothing. */
void fdstore_close(struct fdstore *keep);

/* Whether another process will find what this one has. */
bool fdstore_lasts(const struct fdstore *keep);
/* How an administrator gives up all that is kept. */
const char *fdstore_remedy(const struct fdstore *keep);

/* The file of the ledger, made if there is none; borrowed. */
int fdstore_ledger(const struct fdstore *keep);
/* Give up what is kept of pools besides these: their process ended as it made them, or gave
 * them up.  -errno when it cannot be told */
int fdstore_sweep(struct fdstore *keep, const uint32_t *ids, unsigned n_ids);
/* The file that a pool was in, borrowed; 0: there is none.
 *   -errno  it cannot be told whether there is */
int fdstore_find_pool(struct fdstore *keep, uint32_t id, int *ret_fd);
/* Where a new pool is to be, borrowed; 0: in a memfd of its own. */
int fdstore_make_pool(struct fdstore *keep, uint32_t id, int *ret_fd);
/* A new pool has its memory, in this file. */
void fdstore_hold_pool(struct fdstore *keep, uint32_t id, int fd);
/* A pool is given up. */
void fdstore_drop_pool(struct fdstore *keep, uint32_t id);

#endif
