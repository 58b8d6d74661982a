/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/librmem-single.h"

struct rmem_lease *single;
struct rmem_buffer *buffer;

void single_make(void)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;

	single = stage_lease(6, RMEM_READ | RMEM_WRITE, 1, segments, seg_bytes, keys);
	params.addr = local;
	params.bytes = sizeof(local);
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), 0);
}

void single_end(void)
{
	ck_assert_uint_eq(lease_inflight(single), 0);
	ck_assert_uint_eq(lease_inflight(lease), 0);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
	stage_close();
}

struct rmem_op op_single(enum rmem_opcode opcode, uint64_t at, uint64_t bytes,
			 uint64_t cookie)
{
	struct rmem_op op = op_of(opcode, at, local + at, bytes, cookie);

	op.lease = single;
	op.buffer = buffer;
	return op;
}
