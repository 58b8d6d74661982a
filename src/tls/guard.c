/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/guard.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

/* For the private keys of certificates, of which a reload has two, and those of all handshakes at a
 * time, 32 or 64 bytes each: [limits] connections may be 65536.  Pages are locked when they are
 * used. */
#define KEYS_BYTES (4 << 20)
#define KEY_MIN_BYTES 32

static void *on_malloc(size_t bytes, const char *, int)
{
	return malloc(bytes);
}

static void on_free(void *memory, const char *, int)
{
	if (!memory)
		return;
	explicit_bzero(memory, malloc_usable_size(memory));
	free(memory);
}

/* Not realloc(), which would leave the bytes where they were. */
static void *on_realloc(void *memory, size_t bytes, const char *file, int line)
{
	size_t before = memory ? malloc_usable_size(memory) : 0;
	void *grown = bytes ? malloc(bytes) : NULL;

	if (bytes && !grown)
		return NULL;
	if (grown && memory)
		memcpy(grown, memory, before < bytes ? before : bytes);
	on_free(memory, file, line);
	return grown;
}

void tls_guard(void)
{
	(void)CRYPTO_set_mem_functions(on_malloc, on_realloc, on_free);
	/* where the limit of locked memory is too low, they may be swapped */
	(void)CRYPTO_secure_malloc_init(KEYS_BYTES, KEY_MIN_BYTES);
}
