/* SPDX-License-Identifier: BSD-3-Clause */
/* What outlasts the daemon: the files of the ledger and the pools, which the service manager stores
 * (in place of src/rmemd/system/fdstore.c), and copies of them as a crash leaves them. */
#ifndef TESTS_UNIT_STORAGE_H
#define TESTS_UNIT_STORAGE_H

#include <stdint.h>

/* Without files. */
void storage_open(void);
void storage_close(void);
/* Keep the present content of all files; go back to it. */
void storage_keep(void);
void storage_restore(void);
int storage_ledger(void);

#endif
