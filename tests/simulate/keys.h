/* SPDX-License-Identifier: BSD-3-Clause */
/* The tenants' pre-shared keys, as an administrator adds, hands out and removes them: the daemon's
 * file has several of a tenant, each client's file has one. */
#ifndef TESTS_SIMULATE_KEYS_H
#define TESTS_SIMULATE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

/* Choose whether there are keys. */
void keys_init(void);
void keys_end(void);
/* Whether the daemon asks for keys. */
bool keys_used(void);
const char *keys_daemon_path(void);
const char *keys_client_path(unsigned client);

/* Change something; the daemon is to load its file again. */
void keys_step(void);
/* Every client has its tenant's only key. */
void keys_heal(void);
/* The daemon has loaded its file. */
void keys_loaded(void);

/* The client's key is not one that the daemon has loaded, or others were removed just now. */
bool keys_disturb(unsigned client);
/* The key with which the client's last session was opened is not accepted any more. */
bool keys_removed(unsigned client);

#endif
