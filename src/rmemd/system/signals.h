/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that come while the daemon starts wait for its loop.  Threads: the main one. */
#ifndef RMEMD_SYSTEM_SIGNALS_H
#define RMEMD_SYSTEM_SIGNALS_H

/* From now on SIGTERM, SIGINT and SIGHUP wait. */
void signals_hold(void);
/* What takes long asks meanwhile.  -ECANCELED with text: a signal to stop waits */
int signals_check(void);
/* Once there is somebody to handle them. */
void signals_release(void);

#endif
