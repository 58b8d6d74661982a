/* SPDX-License-Identifier: BSD-3-Clause */
/* A completion's status as the fabric tells it.  Threads: [any]. */
#ifndef FABRIC_VERBS_CLIENT_WC_STATUS_H
#define FABRIC_VERBS_CLIENT_WC_STATUS_H

#include <infiniband/verbs.h>

/* As fabric_wc.status. */
int verbs_wc_errno(enum ibv_wc_status status);

#endif
