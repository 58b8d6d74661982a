/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the daemon's memory is kept when the process ends: in the files of a directory, as
 * memfds that the service manager holds, or not at all.  Threads: [loop]. */
#ifndef RMEMD_KEEP_H
#define RMEMD_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/system/systemd.h"

struct keep;

/* dir  on tmpfs or hugetlbfs, for this user alone; "": the service manager keeps it, if there
 *      is one that does
 * fds  what was passed at start, taken over
 *   -EINVAL  no such directory, or one that others may look into, or the service manager
 *            keeps something that is lent
 *   -EBUSY   another rmemd has it
 *   -ENOMEM, or what the kernel says */
int keep_open(const char *dir, const struct notify_fds *fds, struct keep **ret_keep);
/* Closes all descriptors; what they stand for stays.  NULL: nothing. */
void keep_close(struct keep *keep);

/* Whether another process will find what this one has. */
bool keep_lasts(const struct keep *keep);
/* How an administrator gives up all that is kept. */
const char *keep_remedy(const struct keep *keep);

/* The file of the ledger, made if there is none; borrowed. */
int keep_ledger(const struct keep *keep);
/* Give up what is kept of pools besides these: their process ended as it made them, or gave
 * them up.  -errno when it cannot be told */
int keep_sweep(struct keep *keep, const uint32_t *ids, unsigned n_ids);
/* The file that a pool was in, borrowed; 0: there is none.
 *   -errno  it cannot be told whether there is */
int keep_pool_find(struct keep *keep, uint32_t id, int *ret_fd);
/* Where a new pool is to be, borrowed; 0: in a memfd of its own. */
int keep_pool_make(struct keep *keep, uint32_t id, int *ret_fd);
/* A new pool has its memory, in this file. */
void keep_pool_hold(struct keep *keep, uint32_t id, int fd);
/* A pool is given up. */
void keep_pool_drop(struct keep *keep, uint32_t id);

#endif
