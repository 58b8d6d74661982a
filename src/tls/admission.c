/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/admission.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/err.h"
#include "base/random.h"

struct admission_name {
	char what[12];
	uint32_t channel;
	uint64_t session;
} __attribute__((packed));

int admission_token(const uint8_t *secret, size_t secret_bytes, uint64_t session,
		    uint32_t channel, uint8_t ret_token[ADMISSION_BYTES])
{
	struct admission_name name = { .what = "rmem channel",
				       .channel = htole32(channel),
				       .session = htole64(session) };
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned bytes = 0;

	if (!HMAC(EVP_sha256(), secret, (int)secret_bytes, (const uint8_t *)&name,
		  sizeof(name), digest, &bytes) ||
	    bytes < ADMISSION_BYTES) {
		/* a token of zeros would admit whoever sends zeros */
		random_bytes(ret_token, ADMISSION_BYTES);
		return err_set(-ENOMEM, "no memory for the token of a channel");
	}
	memcpy(ret_token, digest, ADMISSION_BYTES);
	explicit_bzero(digest, sizeof(digest));
	return 0;
}
