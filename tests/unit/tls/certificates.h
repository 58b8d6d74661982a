/* SPDX-License-Identifier: BSD-3-Clause */
/* Certificates for tests, made when they are needed. */
#ifndef UNIT_TLS_CERTIFICATES_H
#define UNIT_TLS_CERTIFICATES_H

#include <stdbool.h>

struct test_certificate {
	const char *subject; /* common name */
	const char *names;   /* subjectAltName as in openssl.cnf; NULL: none */
	int days;       /* it is valid for, from now on; negative: it has expired */
	int begin_days; /* it is valid from then on; 0: it is valid already */
	/* extendedKeyUsage; NULL: of servers and clients; "": none */
	const char *usage;
	const char *key_usage; /* as in openssl.cnf; NULL: any */
	bool leaf;             /* signed by itself, but not as a CA */
};

/* Write FOLDER/NAME.pem, a certificate and its key, signed by FOLDER/CA.pem; ca NULL: by itself, as
 * a CA. */
void certificate_write(const char *folder, const char *name, const char *ca,
		       const struct test_certificate *params);
/* Write FOLDER/NAME.pem, a key alone, which asks for a password. */
void key_encrypt(const char *folder, const char *name, const char *password);

#endif
