/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes sessions, and waits for that.  Threads: [any]. */
#ifndef LIBRMEM_OPEN_H
#define LIBRMEM_OPEN_H

#include <stdbool.h>

#include <rmem/rmem.h>

#include "base/backoff.h"
#include "librmem/session/uri.h"

/* One call of rmem_open(), which may try several sessions. */
struct opening {
	struct uri uri;
	const struct rmem_options *options;
	uint64_t end_ns; /* no further try begins after this; 0: before the first */
	bool lost;       /* the last try has lost its server */
	struct backoff backoff;
};

/* Borrows the options, which may be NULL.  -EINVAL */
int opening_init(struct opening *opening, const char *uri,
		 const struct rmem_options *options);
/* The time-out of these options. */
unsigned opening_timeout_ms(const struct rmem_options *options);
/* The errors of rmem_open(), with its name. */
int opening_run(struct opening *opening, rmem **ret_session);

/* rmem_close() of a session that is not inherited, but for its memory, which the caller frees. */
void session_shut(struct rmem *session);

#endif
