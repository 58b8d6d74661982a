/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of queues share: a lease of two segments, and short ways to submit and
 * to expect. */
#ifndef TESTS_UNIT_LIBRMEM_CASE_H
#define TESTS_UNIT_LIBRMEM_CASE_H

#include "unit/librmem/librmem-stage.h"
#include "unit/unit.h"

#define SEG 20000

extern unsigned char seg_a[SEG], seg_b[SEG]; /* what the lease lies in; zero at first */
extern unsigned char local[2 * SEG];
extern unsigned char *const segments[2];
extern const uint64_t seg_bytes[2];
extern const uint64_t keys[2];
extern struct rmem_lease *lease; /* id 5 */
extern struct rmem_completion done[64];

/* Fixtures: over a fabric that takes any memory, and over one that does not. */
void case_tcp(void);
void case_verbs(void);
/* Like the first, of a server with three endpoints. */
void case_three(void);

struct rmem_op op_of(enum rmem_opcode opcode, uint64_t offset, void *addr,
		     uint64_t bytes, uint64_t cookie);
void submit(struct rmem_queue *queue, struct rmem_op op);
/* A completion is there, this one first. */
void expect(struct rmem_queue *queue, uint64_t cookie, int status);
/* There is none. */
void expect_none(struct rmem_queue *queue);

#endif
