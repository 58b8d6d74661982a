/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon and systemd tell each other: readiness, status, watchdog, sockets
 * passed at start, journal lines with fields.  Without systemd every call does nothing.
 * Threads: [loop], but notify_journal_sink [any]. */
#ifndef RMEMD_NOTIFY_H
#define RMEMD_NOTIFY_H

#include <event2/event.h>

#include "base/log.h"
#include "rmemd/config/config.h"

#define NOTIFY_CONTROL_MAX CONFIG_LIST_MAX
/* Files that the service manager keeps for the next process are told apart by their names. */
#define NOTIFY_KEPT_MAX (2 * CONFIG_POOLS_MAX + 1)
#define NOTIFY_KEPT_NAME 32

struct notify_kept {
	char name[NOTIFY_KEPT_NAME];
	int fd;
};

/* Listening sockets passed by socket activation, told apart by their kind: all sockets of
 * one unit have one name.  The caller owns them: they are close-on-exec and non-blocking. */
struct notify_fds {
	int control[NOTIFY_CONTROL_MAX]; /* TCP */
	unsigned n_control;              /* 0: none passed */
	int admin;                       /* UNIX stream; -1: not passed */
	struct notify_kept kept[NOTIFY_KEPT_MAX];
	unsigned n_kept;
};

/* Take what was passed; once per process, as it also clears $LISTEN_FDS.
 *   -EINVAL  a descriptor of another kind, or more than there is room for; all are closed */
int notify_listen_fds(struct notify_fds *ret_fds);

/* Whether there is a service manager that may keep files; and, before notify_listen_fds(),
 * whether it has passed the ledger of the process before. */
bool notify_keeps(void);
bool notify_kept(void);
/* Have the service manager keep a file for the next process, under a name of fewer than
 * NOTIFY_KEPT_NAME characters; or let go of it.  Whether it has been told; it refuses more
 * than FileDescriptorStoreMax= without a word. */
bool notify_keep(const char *name, int fd);
void notify_keep_no_more(const char *name);

/* READY=1 with a STATUS= line; again after notify_reloading() when the reload is done.
 */
void notify_ready(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void notify_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void notify_reloading(void);
void notify_stopping(void);

/* When the service manager expects WATCHDOG=1, send it from the loop at half its
 * interval, so that a loop that hangs is noticed.  -ENOMEM.  Stop before the base is
 * freed. */
int notify_watchdog_start(struct event_base *base);
void notify_watchdog_stop(void);

/* A line to the journal: MESSAGE (as log_format() makes it), PRIORITY, SYSLOG_IDENTIFIER and
 * RMEM_EVENT, _SESSION, _LEASE, _POOL, _DEVICE, _PEER, _TENANT as far as the context has
 * them. */
log_sink notify_journal_sink;

/* The sink for a target; CONFIG_LOG_AUTO: the journal when stderr is connected to it.
 */
log_sink *notify_log_sink(enum config_log_target target);

#endif
