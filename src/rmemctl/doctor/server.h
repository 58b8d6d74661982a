/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory server that rmemctl doctor examines: its host, its configuration, its limits, and the
 * daemon if it runs.  server_read() asks once; the checks judge.  Threads: [main]. */
#ifndef RMEMCTL_DOCTOR_SERVER_H
#define RMEMCTL_DOCTOR_SERVER_H

#include <jansson.h>

#include "doctor/host.h"
#include "rmemd/config/config.h"

#define SERVER_UNLIMITED UINT64_MAX
#define SERVER_TEXT_BYTES 512

struct server_limits {
	uint64_t memlock; /* bytes, or SERVER_UNLIMITED */
	uint64_t nofile;
	bool locks_all;                 /* CAP_IPC_LOCK: memlock does not count */
	char source[SERVER_TEXT_BYTES]; /* where they were read; "": unknown */
	char process[24];               /* owner of these; "": the unit, or unknown */
	uint64_t memory;                /* of the unit */
	const char *memory_setting;     /* its name: MemoryMax=, MemoryHigh= */
};

struct server {
	struct host host;
	const char *socket_path;

	const char *config_path; /* NULL: no file, the defaults */
	int config_err;          /* of config_load(); then `config` has the defaults */
	char config_text[SERVER_TEXT_BYTES];
	struct config config;
	const char *devices[CONFIG_LIST_MAX];

	/* answers of the daemon; NULL: it does not run, or did not answer */
	json_t *status, *pools;
	int daemon_err; /* why not */
	char daemon_text[SERVER_TEXT_BYTES];
	long pid; /* 0: it does not run */
	struct server_limits limits;
};

/* config_path NULL: the default file, if there is one.  `host` has root and report.  Everything but
 * the configuration is read below the root. */
void server_read(struct server *server, const char *config_path,
		 const char *socket_path);
void server_release(struct server *server);

/* The limits of the daemon, or of the unit that would start it. */
void limits_read(const struct server *server, struct server_limits *ret_limits);
/* Whether a process, "self" or its number, has a CAP_*. */
bool limits_capable(const char *root, const char *process, unsigned capability);

void config_check_file(const struct server *server);
void daemon_check(const struct server *server);
void memlock_check(const struct server *server);
void descriptors_check(const struct server *server);
void hugepages_check(const struct server *server);
void nodes_check(const struct server *server);
void thp_check(const struct server *server);
void listen_check(const struct server *server);
void advertise_check(const struct server *server);
void sockets_check(const struct server *server);
void clients_check(const struct server *server);

/* The pool of this name in the daemon's answer; NULL: it has none, could not add it, or does not
 * run. */
const json_t *server_pool(const struct server *server, const char *name);
/* Whether the daemon is reached at its loopback addresses alone. */
bool server_is_local(const struct server *server);

#endif
