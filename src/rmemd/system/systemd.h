/* SPDX-License-Identifier: BSD-3-Clause */
/* The interfaces of systemd: readiness, status, watchdog, sockets passed at start, file descriptor
 * store.  Without systemd every call does nothing.  Threads: [loop]. */
#ifndef RMEMD_SYSTEM_SYSTEMD_H
#define RMEMD_SYSTEM_SYSTEMD_H

#include <event2/event.h>

#include "rmemd/config/config.h"

#define SYSTEMD_CONTROL_MAX CONFIG_LIST_MAX
/* Files that the service manager stores for the next process are identified by their names. */
#define SYSTEMD_FILES_MAX (2 * CONFIG_POOLS_MAX + 1)
#define SYSTEMD_FILE_NAME_BYTES 32

struct systemd_file {
	char name[SYSTEMD_FILE_NAME_BYTES];
	int fd;
};

/* Listening sockets passed by socket activation are identified by their kind, as all sockets of one
 * unit have one name.  The caller owns them: they are close-on-exec and non-blocking. */
struct systemd_fds {
	int control[SYSTEMD_CONTROL_MAX]; /* TCP */
	unsigned n_control;               /* 0: none passed */
	int admin;                        /* UNIX stream; -1: not passed */
	struct systemd_file kept[SYSTEMD_FILES_MAX];
	unsigned n_kept;
};

/* Take over the descriptors passed; once per process, as it also clears $LISTEN_FDS.
 *   -EINVAL  a descriptor of another kind, or too many; all are closed */
int systemd_listen_fds(struct systemd_fds *ret_fds);

/* Before systemd_listen_fds(): whether the service manager has passed the ledger of the last
 * process. */
bool systemd_passed_ledger(void);
/* Have the service manager store a file for the next process, under a name of fewer than
 * SYSTEMD_FILE_NAME_BYTES characters; or remove it.  True: it has been told; it drops more files
 * than FileDescriptorStoreMax= without a reply (fdstore_verify()). */
bool systemd_store_fd(const char *name, int fd);
void systemd_remove_fd(const char *name);

/* A descriptor that reaches its end of file once the service manager has handled all messages sent
 * so far; the caller closes it.  -errno with text */
int systemd_barrier(int *ret_fd);

/* READY=1 with a STATUS= line; after systemd_reloading() it ends the reload. */
void systemd_ready(const char *status);
void systemd_status(const char *status);
void systemd_reloading(void);
void systemd_stopping(void);
/* Before the process ends: have the service stay stopped, and its sockets too, which would start it
 * for the next client.  A file in its runtime directory tells rmemd.service.  No effect without
 * systemd.  -errno with text */
int systemd_stay_stopped(void);
/* Take back what an earlier process may have left.  -errno with text */
int systemd_stay_started(void);

/* If the service manager expects WATCHDOG=1, send it from the loop at half its interval, so that a
 * loop that hangs is noticed.  -ENOMEM.  Stop before the base is freed. */
int systemd_watchdog_start(struct event_base *base);
void systemd_watchdog_stop(void);

#endif
