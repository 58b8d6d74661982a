/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether libibverbs and librdmacm are there, for clients and doctors.  Linked, they are
 * (linked.c); with configure --with-rdma=dlopen they are loaded (loaded.c).  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_LOAD_H
#define FABRIC_VERBS_COMMON_LOAD_H

/* NULL, or why they cannot be used and what to install.  Call it before any function of theirs;
 * the first call loads them. */
const char *verbs_missing(void);

#endif
