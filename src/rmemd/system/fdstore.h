/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of the ledger and the pools, which outlast the process: in a directory, or as memfds
 * that the service manager stores.  Without either they end with it.  Threads: [loop]. */
#ifndef RMEMD_SYSTEM_FDSTORE_H
#define RMEMD_SYSTEM_FDSTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/system/systemd.h"

struct fdstore;

/* dir  on tmpfs or hugetlbfs, accessible to this user alone; "": the service manager stores the
 *      files, if there is one that can
 * fds  the descriptors passed at start, taken over
 *   -EINVAL  no such directory, or others may access it, or it has pools and an empty ledger, or
 *            the service manager stores memory that is lent
 *   -EBUSY   another rmemd uses it
 *   -ENOMEM, or an error of the kernel */
int fdstore_open(const char *dir, const struct systemd_fds *fds,
		 struct fdstore **ret_store);
/* Closes all descriptors; the files stay.  NULL: nothing. */
void fdstore_close(struct fdstore *store);

/* Whether the next process will find the files of this one. */
bool fdstore_lasts(const struct fdstore *store);
/* Once the pools of the start are stored: ask the service manager, if it stores them, whether it
 * has all files; and again for each one that is stored from then on.  `verified` is called with
 * each answer, before fdstore_close().  err 0: it has; -ENOSPC: it has not, and the files do not
 * last; other errors, with text: it is not known. */
typedef void fdstore_verified(void *ctx, int err);
void fdstore_verify(struct fdstore *store, struct event_base *base,
		    fdstore_verified *verified, void *ctx);
/* How an administrator removes all the files, for an error text. */
const char *fdstore_remedy(const struct fdstore *store);
/* Where the files are, for an error text. */
const char *fdstore_place(const struct fdstore *store);

/* The file of the ledger, created if there is none; borrowed. */
int fdstore_ledger(const struct fdstore *store);
/* Remove the files of all pools but these, and log each: their process ended while it made or gave
 * them up.
 * -errno: the directory cannot be read */
int fdstore_sweep(struct fdstore *store, const uint32_t *ids, unsigned n_ids);
/* The file of a pool of the last process, borrowed; 0: there is none.
 *   -errno  it is not known whether there is one */
int fdstore_find_pool(struct fdstore *store, uint32_t id, int *ret_fd);
/* A file for a new pool, borrowed; 0: it makes a memfd itself. */
int fdstore_make_pool(struct fdstore *store, uint32_t id, int *ret_fd);
/* Store the file of a new pool, which has its memory now. */
void fdstore_store_pool(struct fdstore *store, uint32_t id, int fd);
/* Remove the file of a pool. */
void fdstore_drop_pool(struct fdstore *store, uint32_t id);

#endif
