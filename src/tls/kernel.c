/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/kernel.h"

#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/err.h"
#include "tls/failure.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

/* HKDF-Expand-Label of RFC 8446 with SHA-256, without context, for results up to one hash. */
static int expand_label(const uint8_t secret[STREAM_SECRET_BYTES], const char *label,
			uint8_t *ret, size_t ret_bytes)
{
	uint8_t info[32] = { 0, (uint8_t)ret_bytes, (uint8_t)strlen(label) };
	uint8_t digest[EVP_MAX_MD_SIZE];
	size_t n = 3 + strlen(label);
	unsigned bytes = 0;

	memcpy(info + 3, label, strlen(label));
	info[n++] = 0; /* length of the context */
	info[n++] = 1; /* the first block */
	if (!HMAC(EVP_sha256(), secret, STREAM_SECRET_BYTES, info, n, digest, &bytes) ||
	    bytes < ret_bytes)
		return tls_failure(-ENOMEM, "the keys of a channel");
	memcpy(ret, digest, ret_bytes);
	explicit_bzero(digest, sizeof(digest));
	return 0;
}

/* One direction, from its first record on. */
static int direction_set(int fd, int direction,
			 const uint8_t secret[STREAM_SECRET_BYTES])
{
	struct tls12_crypto_info_aes_gcm_128 info = {
		.info = { .version = TLS_1_3_VERSION,
			  .cipher_type = TLS_CIPHER_AES_GCM_128 },
	};
	uint8_t iv[TLS_CIPHER_AES_GCM_128_SALT_SIZE + TLS_CIPHER_AES_GCM_128_IV_SIZE];
	int err = expand_label(secret, "tls13 key", info.key, sizeof(info.key));

	if (!err)
		err = expand_label(secret, "tls13 iv", iv, sizeof(iv));
	if (!err) {
		memcpy(info.salt, iv, sizeof(info.salt));
		memcpy(info.iv, iv + sizeof(info.salt), sizeof(info.iv));
		if (setsockopt(fd, SOL_TLS, direction, &info, sizeof(info)))
			err = err_errno(-errno, "TLS in the kernel");
	}
	explicit_bzero(&info, sizeof(info));
	explicit_bzero(iv, sizeof(iv));
	return err;
}

int tls_kernel_take(int fd, const struct channel_secrets *secrets)
{
	int err;

	if (setsockopt(fd, SOL_TCP, TCP_ULP, "tls", sizeof("tls")))
		return -ENOTSUP;
	err = direction_set(fd, TLS_RX, secrets->received);
	/* as long as neither is set, the socket works as before */
	if (err)
		return -ENOTSUP;
	return direction_set(fd, TLS_TX, secrets->sent);
}
