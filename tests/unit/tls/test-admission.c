/* SPDX-License-Identifier: BSD-3-Clause */
/* When OpenSSL has no memory. */
#include <errno.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/err.h"
#include "tls/admission.h"
#include "tls/prepare.h"
#include "tls/stream.h"
#include "unit/unit.h"

/* a fake of OpenSSL's */
unsigned char *HMAC(const EVP_MD *, const void *, int, const unsigned char *, size_t,
		    unsigned char *, unsigned *)
{
	return NULL;
}

/* and of the callbacks for keys */
int SSL_set_ex_data(SSL *, int, void *)
{
	return 0;
}

START_TEST(no_memory__is_an_error)
{
	const uint8_t secret[32] = { 1 };
	uint8_t token[ADMISSION_BYTES];

	ck_assert_int_eq(admission_token(secret, 1, 1, token), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_text(), "the token of a channel: "
						 "Cannot allocate memory"));
}
END_TEST

/* or the daemon would be ready, and refuse every channel */
START_TEST(prepare__finds_it_first)
{
	ck_assert_int_eq(tls_prepare(), -ENOMEM);
}
END_TEST

START_TEST(stream__needs_its_app_data)
{
	struct tls_params params = { .keys = NULL };
	const uint8_t key[TLS_KEY_MIN] = { 1 };
	struct tls_context *context;
	struct stream stream;

	ck_assert_int_eq(tls_keys_of("a", key, sizeof(key), &params.keys), 0);
	ck_assert_int_eq(tls_context_server(&params, &context), 0);
	ck_assert_int_eq(stream_tls(&stream, -1, context), -ENOMEM);
	tls_context_unref(context);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("admission", NULL, NULL);

	tcase_add_test(tc, no_memory__is_an_error);
	tcase_add_test(tc, prepare__finds_it_first);
	tcase_add_test(tc, stream__needs_its_app_data);
	return unit_main();
}
