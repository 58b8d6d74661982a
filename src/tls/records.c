/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/records.h"

uint64_t tls_records_max = UINT64_C(1) << 24;
