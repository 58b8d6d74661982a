/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl keygen: a new pre-shared key, for the clients of a tenant and for the server. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/given_file.h"
#include "base/random.h"
#include "rmemctl/command.h"
#include "tls/keys.h"

#define KEY_BYTES 32
#define PATH_BYTES 512
#define LINE_BYTES (1 + TLS_TENANT_MAX + 1 + 2 * KEY_BYTES + 2)

static int key_make(const char *tenant, struct tls_keys **ret_keys)
{
	uint8_t bytes[KEY_BYTES];
	int err = random_bytes(bytes, sizeof(bytes));

	if (!err)
		err = tls_keys_of(tenant, bytes, sizeof(bytes), ret_keys);
	explicit_bzero(bytes, sizeof(bytes));
	return err;
}

/* TENANT:HEXKEY between two newlines; returns its length. */
static size_t line_make(const struct tls_key *key, char line[LINE_BYTES])
{
	int used = snprintf(line, LINE_BYTES, "\n%s:", key->tenant);

	for (size_t i = 0; i < key->n_bytes; i++)
		used += snprintf(line + used, LINE_BYTES - (size_t)used, "%02x",
				 key->bytes[i]);
	used += snprintf(line + used, LINE_BYTES - (size_t)used, "\n");
	return (size_t)used;
}

/* Write and close the file. */
static int line_write(int fd, const char *path, const char *line, size_t bytes)
{
	ssize_t n = write(fd, line, bytes);
	int err = 0;

	if (n < 0 || fsync(fd))
		err = err_errno(-errno, "%s", path);
	else if (n != (ssize_t)bytes)
		err = err_set(-EIO, "%s: only a part of the line was written", path);
	if (close(fd) && !err)
		err = err_errno(-errno, "%s", path);
	return err;
}

static int client_write(const char *path, const char *line, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), err;

	if (fd < 0 && errno == EEXIST)
		return err_set(-EEXIST,
			       "%s: File exists: a second key of the tenant needs "
			       "another folder",
			       path);
	if (fd < 0)
		return err_errno(-errno, "%s", path);
	err = line_write(fd, path, line, bytes);
	if (err)
		(void)unlink(path);
	return err;
}

/* Whether the last line of the file has no end; or -errno. */
static int line_is_open(int fd, const char *path)
{
	off_t bytes;
	char last;
	int err = given_file_check(fd, GIVEN_FILE_SECRET, &bytes);

	if (err)
		return err_prefix(err, "%s", path);
	return bytes > 0 && pread(fd, &last, 1, bytes - 1) == 1 && last != '\n';
}

/* line: begins with a newline, which is written if the last line has none. */
static int server_append(const char *path, const char *line, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600),
	    open_line;

	if (fd < 0)
		return err_errno(-errno, "%s", path);
	open_line = line_is_open(fd, path);
	if (open_line < 0) {
		(void)close(fd);
		return open_line;
	}
	return line_write(fd, path, line + !open_line, bytes - !open_line);
}

/* Both files have the key, or none. */
static int files_write(const struct tls_key *key, const char *client,
		       const char *server)
{
	char line[LINE_BYTES];
	size_t bytes = line_make(key, line);
	int err = client_write(client, line + 1, bytes - 1);

	if (!err) {
		err = server_append(server, line, bytes);
		if (err)
			(void)unlink(client);
	}
	explicit_bzero(line, sizeof(line));
	return err;
}

static void files_explain(const struct tls_key *key, const char *client,
			  const char *server)
{
	printf("%s is for the clients of tenant %s: rmem://HOST?psk=FILE, or RMEM_PSK\n"
	       "%s has it too, for the server: [server] psk = FILE, auth = psk\n"
	       "its identity in TLS, for clients that need to be told: %s\n",
	       client, key->tenant, server, key->identity);
	if (geteuid() == 0)
		printf("for rmemd.service, which runs as the user rmem: "
		       "chgrp rmem %s; chmod 640 %s\n",
		       server, server);
}

/* Write FOLDER/TENANT.psk, for the clients, and append the key to FOLDER/rmemd.psk, for the server;
 * print what to do with them.
 *   -EEXIST  there is a TENANT.psk: a second key of a tenant needs another folder
 *   -ENOENT, -EACCES ... */
static int keygen(const char *tenant, const char *folder)
{
	char client[PATH_BYTES], server[PATH_BYTES];
	struct tls_keys *keys;
	int err = key_make(tenant, &keys);

	if (err)
		return err;
	if ((size_t)snprintf(client, sizeof(client), "%s/%s.psk", folder, tenant) >=
		    sizeof(client) ||
	    (size_t)snprintf(server, sizeof(server), "%s/rmemd.psk", folder) >=
		    sizeof(server))
		err = err_set(-ENAMETOOLONG, "the folder's name is too long");
	else
		err = files_write(tls_keys_first(keys, NULL), client, server);
	if (!err)
		files_explain(tls_keys_first(keys, NULL), client, server);
	tls_keys_free(keys);
	return err;
}

static int keygen_check(char **args)
{
	if (!tls_tenant_good(args[0], strlen(args[0])))
		return err_set(-EINVAL, "'%.80s' is not the name of a tenant", args[0]);
	if (strcmp(args[0], "rmemd") == 0)
		return err_set(-EINVAL, "rmemd.psk is the server's file, and cannot be "
					"that of a tenant: give it another name");
	return 0;
}

static int keygen_run(const struct command *, char **args)
{
	return keygen(args[0], args[1] ? args[1] : ".");
}

const struct command keygen_command = {
	.name = "keygen",
	.synopsis = "keygen TENANT [FOLDER]",
	.summary = "write a new key to TENANT.psk and rmemd.psk",
	.options = options_table,
	.args_min = 1,
	.args_max = 2,
	.args = "a TENANT, and a FOLDER or none",
	.check = keygen_check,
	.run = keygen_run,
};
