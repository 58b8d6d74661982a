/* SPDX-License-Identifier: BSD-3-Clause */
/* A pre-shared key that was fetched before rmem_open(): no callback of librmem enters Python. */
#ifndef PYTHON_KEY_H
#define PYTHON_KEY_H

#include "python/module.h"

struct key {
	const char *bytes; /* NULL: none */
	Py_ssize_t n;
};

/* An rmem_psk whose context is a struct key. */
int key_give(void *ctx, const char *tenant, unsigned char *key, size_t room,
	     size_t *ret_bytes);

#endif
