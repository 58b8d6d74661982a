/* SPDX-License-Identifier: BSD-3-Clause */
/* What was said of where the server may listen, kept so that it can look again.
 * Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_PARAMS_H
#define FABRIC_VERBS_SERVER_PARAMS_H

#include "fabric/fabric.h"

/* A copy, as far as it concerns devices and addresses; ended by verbs_params_free().
 * -ENOMEM with text. */
int verbs_params_copy(const struct fabric_server_params *params,
		      struct fabric_server_params **ret_params);
/* NULL: nothing. */
void verbs_params_free(struct fabric_server_params *made);

#endif
