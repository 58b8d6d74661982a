/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/err.h"
#include "tls/context.h"
#include "tls/keys.h"
#include "unit/unit.h"

#define KEY_A "000102030405060708090a0b0c0d0e0f"
#define HASH_A "be45cb2605bf36be"
#define KEY_B "F0E0D0C0B0A0908070605040302010FF"

static char path[] = "/tmp/rmem-keys-XXXXXX";
static struct tls_keys *keys;
static bool digest_fails;

/* Instead of that of libcrypto, which fails without memory. */
unsigned char *SHA256(const unsigned char *bytes, size_t n, unsigned char *ret)
{
	return !digest_fails && EVP_Digest(bytes, n, ret, NULL, EVP_sha256(), NULL)
		       ? ret
		       : NULL;
}

static void bytes_write(const char *text, size_t bytes, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, bytes), (ssize_t)bytes);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	ck_assert_int_eq(close(fd), 0);
}

static void file_write(const char *text, mode_t mode)
{
	bytes_write(text, strlen(text), mode);
}

static void setup(void)
{
	int fd;

	(void)strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(close(fd), 0);
}

static void teardown(void)
{
	digest_fails = false;
	tls_keys_free(keys);
	keys = NULL;
	(void)unlink(path);
}

static const struct tls_key *find(const char *identity)
{
	return tls_keys_find(keys, identity, strlen(identity));
}

START_TEST(load__reads_what_psktool_writes)
{
	const struct tls_key *first, *second;
	char identity[TLS_IDENTITY_MAX + 1];

	file_write("# keys\n\na:" KEY_A "\nb.c-d_1:" KEY_B "\r\na:" KEY_B, 0640);
	ck_assert_int_eq(tls_keys_load(path, &keys), 0);
	ck_assert_uint_eq(tls_keys_count(keys), 3);
	first = tls_keys_first(keys, NULL);
	ck_assert_str_eq(first->tenant, "a");
	ck_assert_uint_eq(first->n_bytes, 16);
	ck_assert_uint_eq(first->bytes[15], 0x0f);
	ck_assert_ptr_eq(tls_keys_first(keys, "a"), first);
	ck_assert_str_eq(first->identity, "rmem1 a " HASH_A);
	ck_assert_ptr_eq(find(first->identity), first);
	second = tls_keys_first(keys, "b.c-d_1");
	ck_assert_uint_eq(second->bytes[0], 0xf0);
	ck_assert_ptr_eq(find(second->identity), second);
	/* each of a tenant's keys has its own identity */
	(void)snprintf(identity, sizeof(identity), "rmem1 a %s",
		       strrchr(second->identity, ' ') + 1);
	ck_assert_ptr_nonnull(find(identity));
	ck_assert_ptr_ne(find(identity), first);
	ck_assert_mem_eq(find(identity)->bytes, second->bytes, 16);
}
END_TEST

START_TEST(keys__that_are_new_are_counted)
{
	struct tls_keys *others;

	file_write("a:" KEY_A "\nb:" KEY_B "\n", 0600);
	ck_assert_int_eq(tls_keys_load(path, &others), 0);
	file_write("a:" KEY_B "\nb:" KEY_B "\nc:" KEY_A "\n", 0600);
	ck_assert_int_eq(tls_keys_load(path, &keys), 0);
	ck_assert_uint_eq(tls_keys_count_new(keys, others), 2);
	ck_assert_uint_eq(tls_keys_count_new(others, keys), 1);
	ck_assert_uint_eq(tls_keys_count_new(keys, keys), 0);
	ck_assert_uint_eq(tls_keys_count_new(keys, NULL), 3);
	ck_assert_uint_eq(tls_keys_count_new(NULL, keys), 0);
	tls_keys_free(others);
}
END_TEST

/* Each is found, and a tenant has the first of its keys, whatever their order in a map. */
START_TEST(find__among_many)
{
	enum { TENANTS = 300, EACH = 3, LINE = 4 + 1 + 2 * TLS_KEY_MIN + 1 };
	static char text[TENANTS * EACH * LINE + 1];
	char tenant[sizeof("t000")];
	size_t used = 0;

	for (unsigned i = 0; i < TENANTS * EACH; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "t%03u:%032x\n", i % TENANTS, i);
	ck_assert_uint_eq(used, sizeof(text) - 1);
	file_write(text, 0600);
	ck_assert_int_eq(tls_keys_load(path, &keys), 0);
	ck_assert_uint_eq(tls_keys_count(keys), TENANTS * EACH);
	for (unsigned i = 0; i < TENANTS; i++) {
		const struct tls_key *key;

		(void)snprintf(tenant, sizeof(tenant), "t%03u", i);
		key = tls_keys_first(keys, tenant);
		ck_assert_ptr_nonnull(key);
		ck_assert_str_eq(key->tenant, tenant);
		ck_assert_uint_eq(key->bytes[14] << 8 | key->bytes[15], i);
		ck_assert_ptr_eq(find(key->identity), key);
	}
	ck_assert_ptr_null(tls_keys_first(keys, "t300"));
}
END_TEST

