/* SPDX-License-Identifier: BSD-3-Clause */
/* What admits a connection of a channel at the server: derived from the secret of the control
 * connection, which may end while the channel's connection is made.
 * Threads: [any], not the same object from two. */
#ifndef LIBRMEM_CHANNEL_CREDENTIAL_H
#define LIBRMEM_CHANNEL_CREDENTIAL_H

#include "fabric/client.h"
#include "tls/admission.h"

struct credential {
	uint8_t secret[ADMISSION_SECRET_BYTES];
};

/* Let the channel be connected with this secret: its hello gets its token, and later its origin.
 * TLS gets its key.  -ENOMEM. */
int credential_give(struct credential *credential,
		    const uint8_t secret[ADMISSION_SECRET_BYTES],
		    struct fabric_channel_params *params);
void credential_wipe(struct credential *credential,
		     struct fabric_channel_params *params);

#endif
