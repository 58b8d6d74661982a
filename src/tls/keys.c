/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/sha.h>

#include "base/err.h"
#include "base/given_file.h"
#include "base/list.h"
#include "base/map.h"
#include "tls/failure.h"

#define KEYS_MAX 4096
/* The longest line: a tenant, a key, and blanks at the end. */
#define LINE_MAX_BYTES (TLS_TENANT_MAX + 1 + 2 * TLS_KEY_MAX + 16)

struct entry {
	struct tls_key key;
	struct map_node by_identity, by_tenant;
};

struct tls_keys {
	struct map by_identity;
	struct map by_tenant; /* the first key of each */
	size_t n, bytes;      /* entries, and bytes of their memory */
	struct entry *at;
};

/* ---- memory ---- */

/* The keys have pages of their own, so that they can be locked, and left out of core dumps.  Where
 * the limit of locked memory is too low, they may be swapped. */
static struct tls_keys *keys_new(size_t room)
{
	struct tls_keys *keys = calloc(1, sizeof(*keys));
	void *memory;

	if (!keys)
		return NULL;
	keys->bytes = room * sizeof(struct entry);
	memory = mmap(NULL, keys->bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		free(keys);
		return NULL;
	}
	(void)mlock(memory, keys->bytes);
	(void)madvise(memory, keys->bytes, MADV_DONTDUMP);
	keys->at = memory;
	map_init(&keys->by_identity);
	map_init(&keys->by_tenant);
	return keys;
}

void tls_keys_free(struct tls_keys *keys)
{
	if (!keys)
		return;
	map_destroy(&keys->by_identity);
	map_destroy(&keys->by_tenant);
	explicit_bzero(keys->at, keys->bytes);
	(void)munmap(keys->at, keys->bytes);
	free(keys);
}

/* ---- looking up ---- */

static const struct tls_key *find_identity(const struct tls_keys *keys,
					   const char *identity)
{
	struct map_node *node = map_find(&keys->by_identity, map_hash_string(identity));

	for (; node; node = map_find_next(node)) {
		const struct entry *entry =
			container_of(node, struct entry, by_identity);

		if (strcmp(entry->key.identity, identity) == 0)
			return &entry->key;
	}
	return NULL;
}

static const struct tls_key *find_tenant(const struct tls_keys *keys,
					 const char *tenant)
{
	struct map_node *node = map_find(&keys->by_tenant, map_hash_string(tenant));

	for (; node; node = map_find_next(node)) {
		const struct entry *entry = container_of(node, struct entry, by_tenant);

		if (strcmp(entry->key.tenant, tenant) == 0)
			return &entry->key;
	}
	return NULL;
}

const struct tls_key *tls_keys_find(const struct tls_keys *keys, const char *identity,
				    size_t len)
{
	char text[TLS_IDENTITY_MAX + 1];

	/* a peer's may have anything */
	if (len > TLS_IDENTITY_MAX || memchr(identity, '\0', len))
		return NULL;
	memcpy(text, identity, len);
	text[len] = '\0';
	return find_identity(keys, text);
}

/* ---- one key ---- */

bool tls_tenant_good(const char *tenant, size_t len)
{
	if (len == 0 || len > TLS_TENANT_MAX)
		return false;
	/* strchr() finds a zero byte, too */
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)tenant[i]) &&
		    (!tenant[i] || !strchr("-_.", tenant[i])))
			return false;
	return true;
}

static int key_identify(struct tls_key *key)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	int used;

	if (!SHA256(key->bytes, key->n_bytes, digest))
		return tls_failure(-ENOMEM, "the identity of a key");
	used = snprintf(key->identity, sizeof(key->identity), TLS_IDENTITY_PREFIX "%s ",
			key->tenant);
	for (size_t i = 0; i < TLS_KEY_HASH_BYTES; i++)
		used += snprintf(key->identity + used,
				 sizeof(key->identity) - (size_t)used, "%02x",
				 digest[i]);
	explicit_bzero(digest, sizeof(digest));
	return 0;
}

/* The entry behind the last one becomes one: it has its tenant and bytes. */
static int key_add(struct tls_keys *keys)
{
	struct entry *entry = &keys->at[keys->n];
	const struct tls_key *key = &entry->key;
	int err = key_identify(&entry->key);

	if (err)
		return err;
	if (find_identity(keys, key->identity))
		return err_set(-EINVAL, "the key is there twice");
	err = map_insert(&keys->by_identity, &entry->by_identity,
			 map_hash_string(key->identity));
	if (!err && !find_tenant(keys, key->tenant))
		err = map_insert(&keys->by_tenant, &entry->by_tenant,
				 map_hash_string(key->tenant));
	if (err)
		return err_set(err, "no memory for a key");
	keys->n++;
	return 0;
}

int tls_keys_of(const char *tenant, const uint8_t *bytes, size_t n_bytes,
		struct tls_keys **ret_keys)
{
	struct tls_keys *keys;
	struct tls_key *key;
	int err;

