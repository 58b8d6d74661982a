/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/credentials.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "tls/context.h"

/* What neither the URI nor the program gives is taken from the environment. */
static int environment_apply(struct uri *uri, bool given)
{
	const struct {
		const char *name;
		char *to;
	} variables[] = {
		{ "RMEM_PSK", uri->psk },
		{ "RMEM_CERT", uri->cert },
		{ "RMEM_KEY", uri->key },
		{ "RMEM_CA", uri->ca },
		{ "RMEM_SERVERNAME", uri->servername },
	};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = secure_getenv(variables[i].name);

		/* a name of the server goes with either */
		if (!value || *variables[i].to ||
		    (given && variables[i].to != uri->servername))
			continue;
		if (strlen(value) > URI_PATH_MAX)
			return err_set(-EINVAL, "%s is longer than %d characters",
				       variables[i].name, URI_PATH_MAX);
		(void)strcpy(variables[i].to, value);
	}
	return 0;
}

static int check(const struct uri *uri, bool psk)
{
	if (psk && (*uri->cert || *uri->ca))
		return err_set(-EINVAL, "a psk and certificates: give one of the two");
	if (*uri->cert && !*uri->ca)
		return err_set(-EINVAL, "a cert, but no ca that signs the server's: "
					"the server could be any");
	if (*uri->key && !*uri->cert)
		return err_set(-EINVAL, "a key, but no cert that it belongs to");
	return 0;
}

/* Keep the key of the tenant alone, as a client shows the first key. */
static int key_pick(struct tls_keys *all, const struct uri *uri,
		    struct tls_keys **ret_keys)
{
	const struct tls_key *key =
		tls_keys_first(all, uri->tenant_given ? uri->tenant : NULL);

	if (!key)
		return err_set(-EACCES, "key file %s: it has no key of tenant %s",
			       uri->psk, uri->tenant);
	return tls_keys_of(key->tenant, key->bytes, key->n_bytes, ret_keys);
}

static int keys_load(struct uri *uri, struct tls_keys **ret_keys)
{
	struct tls_keys *all;
	int err = tls_keys_load(uri->psk, &all);

	if (err)
		return err;
	err = key_pick(all, uri, ret_keys);
	tls_keys_free(all);
	return err;
}

static int keys_ask(const struct uri *uri, const struct rmem_options *options,
		    struct tls_keys **ret_keys)
{
	uint8_t key[TLS_KEY_MAX];
	size_t bytes = 0;
	int err = options->psk(options->psk_ctx, uri->tenant, key, sizeof(key), &bytes);

	if (err)
		err = err_set(err < 0 ? err : -EACCES,
			      "the program has no key of tenant %s", uri->tenant);
	else
		err = tls_keys_of(uri->tenant, key, bytes, ret_keys);
	explicit_bzero(key, sizeof(key));
	return err;
}

static int context_open(struct tls_keys *keys, struct uri *uri,
			struct tls_context **ret_tls)
{
	struct tls_params params = {
		.keys = keys,
		.certificate = *uri->cert ? uri->cert : NULL,
		.key = *uri->key ? uri->key : NULL,
		.ca = *uri->ca ? uri->ca : NULL,
	};
	const char *name = *uri->servername ? uri->servername : uri->host;

	if (keys) {
		(void)strcpy(uri->tenant, tls_keys_first(keys, NULL)->tenant);
		/* a session stays that of its tenant, whatever the file has later */
		uri->tenant_given = true;
	}
	return tls_context_client(&params, name, ret_tls);
}

/* A file that is missing is all zero. */
static void files_look(const struct uri *uri,
		       struct credentials_file ret_files[CREDENTIALS_FILES])
{
	const char *paths[CREDENTIALS_FILES] = { uri->psk, uri->cert, uri->key,
						 uri->ca };

	memset(ret_files, 0, CREDENTIALS_FILES * sizeof(*ret_files));
	for (unsigned i = 0; i < CREDENTIALS_FILES; i++) {
		struct stat st;

		if (!*paths[i] || stat(paths[i], &st))
			continue;
		ret_files[i].inode = st.st_ino;
		ret_files[i].bytes = st.st_size;
		ret_files[i].changed = st.st_ctim;
	}
}

int credentials_open(struct credentials *credentials, struct uri *uri,
		     const struct rmem_options *options)
{
	bool ask = options && options->psk;
	bool given = ask || *uri->psk || *uri->cert || *uri->key || *uri->ca;
	struct tls_keys *keys = NULL;
	int err = environment_apply(uri, given);

	/* before the first use of OpenSSL: the service threads never end by themselves */
	tls_outlast_exit();
	*credentials = (struct credentials){ .once = ask };
	if (!err)
		err = check(uri, ask || *uri->psk);
	/* before they are read: a change meanwhile is seen later */
	files_look(uri, credentials->files);
	if (!err && ask)
		err = keys_ask(uri, options, &keys);
	else if (!err && *uri->psk)
		err = keys_load(uri, &keys);
	credentials->psk = keys != NULL;
	if (!err && (keys || *uri->ca))
		err = context_open(keys, uri, &credentials->tls);
	/* ENOENT says that there is no lease of a name */
	return err == -ENOENT ? -ENOKEY : err;
}

void credentials_renew(struct credentials *credentials, struct uri *uri)
{
	struct credentials_file files[CREDENTIALS_FILES];
	struct tls_context *tls;
	struct tls_keys *keys = NULL;

	if (!credentials->tls || credentials->once)
		return;
	files_look(uri, files);
	if (!memcmp(files, credentials->files, sizeof(files)))
		return;
	if ((*uri->psk && keys_load(uri, &keys)) || context_open(keys, uri, &tls))
		return;
	tls_context_unref(credentials->tls);
	credentials->tls = tls;
	memcpy(credentials->files, files, sizeof(files));
}

void credentials_close(struct credentials *credentials)
{
	tls_context_unref(credentials->tls);
	credentials->tls = NULL;
}
