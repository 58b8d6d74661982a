/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS for fuzz targets: contexts, a file with the input in it, and random numbers of OpenSSL that
 * are the same in every run of an input. */
#ifndef TESTS_FUZZ_TLS_KIT_H
#define TESTS_FUZZ_TLS_KIT_H

#include <stddef.h>
#include <stdint.h>

#include "tls/context.h"

/* Begin the sequence of OpenSSL's random numbers again. */
void tls_random_reset(void);

/* Keys of the tenant "default" with these numbers; returned keys are the context's. */
#define TLS_KIT_KEYS 3u
struct tls_keys *tls_kit_keys(unsigned from, unsigned n);
struct tls_context *tls_kit_server(unsigned from, unsigned n);
struct tls_context *tls_kit_client(unsigned key);

/* The path of a file that its owner alone can read. */
const char *tls_kit_file(const void *data, size_t bytes);

/* Folder with ca.pem, server.pem and client.pem, made once and removed at the end. */
const char *tls_kit_folder(void);

#endif
