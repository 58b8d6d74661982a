/* SPDX-License-Identifier: BSD-3-Clause */
/* What is configured of a tenant: its limits and its rights.  Threads: constant. */
#ifndef RMEMD_LEASE_TENANT_PARAMS_H
#define RMEMD_LEASE_TENANT_PARAMS_H

#include <stdint.h>

#include "rmemd/pool/pool_params.h"

#define TENANT_NAME_MAX 32
#define RIGHTS_NAMES_MAX 16
#define RIGHTS_NAME_BYTES 64

struct tenant_limits {
	uint64_t bytes_max; /* of the pools, all leases together; 0: no limit */
	uint32_t leases_max;
	uint32_t sessions_max;     /* 0: no limit */
	uint32_t channels_max;     /* of all sessions together; 0: no limit */
	uint32_t keys_max;         /* of all sessions together */
	uint32_t session_keys_max; /* of one session */
	uint64_t lease_min;        /* bytes of one lease that has memory */
	uint64_t lease_max;        /* bytes of one lease; 0: no limit */
	uint64_t ttl_max_ms;       /* of a named lease; 0: no limit */
	unsigned reserve; /* per cent kept for it of what tenants share; 0: automatic */
};

enum rights_access { RIGHTS_READ_WRITE, RIGHTS_READ_ONLY };

struct rights {
	struct pool_names pools; /* for its leases */
	int access;              /* enum rights_access */
	/* Names that it may give to leases; a '*' at the end stands for any text.  None: all. */
	char names[RIGHTS_NAMES_MAX][RIGHTS_NAME_BYTES];
	unsigned n_names;
};

struct tenant_params {
	char name[TENANT_NAME_MAX + 1];
	struct tenant_limits limits;
	struct rights rights;
	char certificates[256]; /* patterns of stream_certified_as() */
};

#endif
