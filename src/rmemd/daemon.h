/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon as a whole: it opens the parts, wires their events to each other and runs the
 * loop.  Threads: [loop]. */
#ifndef RMEMD_DAEMON_H
#define RMEMD_DAEMON_H

#include "rmemd/config/config.h"

struct daemon;

/* Open everything the configuration names.  `config` is copied; config_path, borrowed, is what a
 * reload reads, or NULL: the defaults.  -errno with text that names cause and remedy.
 *   -ECANCELED  it was asked to stop */
int daemon_open(const struct config *config, const char *config_path,
		struct daemon **ret_daemon);
/* Serve until asked to stop.  Returns 0 after an orderly stop. */
int daemon_run(struct daemon *daemon);
/* NULL: nothing. */
void daemon_close(struct daemon *daemon);

#endif
