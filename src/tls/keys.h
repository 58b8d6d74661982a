/* SPDX-License-Identifier: BSD-3-Clause */
/* Pre-shared keys of TLS, from a file with a line TENANT:HEXKEY for each, as psktool(1) of GnuTLS
 * writes it.  A tenant may have several keys, so that a new one can be handed out before the old
 * one is removed.  Empty lines and lines that begin with '#' are skipped.
 *
 * On the wire a key's identity is "rmem1 TENANT HASH", where HASH is the begin of the key's SHA-256
 * in hex: so the server finds the key at once.  HASH tells no more of the key than the handshake
 * itself, which whoever guesses the key can check too.
 *
 * The keys are in locked memory that is in no core dump, and are wiped when they are freed.
 * Threads: [any], not the same object from two. */
#ifndef TLS_KEYS_H
#define TLS_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_KEY_MIN 16 /* bytes; RFC 9257 asks for 128 bits of entropy */
#define TLS_KEY_MAX 64
#define TLS_TENANT_MAX 32
#define TLS_IDENTITY_PREFIX "rmem1 "
#define TLS_KEY_HASH_BYTES 8
#define TLS_IDENTITY_MAX \
	(sizeof(TLS_IDENTITY_PREFIX) - 1 + TLS_TENANT_MAX + 1 + 2 * TLS_KEY_HASH_BYTES)

struct tls_key {
	char tenant[TLS_TENANT_MAX + 1];
	char identity[TLS_IDENTITY_MAX + 1];
	uint8_t bytes[TLS_KEY_MAX];
	size_t n_bytes;
};

struct tls_keys;

/* Whether a tenant can have this name. */
bool tls_tenant_good(const char *tenant, size_t len);
/* Read a file.
 *   -EACCES  others than its owner and group can read it, or others than its owner, which must be
 *            this user or root, write to it
 *   -EINVAL  a line is malformed; the text names the line, and nothing of its contents
 *   -ENOENT, -ENOMEM, ... */
int tls_keys_load(const char *path, struct tls_keys **ret_keys);
/* Keys of one tenant and one key, which is copied.  -EINVAL: its length; -ENOMEM */
int tls_keys_of(const char *tenant, const uint8_t *bytes, size_t n_bytes,
		struct tls_keys **ret_keys);
/* NULL: no effect. */
void tls_keys_free(struct tls_keys *keys);

/* The key of an identity, which may be any bytes.  NULL: there is none. */
const struct tls_key *tls_keys_find(const struct tls_keys *keys, const char *identity,
				    size_t len);
/* The first key of a tenant, or of all for NULL. */
const struct tls_key *tls_keys_first(const struct tls_keys *keys, const char *tenant);
size_t tls_keys_count(const struct tls_keys *keys);

/* How many keys of `keys` are not in `others`; either may be NULL. */
size_t tls_keys_count_new(const struct tls_keys *keys, const struct tls_keys *others);

#endif
