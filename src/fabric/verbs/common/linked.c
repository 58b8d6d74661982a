/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>

#include "fabric/verbs/common/load.h"

const char *verbs_missing(void)
{
	return NULL;
}
