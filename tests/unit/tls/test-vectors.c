/* SPDX-License-Identifier: BSD-3-Clause */
/* The vectors of rmem-protocol(7), read from the page, are what this code derives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/address.h"
#include "tls/admission.h"
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

static void expect(const char *what, const uint8_t *bytes, size_t n)
{
	char vector[100], hex[100];

	for (size_t i = 0; i < n; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	vector_read(what, vector);
	ck_assert_str_eq(hex, vector);
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

int main(void)
{
	TCase *tc = unit_case("vectors", setup, NULL);

	tcase_add_test(tc, token__is_that_of_the_page);
	tcase_add_test(tc, origin__is_that_of_the_page);
	tcase_add_test(tc, key_of_a_channel__is_that_of_the_page);
	tcase_add_test(tc, identity__is_that_of_the_page);
	return unit_main();
}
