/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/librmem-single.h"

struct rmem_lease *single;
struct rmem_buffer *buffer;

static void single_create(void)
{
	single = case_lease(6, RMEM_READ | RMEM_WRITE, 1);
	buffer = case_buffer(local, sizeof(local));
}

void single_tcp(void)
{
	case_tcp();
	single_create();
}

void single_verbs(void)
{
	case_verbs();
	single_create();
}

void single_close(void)
{
	ck_assert_uint_eq(lease_inflight(single), 0);
	ck_assert_uint_eq(lease_inflight(lease), 0);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	stage_close();
}

struct rmem_op op_single(enum rmem_opcode opcode, uint64_t offset, uint64_t bytes,
			 uint64_t cookie)
{
	struct rmem_op op = op_of(opcode, offset, local + offset, bytes, cookie);

	op.lease = single;
	op.buffer = buffer;
	return op;
}

struct rmem_op write_single(uint64_t offset, uint64_t cookie)
{
	return op_single(RMEM_OP_WRITE, offset, 8, cookie);
}
