/* SPDX-License-Identifier: BSD-3-Clause */
/* The vectors of rmem-protocol(7), read from the page, and those of RFC 8448 are what this code
 * derives. */
#include <linux/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/address.h"
#include "tls/admission.h"
#include "tls/kernel.h"
#include "tls/keys.h"
#include "unit/unit.h"

#define SESSION UINT64_C(8589934593)
#define CHANNEL 7

static uint8_t secret[ADMISSION_SECRET_BYTES];

static void setup(void)
{
	for (unsigned i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
}

/* The line of the page behind ".It WHAT". */
static void vector_read(const char *what, char ret_value[100])
{
	const char *top = getenv("top_srcdir");
	char path[300], line[100], item[100];
	bool found = false;
	FILE *page;

	(void)snprintf(path, sizeof(path), "%s/man/rmem-protocol.7", top ? top : ".");
	(void)snprintf(item, sizeof(item), ".It %s\n", what);
	page = fopen(path, "re");
	ck_assert_msg(page != NULL, "%s", path);
	while (!found && fgets(line, sizeof(line), page))
		found = strcmp(line, item) == 0;
	ck_assert_msg(found && fgets(ret_value, 100, page), "%s", what);
	ret_value[strcspn(ret_value, "\n")] = '\0';
	(void)fclose(page);
}

static void expect_hex(const char *hex, const uint8_t *bytes, size_t n)
{
	char text[100];

	for (size_t i = 0; i < n; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	ck_assert_str_eq(text, hex);
}

static void expect(const char *what, const uint8_t *bytes, size_t n)
{
	char vector[100];

	vector_read(what, vector);
	expect_hex(vector, bytes, n);
}

START_TEST(token__is_that_of_the_page)
{
	uint8_t token[ADMISSION_BYTES];

	ck_assert_int_eq(admission_token(secret, SESSION, CHANNEL, token), 0);
	expect("token", token, sizeof(token));
}
END_TEST

START_TEST(origin__is_that_of_the_page)
{
	const struct fabric_address address = { .family = 4,
						.bytes = { 192, 0, 2, 9 } };
	uint8_t gid[ADMISSION_ADDRESS_BYTES], origin[ADMISSION_ORIGIN_BYTES];

	fabric_address_to_gid(&address, gid);
	ck_assert_int_eq(admission_origin(secret, SESSION, CHANNEL, gid, origin), 0);
	expect("origin of 192.0.2.9", origin, sizeof(origin));
}
END_TEST

START_TEST(key_of_a_channel__is_that_of_the_page)
{
	uint8_t key[ADMISSION_KEY_BYTES];

	ck_assert_int_eq(admission_key(secret, SESSION, CHANNEL, key), 0);
	expect("key of the channel's TLS", key, sizeof(key));
}
END_TEST

START_TEST(identity__is_that_of_the_page)
{
	struct tls_keys *keys;
	char vector[100];

	/* the first 16 bytes of the secret are those of the key */
	ck_assert_int_eq(tls_keys_of("red", secret, 16, &keys), 0);
	vector_read("identity of the key 00 01 02 ... 0f of the tenant red", vector);
	ck_assert_str_eq(tls_keys_first(keys, NULL)->identity, vector);
	tls_keys_free(keys);
}
END_TEST

/* ---- keys for the kernel ---- */

static struct tls12_crypto_info_aes_gcm_128 told[TLS_RX + 1];

/* a fake of the C library's, with TLS in the kernel */
int setsockopt(int, int, int name, const void *value, socklen_t bytes)
{
	if (bytes == sizeof(told[0]))
		memcpy(&told[name], value, bytes);
	return 0;
}

static void expect_told(int direction, const char *key, const char *salt,
			const char *iv)
{
	expect_hex(key, told[direction].key, sizeof(told[0].key));
	expect_hex(salt, told[direction].salt, sizeof(told[0].salt));
	expect_hex(iv, told[direction].iv, sizeof(told[0].iv));
}

/* The handshake traffic secrets and keys of its section 3. */
START_TEST(kernel__has_the_keys_of_rfc_8448)
{
	struct channel_secrets secrets = {
		.sent = { 0xb3, 0xed, 0xdb, 0x12, 0x6e, 0x06, 0x7f, 0x35,
			  0xa7, 0x80, 0xb3, 0xab, 0xf4, 0x5e, 0x2d, 0x8f,
			  0x3b, 0x1a, 0x95, 0x07, 0x38, 0xf5, 0x2e, 0x96,
			  0x00, 0x74, 0x6a, 0x0e, 0x27, 0xa5, 0x5a, 0x21 },
		.received = { 0xb6, 0x7b, 0x7d, 0x69, 0x0c, 0xc1, 0x6c, 0x4e,
			      0x75, 0xe5, 0x42, 0x13, 0xcb, 0x2d, 0x37, 0xb4,
			      0xe9, 0xc9, 0x12, 0xbc, 0xde, 0xd9, 0x10, 0x5d,
			      0x42, 0xbe, 0xfd, 0x59, 0xd3, 0x91, 0xad, 0x38 },
	};

	ck_assert_int_eq(tls_kernel_take(-1, &secrets), 0);
	expect_told(TLS_TX, "dbfaa693d1762c5b666af5d950258d01", "5bd3c71b",
		    "836e0b76bb73265f");
	expect_told(TLS_RX, "3fce516009c21727d0f2e4e86ee403bc", "5d313eb2",
		    "671276ee13000b30");
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("vectors", setup, NULL);

	tcase_add_test(tc, token__is_that_of_the_page);
	tcase_add_test(tc, origin__is_that_of_the_page);
	tcase_add_test(tc, key_of_a_channel__is_that_of_the_page);
	tcase_add_test(tc, identity__is_that_of_the_page);
	tcase_add_test(tc, kernel__has_the_keys_of_rfc_8448);
	return unit_main();
}
