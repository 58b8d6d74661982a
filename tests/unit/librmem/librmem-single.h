/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of operations that wait for nothing share: beside the case's lease one of a
 * single segment, and a buffer over `local`. */
#ifndef TESTS_UNIT_LIBRMEM_SINGLE_H
#define TESTS_UNIT_LIBRMEM_SINGLE_H

#include "unit/librmem/librmem-case.h"

extern struct rmem_lease *single; /* over seg_a, id 6 */
extern struct rmem_buffer *buffer;

/* Both, once the case is open. */
void single_make(void);
/* Nothing of the leases is outstanding any more: end all. */
void single_end(void);

/* An operation between the same offsets of both. */
struct rmem_op op_single(enum rmem_opcode opcode, uint64_t at, uint64_t bytes,
			 uint64_t cookie);

#endif
