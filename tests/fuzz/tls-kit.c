/* SPDX-License-Identifier: BSD-3-Clause */
/* RAND_set_rand_method() has no successor that is as short */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "fuzz/tls-kit.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/random.h"
#include "unit/tls/certificates.h"

/* ---- random numbers ---- */

static uint64_t state;

static int fill(unsigned char *at, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (unsigned char)random_next(&state);
	return 1;
}

static int is_seeded(void)
{
	return 1;
}

void tls_random_reset(void)
{
	static const RAND_METHOD method = { .bytes = fill,
					    .pseudorand = fill,
					    .status = is_seeded };

	ck_assert_int_eq(RAND_set_rand_method(&method), 1);
	state = 0;
}

/* ---- keys ---- */

struct tls_keys *tls_kit_keys(unsigned from, unsigned n)
{
	char text[TLS_KIT_KEYS * 64];
	struct tls_keys *keys;
	int used = 0;

	for (unsigned i = from; i < from + n; i++)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
				 "default:%032x\n", i + 1);
	ck_assert_int_eq(tls_keys_load(tls_kit_file(text, (size_t)used), &keys), 0);
	return keys;
}

struct tls_context *tls_kit_server(unsigned from, unsigned n)
{
	const struct tls_params params = { .keys = tls_kit_keys(from, n) };
	struct tls_context *context;

	ck_assert_int_eq(tls_context_server(&params, &context), 0);
	return context;
}

struct tls_context *tls_kit_client(unsigned key)
{
	const struct tls_params params = { .keys = tls_kit_keys(key, 1) };
	struct tls_context *context;

	ck_assert_int_eq(tls_context_client(&params, "server", &context), 0);
	return context;
}

/* ---- files ---- */

const char *tls_kit_file(const void *data, size_t bytes)
{
	static char path[40];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(fchmod(fd, 0600), 0);
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq((int)pwrite(fd, data, bytes, 0), (int)bytes);
	return path;
}

static char folder[] = "/tmp/rmem-fuzz-XXXXXX";

static void folder_remove(void)
{
	static const char *const names[] = { "ca", "server", "client" };
	char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s.pem", folder, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(folder);
}

const char *tls_kit_folder(void)
{
	static const struct test_certificate ca = { .subject = "CA", .days = 10 },
					     server = { .subject = "server",
							.names = "DNS:server",
							.days = 5 },
					     client = { .subject = "client",
							.names = "DNS:client",
							.days = 5 };
	static bool made;

	if (made)
		return folder;
	made = true;
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(atexit(folder_remove), 0);
	certificate_write(folder, "ca", NULL, &ca);
	certificate_write(folder, "server", "ca", &server);
	certificate_write(folder, "client", "ca", &client);
	return folder;
}
