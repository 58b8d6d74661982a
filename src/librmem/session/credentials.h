/* SPDX-License-Identifier: BSD-3-Clause */
/* How a session shows who it is, and who the server must be: by a pre-shared key, or certificates.
 * Threads: one at a time. */
#ifndef LIBRMEM_SESSION_CREDENTIALS_H
#define LIBRMEM_SESSION_CREDENTIALS_H

#include <sys/types.h>
#include <time.h>

#include <rmem/rmem.h>

#include "librmem/session/uri.h"

struct tls_context;

/* By which a file that was written anew is known. */
struct credentials_file {
	ino_t inode;
	off_t bytes;
	struct timespec changed;
};

#define CREDENTIALS_FILES 4 /* psk, cert, key, ca */

struct credentials {
	struct tls_context *tls; /* context of the last attempt; NULL: no TLS */
	bool psk;                /* by a pre-shared key; or by certificates */
	bool once;               /* the key is from the program, which is asked once */
	struct credentials_file files[CREDENTIALS_FILES]; /* those loaded last */
};

/* Load the files that the URI or the environment names, or ask the program for its key; the tenant
 * becomes that of the key, unless one is given.
 *   -EACCES  others can read the file of a key, or it has no key of the tenant
 *   -ENOKEY  there is no such file
 *   -EINVAL, -ENOMEM ... */
int credentials_open(struct credentials *credentials, struct uri *uri,
		     const struct rmem_options *options);
/* Load the files for another attempt to connect if they have changed, as keys and certificates are
 * renewed.  The tenant stays.  On failure those loaded before stay. */
void credentials_renew(struct credentials *credentials, struct uri *uri);
void credentials_close(struct credentials *credentials);

#endif
