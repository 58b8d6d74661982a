/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/kernel.h"

#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "base/err.h"
#include "tls/failure.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

/* HKDF-Expand-Label of RFC 8446 with SHA-256, without context. */
static int expand_label(uint8_t secret[STREAM_SECRET_BYTES], char *label, uint8_t *ret,
			size_t ret_bytes)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS13-KDF", NULL);
	EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
	int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
	char digest[] = "SHA256", prefix[] = "tls13 ";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_int(OSSL_KDF_PARAM_MODE, &mode),
		OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, strlen(digest)),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_KEY, secret,
					STREAM_SECRET_BYTES),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_PREFIX, prefix, strlen(prefix)),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_LABEL, label, strlen(label)),
		OSSL_PARAM_END,
	};
	bool derived = ctx && EVP_KDF_derive(ctx, ret, ret_bytes, params) == 1;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return derived ? 0 : tls_failure(-ENOMEM, "the keys of a channel");
}

/* One direction, from its first record on. */
static int direction_set(int fd, int direction, uint8_t secret[STREAM_SECRET_BYTES])
{
	struct tls12_crypto_info_aes_gcm_128 info = {
		.info = { .version = TLS_1_3_VERSION,
			  .cipher_type = TLS_CIPHER_AES_GCM_128 },
	};
	uint8_t iv[TLS_CIPHER_AES_GCM_128_SALT_SIZE + TLS_CIPHER_AES_GCM_128_IV_SIZE];
	int err = expand_label(secret, (char[]){ "key" }, info.key, sizeof(info.key));

	if (!err)
		err = expand_label(secret, (char[]){ "iv" }, iv, sizeof(iv));
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

int tls_kernel_take(int fd, struct channel_secrets *secrets)
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
