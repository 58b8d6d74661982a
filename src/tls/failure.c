/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/failure.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/err.h"

int tls_failure(int err, const char *what)
{
	unsigned long code = ERR_get_error();
	const char *reason = ERR_SYSTEM_ERROR(code)
				     ? strerrordesc_np(ERR_GET_REASON(code))
				     : ERR_reason_error_string(code);
	char number[32];

	/* without memory it cannot note its error either */
	if (!code)
		reason = strerrordesc_np(-err);
	ERR_clear_error();
	if (!reason) {
		(void)snprintf(number, sizeof(number), "error %lx", code);
		reason = number;
	}
	return err_set(err, "%s: %s", what, reason);
}

/* The errno and the text of an alert that the other side sent, or of this side's own refusal. */
static const struct {
	int reason;
	int err;
	const char *text;
} refusals[] = {
	{ SSL_R_BINDER_DOES_NOT_VERIFY, EACCES, "the client has another key" },
	/* OpenSSL 3.5 sends the former for a wrong pre-shared key, earlier ones the latter */
	{ SSL_R_TLSV1_ALERT_DECRYPT_ERROR, EACCES,
	  "the other side does not accept this key" },
	{ SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, EACCES,
	  "the other side does not accept this key" },
	{ SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, EACCES,
	  "the other side asks for something else, a pre-shared key or a certificate" },
	{ SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, EACCES,
	  "the client shows no pre-shared key, and the server has no certificate" },
	{ SSL_R_NO_SHARED_CIPHER, EPROTO,
	  "the two sides have no cipher in common that goes with the keys" },
	{ SSL_R_NO_SUITABLE_KEY_SHARE, EPROTO,
	  "the two sides have no group of the key exchange in common: X25519, P-256 or "
	  "P-384" },
	{ SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, EACCES,
	  "the client shows no certificate" },
	{ SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, EACCES,
	  "the server asks for a certificate: give cert and key" },
	{ SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, EACCES,
	  "the other side does not accept the certificate" },
	{ SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, EACCES,
	  "the other side does not accept the certificate: its extended key usage "
	  "needs "
	  "clientAuth, that of a server serverAuth" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, EACCES,
	  "the other side finds that the certificate has expired" },
	{ SSL_R_TLSV1_ALERT_UNKNOWN_CA, EACCES,
	  "the other side does not know who signed the certificate" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, EACCES,
	  "the other side does not accept the certificate" },
	{ SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, EPROTO,
	  "the two sides have no version of TLS in common; rmem needs 1.3" },
	{ SSL_R_UNSUPPORTED_PROTOCOL, EPROTO,
	  "the two sides have no version of TLS in common; rmem needs 1.3" },
	/* a client that offers none, and one that offers others */
	{ SSL_R_CALLBACK_FAILED, EPROTO,
	  "the client does not offer the protocol rmem/1 (ALPN)" },
	{ SSL_R_NO_APPLICATION_PROTOCOL, EPROTO,
	  "the client does not offer the protocol rmem/1 (ALPN)" },
	{ SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, EPROTO,
	  "the server does not speak the protocol rmem/1 (ALPN)" },
	/* the only reason of on_use_key() to fail */
	{ SSL_R_BAD_PSK, ENOMEM, "no memory for the pre-shared key" },
	{ SSL_R_WRONG_VERSION_NUMBER, EPROTO, "the other side does not speak TLS" },
	{ SSL_R_HTTP_REQUEST, EPROTO, "the other side does not speak TLS" },
};

/* Whether memory was missing, which OpenSSL reports beside what failed for it. */
static bool memory_missing(long verified)
{
	return ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE ||
	       ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE ||
	       verified == X509_V_ERR_OUT_OF_MEM;
}

/* What is wrong with a certificate, by the result of its verification. */
static const char *verified_text(const struct ssl_st *ssl, long verified)
{
	switch (verified) {
	case X509_V_ERR_INVALID_PURPOSE:
		return SSL_is_server(ssl) ? "its extended key usage has no clientAuth"
					  : "its extended key usage has no serverAuth";
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "the name that is asked for is not in its subjectAltName";
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		return "none of ca has signed it";
	default:
		return X509_verify_cert_error_string(verified);
	}
}

int tls_connection_failure(const struct ssl_st *ssl)
{
	int reason = ERR_GET_REASON(ERR_peek_error());
	long verified = SSL_get_verify_result(ssl);

	if (memory_missing(verified)) {
		ERR_clear_error();
		return err_set(-ENOMEM, "TLS: no memory");
	}
	/* behind the errors of the verification itself, such as of a signature */
	if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_CERTIFICATE_VERIFY_FAILED &&
	    verified != X509_V_OK) {
		ERR_clear_error();
		return err_set(-EACCES, "TLS: the certificate of the other side: %s",
			       verified_text(ssl, verified));
	}
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (reason == refusals[i].reason) {
			ERR_clear_error();
			return err_set(-refusals[i].err, "TLS: %s", refusals[i].text);
		}
	return tls_failure(-EPROTO, "TLS");
}
