/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of requests that the server tells: none moves more bytes, and no more of them wait for
 * an answer.  Those of TCP do not hold over RDMA, and the other way round. */
#include <string.h>

#include "unit/librmem/librmem-case.h"

#define LIMIT 1000u
#define SIZE (3 * LIMIT)

static const struct fabric_client_ops *const fabrics[] = { &fabric_tcp_client,
							   &fabric_verbs_client };
static struct rmem_lease *far_lease;
static unsigned char far[SIZE], near[SIZE];

/* A queue of one channel, whose session has been told these limits. */
static struct rmem_queue *queue_told(bool tcp, const struct wire_welcome *told)
{
	struct wire_welcome *welcome = &stage.session.welcome;

	stage_open(fabrics[!tcp], 1);
	welcome->stream_bytes_max = told->stream_bytes_max;
	welcome->inband_bytes_max = told->inband_bytes_max;
	welcome->inband_requests_max = told->inband_requests_max;
	far_lease = case_lease_over(6, far, sizeof(far), 31);
	for (size_t i = 0; i < sizeof(near); i++)
		near[i] = (unsigned char)(i * 7 + i / 251);
	memset(far, 0, sizeof(far));
	return stage_queue(64, 1);
}

static void submit_of(struct rmem_queue *queue, unsigned opcode, uint64_t bytes)
{
	struct rmem_op op = op_of(opcode, 0, near, bytes, bytes);

	op.lease = far_lease;
	if (opcode == RMEM_OP_FILL)
		op.addr = NULL;
	submit(queue, op);
}

/* The number of requests of at most `max` bytes on the channel. */
static unsigned requests_up_to(const struct rmem_queue *queue, uint64_t max)
{
	const struct fabric_channel *channel = stage_channel(queue, 0);

	for (unsigned i = 0; i < channel->n; i++)
		ck_assert_uint_le(channel->posted[i].bytes, max);
	return channel->n;
}

static void finish(struct rmem_queue *queue)
{
	while (rmem_queue_outstanding(queue) > 0) {
		fake_complete_all();
		ck_assert_int_ge(rmem_poll(queue, done, 64), 0);
		ck_assert_int_eq(done[0].status, 0);
	}
	rmem_queue_free(queue);
	stage_close();
}

START_TEST(bytes__of_a_request_over_tcp_are_limited)
{
	const struct wire_welcome told = { .stream_bytes_max = LIMIT,
					   .inband_bytes_max = 1,
					   .inband_requests_max = 1 };
	struct rmem_queue *queue = queue_told(_i, &told);

	submit_of(queue, RMEM_OP_WRITE, LIMIT);
	submit_of(queue, RMEM_OP_WRITE, LIMIT + 1);
	submit_of(queue, RMEM_OP_WRITE, SIZE);
	ck_assert_uint_eq(requests_up_to(queue, _i ? LIMIT : SIZE), _i ? 6 : 3);
	finish(queue);
	ck_assert_mem_eq(far, near, sizeof(far));
}
END_TEST

START_TEST(bytes__of_an_in_band_request_are_limited)
{
	const struct wire_welcome told = { .stream_bytes_max = 1,
					   .inband_bytes_max = LIMIT,
					   .inband_requests_max = 8 };
	struct rmem_queue *queue = queue_told(_i, &told);

	submit_of(queue, RMEM_OP_FILL, SIZE);
	ck_assert_uint_eq(requests_up_to(queue, LIMIT), 3);
	finish(queue);
}
END_TEST

/* The library's own limits hold if the server accepts more. */
START_TEST(limits__of_the_library_are_not_exceeded)
{
	const struct wire_welcome told = { .stream_bytes_max = UINT32_MAX,
					   .inband_bytes_max = UINT32_MAX,
					   .inband_requests_max = UINT32_MAX };
	struct rmem_queue *queue = queue_told(_i, &told);

	ck_assert_uint_eq(queue->bytes_max, fabrics[!_i]->max_bytes);
	ck_assert_uint_eq(queue->inband_bytes_max, FABRIC_INBAND_BYTES_MAX);
	ck_assert_uint_eq(queue->inband_requests_max, fabrics[!_i]->inband_max);
	finish(queue);
}
END_TEST

START_TEST(requests__in_band_over_rdma_are_limited)
{
	const struct wire_welcome told = { .stream_bytes_max = 1,
					   .inband_bytes_max = LIMIT,
					   .inband_requests_max = 2 };
	struct rmem_queue *queue = queue_told(_i, &told);

	submit_of(queue, RMEM_OP_FILL, SIZE);
	ck_assert_uint_eq(requests_up_to(queue, LIMIT), _i ? 3 : 2);
	finish(queue);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("limits", NULL, NULL);

	tcase_add_loop_test(tc, bytes__of_a_request_over_tcp_are_limited, 0, 2);
	tcase_add_loop_test(tc, bytes__of_an_in_band_request_are_limited, 0, 2);
	tcase_add_loop_test(tc, limits__of_the_library_are_not_exceeded, 0, 2);
	tcase_add_loop_test(tc, requests__in_band_over_rdma_are_limited, 0, 2);
	return unit_main();
}
