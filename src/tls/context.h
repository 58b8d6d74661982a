/* SPDX-License-Identifier: BSD-3-Clause */
/* What the TLS connections of one side have in common: keys, certificates, and the rules of TLS:
 * version 1.3 alone, the protocol rmem/1 (ALPN), key exchange by Diffie-Hellman always, no
 * resumption by tickets and no early data, as a session of rmem is resumed by its own secret.
 *
 * A context does not change.  After a reload there is another one; connections keep theirs.
 * Threads: [any]; the reference count is atomic. */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "tls/keys.h"

struct tls_context;

/* Members that are NULL are not used.  Paths are of files in PEM. */
struct tls_params {
	struct tls_keys *keys;   /* owned by the context, also on failure */
	const char *certificate; /* with those between it and the root behind it */
	const char *key;         /* of the certificate; NULL: in its file */
	const char *ca;          /* certificates that sign the other side's */
};

/* Keep OpenSSL to the very end of the program, as threads may use it while exit(3) runs.  No effect
 * if the program has used OpenSSL before. */
void tls_outlast_exit(void);

/* A certificate is good only with an extended key usage: serverAuth or clientAuth.
 *
 * The server accepts a client with a key of `keys`, or with a certificate of `ca`.
 *   -EACCES  others can read the file of the certificate's key, or write to one of the files
 *   -EINVAL, -ENOENT, -ENOMEM ...  the text names the file */
int tls_context_server(const struct tls_params *params,
		       struct tls_context **ret_context);
/* The client shows its first key, and accepts a server that has it too; or it shows its
 * certificate, if it has one, and accepts a server with a certificate of `ca` for `servername`: a
 * host name or an address, which is one of its subjectAltName. */
int tls_context_client(const struct tls_params *params, const char *servername,
		       struct tls_context **ret_context);
/* Whether clients accept a server's certificate, as far as the server can tell; 0 too without one.
 *   -EINVAL       no client ever does; the text says what is missing
 *   -EKEYEXPIRED  it is not valid now */
int tls_context_check_certificate(const struct tls_context *context);
/* For data channels, each of which has a key of its own: struct channel_secrets.  -ENOMEM */
int tls_context_channels(bool server, struct tls_context **ret_context);
/* How many keys, or certificates that sign those of the other side, two contexts have, and how many
 * of them one of the two alone has.  A context may be NULL. */
struct tls_difference {
	size_t before, after;
	size_t added, removed;
};
struct tls_difference tls_context_compare_keys(const struct tls_context *before,
					       const struct tls_context *after);
struct tls_difference tls_context_compare_ca(const struct tls_context *before,
					     const struct tls_context *after);
/* The begin of the SHA-256 of this side's certificate, "sha256:3f2a..."; "none". */
#define TLS_FINGERPRINT_CHARS 23
void tls_context_fingerprint(const struct tls_context *context,
			     char ret[TLS_FINGERPRINT_CHARS + 1]);
struct tls_context *tls_context_ref(struct tls_context *context);
/* NULL: no effect. */
void tls_context_unref(struct tls_context *context);

#endif
