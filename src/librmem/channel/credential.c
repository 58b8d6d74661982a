/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/credential.h"

#include <string.h>

#include "fabric/address.h"
#include "tls/admission.h"

static void name_source(void *ctx, const struct fabric_address *source,
			struct fabric_hello *hello)
{
	const struct credential *credential = ctx;
	uint8_t gid[ADMISSION_ADDRESS_BYTES];

	fabric_address_to_gid(source, gid);
	/* the server refuses a channel without one, and the next attempt may have memory */
	(void)admission_origin(credential->secret, hello->session, hello->channel, gid,
			       hello->origin);
}

int credential_give(struct credential *credential,
		    const uint8_t secret[ADMISSION_SECRET_BYTES],
		    struct fabric_channel_params *params)
{
	struct fabric_hello *hello = &params->hello;
	int err;

	memcpy(credential->secret, secret, sizeof(credential->secret));
	params->name_source = name_source;
	params->name_source_ctx = credential;
	err = admission_token(credential->secret, hello->session, hello->channel,
			      hello->token);
	return err ? err
		   : admission_key(credential->secret, hello->session, hello->channel,
				   params->tls_key);
}

void credential_wipe(struct credential *credential,
		     struct fabric_channel_params *params)
{
	explicit_bzero(params->tls_key, sizeof(params->tls_key));
	explicit_bzero(credential, sizeof(*credential));
}
