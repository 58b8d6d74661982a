/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client does with the bytes of a lease. */
#ifndef TESTS_SIMULATE_BYTES_H
#define TESTS_SIMULATE_BYTES_H

#include "simulate/held.h"

/* Read a range, and compare. */
void bytes_check(struct program *program, struct held *held, uint64_t offset,
		 uint64_t bytes);
/* Read or write a range. */
void bytes_use(struct program *program, struct held *held);
/* An operation outside of the lease, which must be refused. */
void bytes_use_outside(struct program *program, struct held *held);
/* Some operations at a time. */
void bytes_queue(struct program *program, struct held *held);
/* A checksum. */
void bytes_inband(struct program *program, struct held *held);
/* The lease was freed: no key reaches it. */
void bytes_check_unreached(uint64_t lease);

#endif
