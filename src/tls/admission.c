/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/admission.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "tls/failure.h"

struct admission_name {
	char what[12];
	uint32_t channel;
	uint64_t session;
	uint8_t address[ADMISSION_ADDRESS_BYTES]; /* of an origin */
} __attribute__((packed));

#define TOKEN_NAME_BYTES offsetof(struct admission_name, address)

/* A failure is one of memory: what it leaves is not to be compared, as zeros would admit whoever
 * sends zeros. */
static int digest_cut(const uint8_t secret[ADMISSION_SECRET_BYTES],
		      const struct admission_name *name, size_t name_bytes,
		      uint8_t *ret, size_t ret_bytes)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned bytes = 0;

	if (!HMAC(EVP_sha256(), secret, ADMISSION_SECRET_BYTES, (const uint8_t *)name,
		  name_bytes, digest, &bytes) ||
	    bytes < ret_bytes)
		return tls_failure(-ENOMEM, "the token of a channel");
	memcpy(ret, digest, ret_bytes);
	explicit_bzero(digest, sizeof(digest));
	return 0;
}

int admission_token(const uint8_t secret[ADMISSION_SECRET_BYTES], uint64_t session,
		    uint32_t channel, uint8_t ret_token[ADMISSION_BYTES])
{
	const struct admission_name name = { .what = "rmem channel",
					     .channel = htole32(channel),
					     .session = htole64(session) };

	return digest_cut(secret, &name, TOKEN_NAME_BYTES, ret_token, ADMISSION_BYTES);
}

int admission_origin(const uint8_t secret[ADMISSION_SECRET_BYTES], uint64_t session,
		     uint32_t channel, const uint8_t address[ADMISSION_ADDRESS_BYTES],
		     uint8_t ret_origin[ADMISSION_ORIGIN_BYTES])
{
	struct admission_name name = { .what = "rmem origin",
				       .channel = htole32(channel),
				       .session = htole64(session) };

	memcpy(name.address, address, sizeof(name.address));
	return digest_cut(secret, &name, sizeof(name), ret_origin,
			  ADMISSION_ORIGIN_BYTES);
}

int admission_key(const uint8_t secret[ADMISSION_SECRET_BYTES], uint64_t session,
		  uint32_t channel, uint8_t ret_key[ADMISSION_KEY_BYTES])
{
	const struct admission_name name = { .what = "rmem key",
					     .channel = htole32(channel),
					     .session = htole64(session) };

	return digest_cut(secret, &name, TOKEN_NAME_BYTES, ret_key,
			  ADMISSION_KEY_BYTES);
}
