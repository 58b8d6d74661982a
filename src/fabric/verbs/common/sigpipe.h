/* SPDX-License-Identifier: BSD-3-Clause */
/* siw, iWARP in software, writes to its TCP socket in the calls of the program that posts,
 * and the kernel answers a closed connection with SIGPIPE as if the program had written
 * there itself.  A library must not let it die of that, nor change what it does about its
 * own signals.  Threads: [any]; begin and end in the same one. */
#ifndef FABRIC_VERBS_COMMON_SIGPIPE_H
#define FABRIC_VERBS_COMMON_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

struct verbs_sigpipe {
	bool guarded;
	/* before, and so the program's: */
	bool blocked, pending;
};

/* The program ignores it now: if it goes on so, nothing need be guarded. */
bool verbs_sigpipe_ignored(void);

/* Keep SIGPIPE off this thread until the end, if `guard`. */
void verbs_sigpipe_begin(struct verbs_sigpipe *sigpipe, bool guard);
/* Take back one that came meanwhile. */
void verbs_sigpipe_end(const struct verbs_sigpipe *sigpipe);

#endif
