/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/keygen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/random.h"
#include "tls/keys.h"

#define KEY_BYTES 32
#define PATH_BYTES 512
#define LINE_BYTES (TLS_TENANT_MAX + 1 + 2 * KEY_BYTES + 2)

/* TENANT:HEXKEY with a newline; returns its length. */
static size_t line_make(const char *tenant, char line[LINE_BYTES])
{
	uint8_t key[KEY_BYTES];
	int used = snprintf(line, LINE_BYTES, "%s:", tenant);

	random_bytes(key, sizeof(key));
	for (size_t i = 0; i < sizeof(key); i++)
		used += snprintf(line + used, LINE_BYTES - (size_t)used, "%02x",
				 key[i]);
	explicit_bzero(key, sizeof(key));
	used += snprintf(line + used, LINE_BYTES - (size_t)used, "\n");
	return (size_t)used;
}

static int line_write(const char *path, int flags, mode_t mode, const char *line,
		      size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, mode), err = 0;

	if (fd < 0)
		return err_errno(-errno, "%s", path);
	if (write(fd, line, bytes) != (ssize_t)bytes || fsync(fd))
		err = err_errno(errno ? -errno : -EIO, "%s", path);
	if (close(fd) && !err)
		err = err_errno(-errno, "%s", path);
	return err;
}

/* That the name is one that the server takes too, and the key is well formed. */
static int line_check(const char *tenant)
{
	const uint8_t nothing[KEY_BYTES] = { 0 };
	struct tls_keys *keys;
	int err = tls_keys_of(tenant, nothing, sizeof(nothing), &keys);

	if (!err)
		tls_keys_free(keys);
	return err;
}

int keygen(const char *tenant, const char *folder)
{
	char client[PATH_BYTES], server[PATH_BYTES], line[LINE_BYTES];
	int err = line_check(tenant);
	size_t bytes;

	if (err)
		return err;
	if ((size_t)snprintf(client, sizeof(client), "%s/%s.psk", folder, tenant) >=
		    sizeof(client) ||
	    (size_t)snprintf(server, sizeof(server), "%s/rmemd.psk", folder) >=
		    sizeof(server))
		return err_set(-ENAMETOOLONG, "the folder's name is too long");
	bytes = line_make(tenant, line);
	err = line_write(client, O_EXCL, 0600, line, bytes);
	if (!err) {
		err = line_write(server, O_APPEND, 0600, line, bytes);
		if (err)
			(void)unlink(client);
	}
	explicit_bzero(line, sizeof(line));
	if (err)
		return err;
	printf("%s is for the clients of tenant %s: rmem://HOST?psk=FILE, or RMEM_PSK\n"
	       "%s has it too, for the server: [server] psk = FILE, auth = psk\n",
	       client, tenant, server);
	return 0;
}
