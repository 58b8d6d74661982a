/* SPDX-License-Identifier: BSD-3-Clause */
/* An attacker against a running daemon.
 *
 *   attack FOLDER ADDRESS CONTROL_PORT DATA_PORT tcp|rdma ROUNDS GROUP...
 *   attack FOLDER files
 *
 * FOLDER has the keys of the tenants, TENANT.psk, and the daemon's admin.sock.  `files` writes
 * certificates there.  Prints a line per attempt and the totals. */
#include "attack.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attack_options attack_options = { .rounds = 1 };

static const struct {
	const char *name;
	void (*run)(void);
} groups[] = {
	{ "tokens", attack_tokens },
	{ "keys", attack_keys },
	{ "bounds", attack_bounds },
	{ "leases", attack_leases },
	{ "numbers", attack_numbers },
	{ "tls", attack_tls },
	{ "certificates", attack_certificates },
	{ "handshakes", attack_handshakes },
	{ "frames", attack_frames },
	{ "admin", attack_admin },
	{ "restart", attack_restart },
	{ "server", attack_server },
	{ "floods", attack_floods },
	{ "floods-tls", attack_floods_tls },
	{ "floods-ledger", attack_floods_ledger },
	{ "strangers", attack_strangers },
	{ "strangers-both", attack_strangers_both },
	{ "requests", attack_requests },
};

static void group_run(const char *name)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		if (strcmp(groups[i].name, name) == 0) {
			groups[i].run();
			return;
		}
	}
	must(false, name);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[2], "files") == 0) {
		attack_options.folder = argv[1];
		attack_files();
		return 0;
	}
	if (argc < 8) {
		(void)fprintf(stderr, "attack: see the head of attack.c\n");
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	attack_options.folder = argv[1];
	attack_options.address = argv[2];
	attack_options.control_port = (uint16_t)strtoul(argv[3], NULL, 10);
	attack_options.metrics_port = (uint16_t)(attack_options.control_port + 1);
	attack_options.data_port = (uint16_t)strtoul(argv[4], NULL, 10);
	attack_options.fabric = strcmp(argv[5], "tcp") == 0 ? FABRIC_TCP : FABRIC_VERBS;
	attack_options.rounds = (unsigned)strtoul(argv[6], NULL, 10);
	for (int i = 7; i < argc; i++)
		group_run(argv[i]);
	return attempts_end();
}
