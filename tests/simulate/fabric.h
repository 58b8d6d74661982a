/* SPDX-License-Identifier: BSD-3-Clause */
/* Two fabrics between the clients and the daemon: one of two RDMA devices, whose registrations take
 * time and which executes what comes while the daemon is paused, and TCP, which the daemon
 * executes.  A request is on its way, is executed if the server's end is there and a key permits
 * it, and its answer is on its way; either may meet a cut link. */
#ifndef TESTS_SIMULATE_FABRIC_H
#define TESTS_SIMULATE_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

/* Before the daemon and the first client. */
void fabric_begin(void);
/* When the next packet arrives, or the next registration ends. */
uint64_t fabric_due_ns(void);
/* Let something that is due happen; false: nothing is. */
bool fabric_step(void);
/* A client is told of the key. */
void fabric_key_told(uint64_t rkey);
/* Use a key that a client had, also one that is dying, as a packet on its way would. */
void fabric_attack(void);
/* End the channels of a client at both ends. */
void fabric_cut(unsigned client);
/* All clients and servers are closed: forget what is under way. */
void fabric_end(void);

/* The number of the clients' objects. */
unsigned fabric_client_objects(void);
/* Whether a key of the lease works. */
bool fabric_reaches_lease(uint64_t lease);
/* Each working key, with the tenants of the lease and of the session. */
void fabric_each_guest(void (*each)(uint64_t lease, const char *owner,
				    const char *tenant));
unsigned fabric_keys(void);
/* No segment grows again where a key reaches that is dying since it was cut. */
void fabric_check_growth(void);
/* Call each() for the client of every channel that the daemon's end has. */
void fabric_each_channel(void (*each)(unsigned client));
/* Call each() for every memory region that is not dead. */
void fabric_each_mr(void (*each)(const char *addr, uint64_t bytes, uint64_t lease));

#endif