START_TEST(find__of_an_unknown_identity)
{
	static const char known[] = "rmem1 a " HASH_A;
	static const char *const unknown[] = {
		"",
		"a",
		"rmem1 a",
		"rmem1 a ",
		"rmem1  " HASH_A,
		"rmem1 a 0000000000000000",
		"rmem1 b " HASH_A,
		"rmem1 A " HASH_A,
		"rmem2 a " HASH_A,
		"rmem1 a  " HASH_A,
		"rmem1 a " HASH_A " ",
		"rmem1 a " HASH_A "00",
		"rmem1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa " HASH_A,
	};

	file_write("a:" KEY_A "\n", 0600);
	ck_assert_int_eq(tls_keys_load(path, &keys), 0);
	ck_assert_ptr_nonnull(find(known));
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		ck_assert_msg(!find(unknown[i]), "%s", unknown[i]);
	/* with a part of it, and a zero byte behind it */
	ck_assert_ptr_null(tls_keys_find(keys, known, sizeof(known) - 2));
	ck_assert_ptr_null(tls_keys_find(keys, known, sizeof(known)));
	ck_assert_ptr_null(tls_keys_first(keys, "b"));
}
END_TEST

static const struct {
	const char *text;
	const char *error; /* behind the path */
} bad[] = {
	{ "", ": it has no key" },
	{ "# nothing\n\n", ": it has no key" },
	{ "a:" KEY_A "\nab\n", ": line 2: it is not TENANT:HEXKEY" },
	{ "a:" KEY_A "0\n", ": line 1: the key is not 32 to 128 hexadecimal digits" },
	{ "a:0011\n", ": line 1: the key is not 32 to 128 hexadecimal digits" },
	{ "a:\n", ": line 1: the key is not 32 to 128 hexadecimal digits" },
	{ "a:" KEY_A KEY_A KEY_A KEY_A "00\n",
	  ": line 1: the key is not 32 to 128 hexadecimal digits" },
	{ "a:000102030405060708090a0b0c0d0e0g\n",
	  ": line 1: the key has other characters than hexadecimal digits" },
	{ ":" KEY_A "\n", ": line 1: a tenant's name is 1 to 32 letters, digits, '-', "
			  "'_' and '.'" },
	{ "a b:" KEY_A "\n", ": line 1: a tenant's name is 1 to 32 letters, digits, "
			     "'-', '_' and '.'" },
	{ "a#1:" KEY_A "\n", ": line 1: a tenant's name is 1 to 32 letters, digits, "
			     "'-', '_' and '.'" },
	{ "a:" KEY_A "\nb:" KEY_A "\na:" KEY_A "\n",
	  ": line 3: the key is there twice" },
};

/* No text has any part of the file. */
START_TEST(load__refuses_malformed_files)
{
	char error[400];

	file_write(bad[_i].text, 0600);
	ck_assert_int_eq(tls_keys_load(path, &keys), -EINVAL);
	(void)snprintf(error, sizeof(error), "key file %s%s", path, bad[_i].error);
	ck_assert_str_eq(err_text(), error);
}
END_TEST

/* It would be the key of the tenant "a". */
START_TEST(load__refuses_a_tenant_with_a_zero_byte)
{
	static const char text[] = "a\0b:" KEY_A "\n";

	bytes_write(text, sizeof(text) - 1, 0600);
	ck_assert_int_eq(tls_keys_load(path, &keys), -EINVAL);
	ck_assert_msg(strstr(err_text(), "a tenant's name is"), "%s", err_text());
}
END_TEST

START_TEST(load__refuses_files_that_others_can_read)
{
	static const mode_t modes[] = { 0604, 0644, 0602, 0601, 0660, 0666 };

	file_write("a:" KEY_A "\n", modes[_i]);
	ck_assert_int_eq(tls_keys_load(path, &keys), -EACCES);
	ck_assert_msg(strstr(err_text(), "others must not read it"), "%s", err_text());
	ck_assert_msg(strstr(err_text(), "chmod 640"), "%s", err_text());
}
END_TEST

