/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of queues: a lease of two segments, and short functions that submit
 * operations and check completions. */
#ifndef TESTS_UNIT_LIBRMEM_CASE_H
#define TESTS_UNIT_LIBRMEM_CASE_H

#include "unit/librmem/librmem-stage.h"
#include "unit/unit.h"

#define SEG 20000

extern unsigned char seg_a[SEG],
	seg_b[SEG]; /* the memory of the lease; zero at first */
extern unsigned char local[2 * SEG];
extern unsigned char *const segments[2];
extern const uint64_t seg_bytes[2];
extern const uint64_t keys[2];
extern struct rmem_lease *lease; /* id 5 */
extern struct rmem_completion done[64];

/* Fixtures: over a fabric that takes unregistered memory, and over one that does not.  The
 * matching teardown is stage_close(). */
void case_tcp(void);
void case_verbs(void);

/* Cases with these fixtures, then `setup`, which may be NULL. */
TCase *tcp_case(SFun setup);
TCase *verbs_case(SFun setup);
/* As tcp_case(), with a server of three endpoints, and of six. */
TCase *three_case(SFun setup);
TCase *six_case(SFun setup);

/* Another lease of the first n segments. */
struct rmem_lease *case_lease(uint64_t id, unsigned rights, unsigned n);
/* A lease of one segment, with all rights. */
struct rmem_lease *case_lease_over(uint64_t id, unsigned char *addr, uint64_t bytes,
				   uint64_t key);

/* A buffer over this memory; addr NULL: the library maps it. */
struct rmem_buffer *case_buffer(void *addr, uint64_t bytes);

struct rmem_op op_of(enum rmem_opcode opcode, uint64_t offset, void *addr,
		     uint64_t bytes, uint64_t cookie);
void submit(struct rmem_queue *queue, struct rmem_op op);

/* The next completion is this one; it is stored in done[0]. */
void expect(struct rmem_queue *queue, uint64_t cookie, int status);
/* Also, its error contains `text`. */
void expect_error(struct rmem_queue *queue, uint64_t cookie, int status,
		  const char *text);
/* There is no completion. */
void expect_none(struct rmem_queue *queue);
/* The time passes, and there is no completion. */
void idle_ms(struct rmem_queue *queue, uint64_t ms);
/* The oldest fragment on the channel ends with this status, and there is no completion. */
void complete_quietly(struct rmem_queue *queue, unsigned channel, int status);
/* There is no completion before the server has closed its end of the channel's last connection,
 * which it does now. */
void peer_closes(struct rmem_queue *queue, unsigned channel);
/* Everything posted completes; then the next completion is this one, without error. */
void complete_and_expect(struct rmem_queue *queue, uint64_t cookie);
/* Everything posted completes; then there are n completions, stored in `done`. */
void complete_and_poll(struct rmem_queue *queue, unsigned n);
/* Complete whatever is posted until there is a completion, stored in done[0]. */
void complete_until_done(struct rmem_queue *queue);
/* Connect the queue's one dead channel; the queue adopts the connection. */
void reconnect(struct rmem_queue *queue);

#endif
