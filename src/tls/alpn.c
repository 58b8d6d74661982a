/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/alpn.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

const unsigned char alpn_name[7] = { 6, 'r', 'm', 'e', 'm', '/', '1' };

/* OpenSSL asks on_choose() only about clients that offer something. */
static int on_hello(SSL *ssl, int *ret_alert, void *)
{
	const unsigned char *offered;
	size_t bytes;

	if (SSL_client_hello_get0_ext(
		    ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &offered,
		    &bytes) == 1)
		return SSL_CLIENT_HELLO_SUCCESS;
	*ret_alert = SSL_AD_NO_APPLICATION_PROTOCOL;
	return SSL_CLIENT_HELLO_ERROR;
}

static int on_choose(SSL *, const unsigned char **ret_name, unsigned char *ret_bytes,
		     const unsigned char *offered, unsigned bytes, void *)
{
	unsigned char *name;

	if (SSL_select_next_proto(&name, ret_bytes, alpn_name, sizeof(alpn_name),
				  offered, bytes) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret_name = name;
	return SSL_TLSEXT_ERR_OK;
}

bool alpn_require(SSL_CTX *ctx)
{
	SSL_CTX_set_client_hello_cb(ctx, on_hello, NULL);
	SSL_CTX_set_alpn_select_cb(ctx, on_choose, NULL);
	/* unlike its neighbours it returns 0 if all is well */
	return !SSL_CTX_set_alpn_protos(ctx, alpn_name, sizeof(alpn_name));
}

int alpn_check(const SSL *ssl)
{
	const unsigned char *name;
	unsigned bytes;

	SSL_get0_alpn_selected(ssl, &name, &bytes);
	if (bytes == alpn_name[0] && memcmp(name, alpn_name + 1, bytes) == 0)
		return 0;
	return err_set(-EPROTO, "TLS: the server does not choose the protocol rmem/1 "
				"(ALPN)");
}
