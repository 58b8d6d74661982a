/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of keys and certificates, patterns of certificates' names, and the names in a certificate.
 * The first byte says which; what is accepted is what was written. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/err.h"
#include "fuzz/target.h"
#include "fuzz/tls-kit.h"
#include "tls/certificate.h"

#define TEXT_MAX 1000

const unsigned fuzz_rounds = 4000;

enum kind { KIND_KEYS, KIND_CERTIFICATE, KIND_CA, KIND_PATTERNS, KIND_NAMES, KINDS };

static void failed(int err)
{
	ck_assert_int_lt(err, 0);
	ck_assert_int_ne(err_text()[0], '\0');
}

/* The first line that is no comment begins with the first key's tenant. */
static void check_first(const struct tls_key *key, const uint8_t *data, size_t bytes)
{
	size_t len = strlen(key->tenant);
	const uint8_t *at = data, *end = data + bytes;

	while (at < end && (*at == '#' || strchr(" \t\r\n\v\f", *at))) {
		const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));

		ck_assert_ptr_nonnull(newline);
		at = newline + 1;
	}
	ck_assert_uint_gt((size_t)(end - at), len);
	ck_assert(memcmp(at, key->tenant, len) == 0 && at[len] == ':');
}

static void run_keys(const uint8_t *data, size_t bytes)
{
	const struct tls_key *first;
	struct tls_keys *keys;
	int err = tls_keys_load(tls_kit_file(data, bytes), &keys);

	if (err) {
		failed(err);
		return;
	}
	first = tls_keys_first(keys, NULL);
	ck_assert_uint_gt(tls_keys_count(keys), 0);
	ck_assert_int_ne(first->tenant[0], '\0');
	ck_assert(first->n_bytes >= TLS_KEY_MIN && first->n_bytes <= TLS_KEY_MAX);
	check_first(first, data, bytes);
	ck_assert_ptr_eq(tls_keys_find(keys, first->identity, strlen(first->identity)),
			 first);
	ck_assert_ptr_eq(tls_keys_first(keys, first->tenant), first);
	tls_keys_free(keys);
}

static void run_file(const uint8_t *data, size_t bytes, bool is_ca)
{
	const char *path = tls_kit_file(data, bytes);
	const struct tls_params params = { .certificate = is_ca ? NULL : path,
					   .ca = is_ca ? path : NULL };
	struct tls_context *context;
	int err = tls_context_server(&params, &context);

	if (err) {
		failed(err);
		return;
	}
	err = tls_context_check_certificate(context);
	if (err)
		failed(err);
	tls_context_unref(context);
}

static X509 *client_certificate(void)
{
	static X509 *certificate;
	char path[80];
	FILE *file;

	if (certificate)
		return certificate;
	(void)snprintf(path, sizeof(path), "%s/client.pem", tls_kit_folder());
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	certificate = PEM_read_X509(file, NULL, NULL, NULL);
	(void)fclose(file);
	ck_assert_ptr_nonnull(certificate);
	return certificate;
}

static void run_patterns(const uint8_t *data, size_t bytes)
{
	char text[TEXT_MAX + 1];

	if (bytes > TEXT_MAX)
		bytes = TEXT_MAX;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (certificate_patterns_check(text))
		failed(-1);
	(void)certificate_matches(client_certificate(), text);
}

static void run_names(const uint8_t *data, size_t bytes)
{
	const unsigned char *at = data;
	X509 *certificate = d2i_X509(NULL, &at, (long)bytes);

	if (!certificate)
		return;
	(void)certificate_matches(certificate, "uri:spiffe://a/*,dns:client,dns:*");
	(void)certificate_matches(certificate, "subject:CN=client,O=rmem\\, test");
	X509_free(certificate);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	tls_random_reset();
	err_clear();
	if (bytes == 0)
		return 0;
	switch (data[0] % KINDS) {
	case KIND_KEYS:
		run_keys(data + 1, bytes - 1);
		break;
	case KIND_CERTIFICATE:
		run_file(data + 1, bytes - 1, false);
		break;
	case KIND_CA:
		run_file(data + 1, bytes - 1, true);
		break;
	case KIND_PATTERNS:
		run_patterns(data + 1, bytes - 1);
		break;
	default:
		run_names(data + 1, bytes - 1);
		break;
	}
	return 0;
}

/* ---- valid inputs ---- */

static size_t seed_text(struct fuzz_output *output, enum kind kind, const char *text)
{
	fuzz_put(output, kind, 1);
	fuzz_put_bytes(output, text, strlen(text));
	return output->used;
}

static size_t seed_file(struct fuzz_output *output, enum kind kind, const char *name)
{
	char path[80], text[4096];
	FILE *file;
	size_t n;

	(void)snprintf(path, sizeof(path), "%s/%s.pem", tls_kit_folder(), name);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	n = fread(text, 1, sizeof(text), file);
	(void)fclose(file);
	fuzz_put(output, kind, 1);
	fuzz_put_bytes(output, text, n);
	return output->used;
}

static size_t seed_names(struct fuzz_output *output)
{
	unsigned char *der = NULL;
	int n = i2d_X509(client_certificate(), &der);

	ck_assert_int_gt(n, 0);
	fuzz_put(output, KIND_NAMES, 1);
	fuzz_put_bytes(output, der, (size_t)n);
	OPENSSL_free(der);
	return output->used;
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	struct fuzz_output output = { input, 0, max };

	switch (which) {
	case 0:
		return seed_text(&output, KIND_KEYS,
				 "# of two tenants\n"
				 "red:000102030405060708090a0b0c0d0e0f\n\n"
				 "red:101112131415161718191A1B1C1D1E1F  \r\n"
				 "green-1.a_b:202122232425262728292a2b2c2d2e2f");
	case 1:
		return seed_text(&output, KIND_PATTERNS,
				 "uri:spiffe://a/b/*, dns:client\n"
				 "spiffe://c/d,subject:CN=client,O=rmem\\, test");
	case 2:
		return seed_file(&output, KIND_CERTIFICATE, "server");
	case 3:
		return seed_file(&output, KIND_CA, "ca");
	case 4:
		return seed_names(&output);
	default:
		return 0;
	}
}
