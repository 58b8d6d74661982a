/* SPDX-License-Identifier: BSD-3-Clause */
/* The attacker: a program that tries what a hostile client, server or user may try.  Each attempt
 * must be refused, and a counter of the daemon must have risen.  An error of the attacker itself
 * ends the program. */
#ifndef TESTS_ATTACK_ATTACK_H
#define TESTS_ATTACK_ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/client.h"

#define ATTACK_WAIT_MS 20000

/* From the command line. */
struct attack_options {
	const char *address; /* of the daemon */
	uint16_t control_port, data_port;
	uint16_t metrics_port; /* of RDMA, which TCP does not need */
	const char *folder;    /* of keys, certificates and the admin socket */
	enum fabric_kind fabric;
	unsigned rounds; /* 1, or more for a long run */
};
extern struct attack_options attack_options;

/* ---- attempts: attack-table.c ---- */

/* Begin an attempt, which must make the counter rise by `times`: that of counter_get().  NULL: no
 * daemon takes part, and the client's error counts. */
void attempt(const char *what, const char *counter, uint64_t times);
/* How often it was tried, if that shows only later. */
void attempt_times(uint64_t times);
/* End it.  `by` says what refused it. */
void attempt_refused(const char *by);
/* It was not refused: `how`. */
void attempt_admitted(const char *how);
/* Refused if the result is negative. */
void attempt_result(int result, const char *by);
/* Refused if what was kept is not above the limit. */
void attempt_measured(uint64_t kept, uint64_t limit, const char *unit);
/* It does not apply here. */
void attempt_void(const char *what, const char *why);
/* Print the totals; the exit status. */
int attempts_end(void);

/* End the program unless the condition holds. */
#define must(condition, what)                                  \
	do {                                                   \
		if (!(condition))                              \
			attack_fail(what, __FILE__, __LINE__); \
	} while (0)
_Noreturn void attack_fail(const char *what, const char *file, int line);

/* ---- the daemon's counters: attack-counters.c ---- */

/* A number of the admin interface: the resource, and names of members and of items of lists:
 * "status counters refused tls", "tenants mallory denied_names". */
uint64_t counter_get(const char *path);
/* A metric for Prometheus, without labels. */
double metric_get(const char *name);
/* A connection to the admin socket, or -errno. */
int admin_connect(void);
/* Ask the admin socket; the status of HTTP, or -errno. */
int admin_request(const char *method, const char *path);

/* ---- what the daemon uses: attack-usage.c ---- */

/* Its anonymous memory. */
uint64_t usage_memory_kib(uint64_t pid);
/* The file of its ledger, in a directory. */
uint64_t usage_ledger_kib(uint64_t pid);
/* Time of the CPU that its threads have used. */
struct usage_cpu {
	uint64_t loop_ns, others_ns;
};
struct usage_cpu usage_cpu(uint64_t pid);

/* The script that started the daemon ends it with the signal, and starts it again. */
void daemon_restart(const char *signal_name);

/* ---- the groups of attempts, a file each ---- */

void attack_tokens(void);
void attack_keys(void);
void attack_bounds(void);
void attack_leases(void);
void attack_numbers(void);
void attack_tls(void);
void attack_certificates(void);
void attack_handshakes(void);
void attack_frames(void);
void attack_admin(void);
void attack_restart(void);
void attack_floods(void);
/* Of a daemon whose channels are under TLS. */
void attack_floods_tls(void);
/* Of a daemon whose ledger has no more room than it should need. */
void attack_floods_ledger(void);
/* Of a daemon that asks for a key, and of one that asks for a key or a certificate. */
void attack_strangers(void);
void attack_strangers_both(void);
/* Over RDMA. */
void attack_requests(void);
void attack_server(void);
/* Write the certificates of the tests into the folder. */
void attack_files(void);

#endif
