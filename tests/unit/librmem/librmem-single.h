/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of operations that need not wait: beside the case's lease, a lease of
 * one segment and a buffer over `local`. */
#ifndef TESTS_UNIT_LIBRMEM_SINGLE_H
#define TESTS_UNIT_LIBRMEM_SINGLE_H

#include "unit/librmem/librmem-case.h"

extern struct rmem_lease *single; /* over seg_a, id 6 */
extern struct rmem_buffer *buffer;

/* Fixtures: case_tcp() or case_verbs() with both. */
void single_tcp(void);
void single_verbs(void);
/* Their teardown; checks that no operation uses the leases. */
void single_close(void);

/* An operation at equal offsets of both. */
struct rmem_op op_single(enum rmem_opcode opcode, uint64_t offset, uint64_t bytes,
			 uint64_t cookie);
/* A write of 8 bytes. */
struct rmem_op write_single(uint64_t offset, uint64_t cookie);

#endif
