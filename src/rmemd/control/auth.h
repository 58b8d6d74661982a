/* SPDX-License-Identifier: BSD-3-Clause */
/* Who a client is: by [server] auth, its pre-shared key, its certificate, or what it says.
 * Threads: [loop]. */
#ifndef RMEMD_CONTROL_AUTH_H
#define RMEMD_CONTROL_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rmemd/config/config.h"
#include "rmemd/control/control.h"

struct config_changes;
struct stream;
struct tls_context;

/* The keys and certificates that the configuration names; NULL for auth = none.  A certificate that
 * is not valid now is logged.
 *   -EINVAL, for a certificate too that no client accepts
 *   -EACCES, -ENOENT, -ENOMEM ...
 * The text names the file. */
int auth_load(const struct config *config, struct tls_context **ret_context);

/* Append what differs between two contexts, of which each may be NULL: numbers of keys and
 * certificates, and the fingerprint of the server's. */
void auth_compare(const struct tls_context *old, const struct tls_context *new,
		  struct config_changes *changes);

/* Whether the client is this tenant, as it says.  0, or -EACCES. */
int auth_check(const struct control *control, const struct stream *stream,
	       const char *tenant);
/* Whether the configuration still accepts a client that was this tenant. */
bool auth_holds(const struct control *control, const struct stream *stream,
		const char *tenant);

/* Why the handshake failed with `err`. */
enum refusal auth_refusal(const struct stream *stream, int err);
/* Whether the first bytes at a socket are a hello without TLS, with this id. */
bool auth_plain_begins(int fd, uint64_t *ret_id);
/* Whether a handshake of TLS begins so. */
bool auth_tls_begins(const uint8_t *at, size_t bytes);

#endif