START_TEST(load__of_no_file)
{
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(tls_keys_load(path, &keys), -ENOENT);
	ck_assert_int_eq(tls_keys_load("/", &keys), -EINVAL);
	ck_assert_msg(strstr(err_text(), "it is not a regular file"), "%s", err_text());
}
END_TEST

START_TEST(of__checks_the_key)
{
	const uint8_t key[TLS_KEY_MAX + 1] = { 1 };

	ck_assert_int_eq(tls_keys_of("a", key, TLS_KEY_MIN - 1, &keys), -EINVAL);
	ck_assert_int_eq(tls_keys_of("a", key, TLS_KEY_MAX + 1, &keys), -EINVAL);
	ck_assert_int_eq(tls_keys_of("a:b", key, 32, &keys), -EINVAL);
	ck_assert_int_eq(tls_keys_of("", key, 32, &keys), -EINVAL);
	ck_assert_int_eq(tls_keys_of("a", key, TLS_KEY_MAX, &keys), 0);
	ck_assert_uint_eq(tls_keys_first(keys, "a")->n_bytes, TLS_KEY_MAX);
}
END_TEST

/* Else the server would know the key by a random identity, and refuse its clients. */
START_TEST(key__without_an_identity_is_refused)
{
	const uint8_t key[TLS_KEY_MIN] = { 1 };

	digest_fails = true;
	ck_assert_int_eq(tls_keys_of("a", key, sizeof(key), &keys), -ENOMEM);
	file_write("a:" KEY_A, 0600);
	ck_assert_int_eq(tls_keys_load(path, &keys), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_text(), "line 1"));
	ck_assert_ptr_nonnull(strstr(err_text(), "the identity of a key"));
	ck_assert_ptr_null(keys);
}
END_TEST

/* The sanitizers replace mlock() by a function that does nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MLOCK_WORKS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MLOCK_WORKS 0
#endif
#endif
#ifndef MLOCK_WORKS
#define MLOCK_WORKS 1
#endif

/* The kernel tells of each mapping whether it is locked, and left out of core dumps. */
START_TEST(keys__are_in_locked_memory_that_is_not_dumped)
{
	char line[300];
	unsigned long begin, end, at;
	bool inside = false, seen = false;
	FILE *maps;

	file_write("a:" KEY_A "\n", 0600);
	ck_assert_int_eq(tls_keys_load(path, &keys), 0);
	at = (unsigned long)(uintptr_t)tls_keys_first(keys, NULL);
	maps = fopen("/proc/self/smaps", "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			inside = at >= begin && at < end;
		if (!inside || strncmp(line, "VmFlags:", 8) != 0)
			continue;
		seen = true;
		ck_assert_msg(strstr(line, " dd"), "%s", line);
		ck_assert_msg(strstr(line, " lo") || !MLOCK_WORKS, "%s", line);
	}
	(void)fclose(maps);
	ck_assert(seen);
}
END_TEST

static void on_cleanup(void)
{
	_exit(3);
}

/* As the service thread of librmem goes on until the process is gone. */
START_TEST(openssl__outlasts_exit)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		const uint8_t key[TLS_KEY_MIN] = { 1 };

		tls_outlast_exit();
		if (tls_keys_of("a", key, sizeof(key), &keys) ||
		    !OPENSSL_atexit(on_cleanup))
			_exit(1);
		exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("tls-keys", setup, teardown);

	tcase_add_test(tc, load__reads_what_psktool_writes);
	tcase_add_test(tc, find__among_many);
	tcase_add_test(tc, find__of_an_unknown_identity);
	tcase_add_loop_test(tc, load__refuses_malformed_files, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, load__refuses_a_tenant_with_a_zero_byte);
	tcase_add_loop_test(tc, load__refuses_files_that_others_can_read, 0, 6);
	tcase_add_test(tc, load__of_no_file);
	tcase_add_test(tc, keys__that_are_new_are_counted);
	tcase_add_test(tc, of__checks_the_key);
	tcase_add_test(tc, key__without_an_identity_is_refused);
	tcase_add_test(tc, keys__are_in_locked_memory_that_is_not_dumped);
	tcase_add_test(tc, openssl__outlasts_exit);
	return unit_main();
}
