/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules that hold after each step, looked at from inside the daemon. */
#ifndef TESTS_SIMULATE_CHECKS_H
#define TESTS_SIMULATE_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/pool/pools.h"
#include "wire/msg.h"

void checks_init(void);
void checks_end(void);

/* After each step of the daemon: no page in two leases, the sums of extents, the tenants' quotas,
 * keys to memory of their own lease only. */
void check_step(void);
/* Every byte of every lease is zero or was written for that lease. */
void check_bytes(void);
/* After a start: the bytes, too. */
void check_restored(void);
/* The clients have ended, and their grace time is over: only named leases are left, and all other
 * memory is zero. */
void check_rest(void);

/* A message leaves the daemon: a new lease is zero. */
void check_message(const struct wire_msg *msg);
/* Memory is freed: no key reaches it. */
void check_freed(const struct extent *extent);
/* A client reaches memory through a key of this lease: it is the lease's, and the client was
 * heard. */
void check_access(unsigned client, const char *at, uint64_t bytes, uint64_t lease);
/* A client that was not disturbed has the lease attached: the daemon says so too. */
void check_attached(unsigned client, uint64_t session, uint64_t lease);
/* Write through a dying key, where that hurts nobody. */
void check_late_write(char *at, uint64_t bytes, uint64_t lease);

/* The byte at an offset of a lease that was written as version 1 to 15; never 0. */
unsigned char pattern(uint64_t lease, uint64_t offset, unsigned version);
/* The version of a byte; 0: it is zero; -1: it is of no version. */
int pattern_version(uint64_t lease, uint64_t offset, unsigned char byte);

#endif
