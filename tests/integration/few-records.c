/* SPDX-License-Identifier: BSD-3-Clause */
/* In a program: a key of TLS wears out soon. */
#include "tls/records.h"

static __attribute__((constructor)) void few_records(void)
{
	tls_records_max = 1024;
}
