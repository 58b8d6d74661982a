/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/auth.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/config/changes.h"
#include "tls/context.h"
#include "tls/stream.h"
#include "wire/codec.h"

static const char *path_or_null(const char *path)
{
	return *path ? path : NULL;
}

/* One that is not valid now is said and served: clients may have another clock. */
static int certificate_check(const struct config *config,
			     const struct tls_context *context)
{
	int err = tls_context_check_certificate(context);

	if (err)
		err = err_prefix(err, "[server] certificate %s", config->certificate);
	if (err != -EKEYEXPIRED)
		return err;
	log_event(LOG_WARNING, "certificate-not-valid", NULL, "%s", err_text());
	return 0;
}

int auth_load(const struct config *config, struct tls_context **ret_context)
{
	struct tls_params params = {
		.certificate = path_or_null(config->certificate),
		.key = path_or_null(config->key),
	};
	struct tls_context *context;
	int err;

	*ret_context = NULL;
	if (config->auth == CONFIG_AUTH_NONE)
		return 0;
	if (config->auth != CONFIG_AUTH_CERTIFICATE) {
		err = tls_keys_load(config->psk, &params.keys);
		if (err)
			return err_prefix(err, "[server] psk");
	}
	if (config->auth != CONFIG_AUTH_PSK)
		params.ca = config->ca;
	err = tls_context_server(&params, &context);
	if (err)
		return err_prefix(err, "[server]");
	err = certificate_check(config, context);
	if (err) {
		tls_context_unref(context);
		return err;
	}
	*ret_context = context;
	return 0;
}

static void count_compare(const char *key, const char *what,
			  const struct tls_difference *difference,
			  struct config_changes *changes)
{
	char old[48], new[96];

	if (difference->added + difference->removed == 0)
		return;
	(void)snprintf(old, sizeof(old), "%s: %zu", what, difference->before);
	(void)snprintf(new, sizeof(new), "%zu, added: %zu, removed: %zu",
		       difference->after, difference->added, difference->removed);
	config_change_add(changes, "server", key, old, new);
}

void auth_compare(const struct tls_context *old, const struct tls_context *new,
		  struct config_changes *changes)
{
	char old_print[TLS_FINGERPRINT_CHARS + 1], new_print[TLS_FINGERPRINT_CHARS + 1];
	const struct tls_difference keys = tls_context_compare_keys(old, new),
				    ca = tls_context_compare_ca(old, new);

	tls_context_fingerprint(old, old_print);
	tls_context_fingerprint(new, new_print);
	count_compare("psk", "keys", &keys, changes);
	if (strcmp(old_print, new_print) != 0)
		config_change_add(changes, "server", "certificate", old_print,
				  new_print);
	count_compare("ca", "certificates", &ca, changes);
}

static const struct tenant_params *tenant_find(const struct config *config,
					       const char *name)
{
	for (unsigned i = 0; i < config->n_tenants; i++)
		if (!strcmp(config->tenants[i].name, name))
			return &config->tenants[i];
	return NULL;
}

static bool certificate_fits(const struct control *control, const struct stream *stream,
			     const char *tenant)
{
	const struct tenant_params *params = tenant_find(control->config, tenant);

	return params && stream_certified_as(stream, params->certificates);
}

int auth_check(const struct control *control, const struct stream *stream,
	       const char *tenant)
{
	char own[TLS_TENANT_MAX + 1];

	if (!stream->ssl)
		return 0;
	if (stream_tenant(stream, own))
		return strcmp(own, tenant) == 0
			       ? 0
			       : err_set(-EACCES,
					 "the client's key is of tenant %s, and not of "
					 "tenant %s",
					 own, tenant);
	return certificate_fits(control, stream, tenant)
		       ? 0
		       : err_set(-EACCES,
				 "the client's certificate fits no pattern of [tenant "
				 "%s] certificates",
				 tenant);
}

bool auth_holds(const struct control *control, const struct stream *stream,
		const char *tenant)
{
	if (!stream->ssl || !stream->handshaken)
		return true;
	/* auth was none or is none now: that needs a restart */
	if (!control->tls)
		return true;
	return stream_still_good(stream, control->tls) &&
	       !auth_check(control, stream, tenant);
}

enum refusal auth_refusal(const struct stream *stream, int err)
{
	if (stream->unknown)
		return REFUSAL_UNKNOWN_KEY;
	if (err != -EACCES)
		return REFUSAL_TLS;
	return stream->key ? REFUSAL_WRONG_KEY : REFUSAL_CERTIFICATE;
}

bool auth_plain_begins(int fd, uint64_t *ret_id)
{
	uint8_t header[WIRE_HEADER_BYTES];
	ssize_t n = recv(fd, header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);

	/* a record of TLS would be a frame of 16 MiB */
	if (n != (ssize_t)sizeof(header) ||
	    wire_frame_bytes(header, sizeof(header)) <= 0 ||
	    wire_frame_type(header) != WIRE_TYPE_hello)
		return false;
	*ret_id = wire_frame_id(header, sizeof(header));
	return true;
}

/* The record of a handshake, of any version. */
bool auth_tls_begins(const uint8_t *at, size_t bytes)
{
	return bytes >= 2 && at[0] == 22 && at[1] == 3;
}
