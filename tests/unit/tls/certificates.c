/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/tls/certificates.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define DAY_S (24L * 3600)

static FILE *file_open(const char *folder, const char *name, const char *mode)
{
	char path[300];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s.pem", folder, name);
	file = fopen(path, mode);
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(chmod(path, 0600), 0);
	return file;
}

static void extension_add(X509 *certificate, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&ctx, issuer, certificate, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ck_assert_ptr_nonnull(extension);
	ck_assert_int_eq(X509_add_ext(certificate, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

static X509 *certificate_fill(const struct test_certificate *params, EVP_PKEY *key,
			      X509 *ca)
{
	static long serial;
	X509 *certificate = X509_new();
	X509_NAME *name = X509_get_subject_name(certificate);
	long end_s = params->days * DAY_S;
	const char *usage = "";

	ck_assert_int_eq(X509_set_version(certificate, X509_VERSION_3), 1);
	ck_assert_int_eq(ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial),
			 1);
	(void)X509_gmtime_adj(X509_getm_notBefore(certificate),
			      (params->begin_days ? params->begin_days : -10) * DAY_S);
	(void)X509_gmtime_adj(X509_getm_notAfter(certificate), end_s);
	ck_assert_int_eq(X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC,
						    (const unsigned char *)"rmem, test",
						    -1, -1, 0),
			 1);
	ck_assert_int_eq(X509_NAME_add_entry_by_txt(
				 name, "CN", MBSTRING_ASC,
				 (const unsigned char *)params->subject, -1, -1, 0),
			 1);
	ck_assert_int_eq(
		X509_set_issuer_name(certificate,
				     X509_get_subject_name(ca ? ca : certificate)),
		1);
	ck_assert_int_eq(X509_set_pubkey(certificate, key), 1);
	extension_add(certificate, ca ? ca : certificate, NID_basic_constraints,
		      ca || params->leaf ? "critical,CA:FALSE" : "critical,CA:TRUE");
	if (params->names)
		extension_add(certificate, ca ? ca : certificate, NID_subject_alt_name,
			      params->names);
	if (params->key_usage)
		extension_add(certificate, ca ? ca : certificate, NID_key_usage,
			      params->key_usage);
	if (ca || params->leaf)
		usage = params->usage ? params->usage : "serverAuth,clientAuth";
	if (*usage)
		extension_add(certificate, ca ? ca : certificate, NID_ext_key_usage,
			      usage);
	return certificate;
}

void key_encrypt(const char *folder, const char *name, const char *password)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	FILE *file = file_open(folder, name, "we");

	ck_assert_ptr_nonnull(key);
	ck_assert_int_eq(PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(),
					      (const unsigned char *)password,
					      (int)strlen(password), NULL, NULL),
			 1);
	ck_assert_int_eq(fclose(file), 0);
	EVP_PKEY_free(key);
}

void certificate_write(const char *folder, const char *name, const char *ca,
		       const struct test_certificate *params)
{
	EVP_PKEY *key = EVP_EC_gen("P-256"), *ca_key = key;
	X509 *certificate, *ca_certificate = NULL;
	FILE *file;

	ck_assert_ptr_nonnull(key);
	if (ca) {
		file = file_open(folder, ca, "re");
		ca_certificate = PEM_read_X509(file, NULL, NULL, NULL);
		ca_key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
		(void)fclose(file);
		ck_assert_ptr_nonnull(ca_key);
	}
	certificate = certificate_fill(params, key, ca_certificate);
	ck_assert_int_gt(X509_sign(certificate, ca_key, EVP_sha256()), 0);
	file = file_open(folder, name, "we");
	ck_assert_int_eq(PEM_write_X509(file, certificate), 1);
	ck_assert_int_eq(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	ck_assert_int_eq(fclose(file), 0);
	X509_free(certificate);
	EVP_PKEY_free(key);
	if (ca) {
		X509_free(ca_certificate);
		EVP_PKEY_free(ca_key);
	}
}