	if (!tls_tenant_good(tenant, strlen(tenant)))
		return err_set(-EINVAL, "'%.80s' is not the name of a tenant", tenant);
	if (n_bytes < TLS_KEY_MIN || n_bytes > TLS_KEY_MAX)
		return err_set(-EINVAL, "the key has %zu bytes, and not %d to %d",
			       n_bytes, TLS_KEY_MIN, TLS_KEY_MAX);
	keys = keys_new(1);
	if (!keys)
		return err_set(-ENOMEM, "no memory for a key");
	key = &keys->at[0].key;
	(void)strcpy(key->tenant, tenant);
	memcpy(key->bytes, bytes, n_bytes);
	key->n_bytes = n_bytes;
	err = key_add(keys);
	if (err) {
		tls_keys_free(keys);
		return err;
	}
	*ret_keys = keys;
	return 0;
}

/* ---- the file ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int hex_parse(const char *hex, size_t len, struct tls_key *key)
{
	if (len % 2 || len < 2 * (size_t)TLS_KEY_MIN || len > 2 * (size_t)TLS_KEY_MAX)
		return err_set(-EINVAL, "the key is not %d to %d hexadecimal digits",
			       2 * TLS_KEY_MIN, 2 * TLS_KEY_MAX);
	for (size_t i = 0; i < len; i += 2) {
		int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);

		if (high < 0 || low < 0)
			return err_set(-EINVAL, "the key has other characters than "
						"hexadecimal digits");
		key->bytes[i / 2] = (uint8_t)(high << 4 | low);
	}
	key->n_bytes = len / 2;
	return 0;
}

/* A line without its end. */
static int line_parse(struct tls_keys *keys, const char *line, size_t len)
{
	const char *colon = memchr(line, ':', len);
	struct tls_key *key = &keys->at[keys->n].key;
	int err;

	while (len > 0 && isspace((unsigned char)line[len - 1]))
		len--;
	if (len == 0 || line[0] == '#')
		return 0;
	if (!colon)
		return err_set(-EINVAL, "it is not TENANT:HEXKEY");
	if (!tls_tenant_good(line, (size_t)(colon - line)))
		return err_set(-EINVAL,
			       "a tenant's name is 1 to %d letters, digits, "
			       "'-', '_' and '.'",
			       TLS_TENANT_MAX);
	err = hex_parse(colon + 1, len - (size_t)(colon + 1 - line), key);
	if (err)
		return err;
	memcpy(key->tenant, line, (size_t)(colon - line));
	return key_add(keys);
}

static int text_parse(const char *text, size_t bytes, struct tls_keys *keys)
{
	const char *at = text, *end = text + bytes;

	for (unsigned line = 1; at < end; line++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *line_end = newline ? newline : end;
		int err = line_parse(keys, at, (size_t)(line_end - at));

		if (err)
			return err_prefix(err, "line %u", line);
		at = newline ? newline + 1 : end;
	}
	return keys->n ? 0 : err_set(-EINVAL, "it has no key");
}

static int file_check(int fd, size_t *ret_bytes)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_errno(-errno, "fstat");
	if (st.st_size > KEYS_MAX * LINE_MAX_BYTES)
		return err_set(-EINVAL, "it has more than %d bytes",
			       KEYS_MAX * LINE_MAX_BYTES);
	*ret_bytes = (size_t)st.st_size;
	return 0;
}

static size_t lines_count(const char *text, size_t bytes)
{
	size_t n = 1;

	for (size_t i = 0; i < bytes; i++)
		n += text[i] == '\n';
	return n;
}

static int text_load(const char *text, size_t bytes, struct tls_keys **ret_keys)
{
	struct tls_keys *keys = keys_new(lines_count(text, bytes));
	int err;

	if (!keys)
		return err_set(-ENOMEM, "no memory for its keys");
	err = text_parse(text, bytes, keys);
	if (err) {
		tls_keys_free(keys);
		return err;
	}
	*ret_keys = keys;
	return 0;
}

static int fd_load(int fd, struct tls_keys **ret_keys)
{
	size_t bytes = 0, done = 0;
	int err = file_check(fd, &bytes);
	char *text;

	if (err)
		return err;
	text = malloc(bytes + 1);
	if (!text)
		return err_set(-ENOMEM, "no memory for its text");
	while (done < bytes) {
		ssize_t n = read(fd, text + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = err_errno(-errno, "read");
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (!err)
		err = text_load(text, done, ret_keys);
	explicit_bzero(text, bytes);
	free(text);
	return err;
}

int tls_keys_load(const char *path, struct tls_keys **ret_keys)
{
	FILE *file;
	int err = given_file_open("key file", path, GIVEN_FILE_SECRET, &file);

	if (err)
		return err;
	/* past the buffer of stdio, which would keep the keys */
	err = fd_load(fileno(file), ret_keys);
	(void)fclose(file);
	return err ? err_prefix(err, "key file %s", path) : 0;
}

/* ---- all of them ---- */

const struct tls_key *tls_keys_first(const struct tls_keys *keys, const char *tenant)
{
	if (tenant)
		return find_tenant(keys, tenant);
	return keys->n ? &keys->at[0].key : NULL;
}

size_t tls_keys_count(const struct tls_keys *keys)
{
	return keys->n;
}

size_t tls_keys_count_new(const struct tls_keys *keys, const struct tls_keys *others)
{
	size_t n = 0;

	for (size_t i = 0; keys && i < keys->n; i++)
		n += !others || !find_identity(others, keys->at[i].key.identity);
	return n;
}
