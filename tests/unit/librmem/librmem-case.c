/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/librmem-case.h"

#include <string.h>

unsigned char seg_a[SEG], seg_b[SEG], local[2 * SEG];
unsigned char *const segments[2] = { seg_a, seg_b };
const uint64_t seg_bytes[2] = { SEG, SEG };
const uint64_t keys[2] = { 11, 12 };
struct rmem_lease *lease;
struct rmem_completion done[64];

static void case_open(const struct fabric_client_ops *ops, unsigned endpoints)
{
	stage_open(ops, endpoints);
	memset(seg_a, 0, sizeof(seg_a));
	memset(seg_b, 0, sizeof(seg_b));
	for (unsigned i = 0; i < sizeof(local); i++)
		local[i] = (unsigned char)(i * 7 + i / 256);
	memset(done, 0, sizeof(done));
	lease = case_lease(5, RMEM_READ | RMEM_WRITE, 2);
}

void case_tcp(void)
{
	case_open(&fabric_tcp_client, STAGE_ENDPOINTS);
}

void case_verbs(void)
{
	case_open(&fabric_verbs_client, STAGE_ENDPOINTS);
}

static void case_three(void)
{
	case_open(&fabric_tcp_client, 3);
}

static void case_six(void)
{
	case_open(&fabric_tcp_client, 6);
}

static TCase *case_with(const char *name, SFun fixture, SFun setup)
{
	TCase *tcase = unit_case(name, fixture, stage_close);

	tcase_add_checked_fixture(tcase, setup, NULL);
	return tcase;
}

TCase *tcp_case(SFun setup)
{
	return case_with("tcp", case_tcp, setup);
}

TCase *verbs_case(SFun setup)
{
	return case_with("verbs", case_verbs, setup);
}

TCase *three_case(SFun setup)
{
	return case_with("three", case_three, setup);
}

TCase *six_case(SFun setup)
{
	return case_with("six", case_six, setup);
}

struct rmem_lease *case_lease(uint64_t id, unsigned rights, unsigned n)
{
	return stage_lease(id, rights, n, segments, seg_bytes, keys);
}

struct rmem_lease *case_lease_over(uint64_t id, unsigned char *addr, uint64_t bytes,
				   uint64_t key)
{
	return stage_lease(id, RMEM_READ | RMEM_WRITE, 1, &addr, &bytes, &key);
}

struct rmem_buffer *case_buffer(void *addr, uint64_t bytes)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct rmem_buffer *buffer = NULL;

	params.addr = addr;
	params.bytes = bytes;
	ck_assert_int_eq(rmem_buffer_create(&stage.session, &params, &buffer), 0);
	return buffer;
}

struct rmem_op op_of(enum rmem_opcode opcode, uint64_t offset, void *addr,
		     uint64_t bytes, uint64_t cookie)
{
	return (struct rmem_op){
		.opcode = (uint16_t)opcode,
		.lease = lease,
		.offset = offset,
		.addr = addr,
		.bytes = bytes,
		.cookie = cookie,
	};
}

void submit(struct rmem_queue *queue, struct rmem_op op)
{
	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
}

void expect(struct rmem_queue *queue, uint64_t cookie, int status)
{
	ck_assert_int_eq(rmem_poll(queue, done, 1), 1);
	ck_assert_uint_eq(done[0].cookie, cookie);
	ck_assert_msg(done[0].status == status, "status %d, not %d: %s", done[0].status,
		      status, rmem_completion_error(queue, &done[0]));
}

void expect_error(struct rmem_queue *queue, uint64_t cookie, int status,
		  const char *text)
{
	expect(queue, cookie, status);
	ck_assert_msg(strstr(rmem_completion_error(queue, &done[0]), text), "%s",
		      rmem_completion_error(queue, &done[0]));
}

void expect_none(struct rmem_queue *queue)
{
	ck_assert_int_eq(rmem_poll(queue, done, 1), 0);
}

void idle_ms(struct rmem_queue *queue, uint64_t ms)
{
	stage_advance_ms(ms);
	expect_none(queue);
}

void complete_quietly(struct rmem_queue *queue, unsigned channel, int status)
{
	fake_complete(stage_channel(queue, channel), status);
	expect_none(queue);
}

void peer_closes(struct rmem_queue *queue, unsigned channel)
{
	expect_none(queue);
	stage_peer_end(queue, channel, PEER_END_CLOSED);
}

void complete_and_expect(struct rmem_queue *queue, uint64_t cookie)
{
	fake_complete_all();
	expect(queue, cookie, 0);
}

void complete_and_poll(struct rmem_queue *queue, unsigned n)
{
	fake_complete_all();
	ck_assert_int_eq(rmem_poll(queue, done, 64), (int)n);
}

void complete_until_done(struct rmem_queue *queue)
{
	unsigned rounds = 0;

	while (rmem_poll(queue, done, 1) == 0) {
		ck_assert_uint_lt(rounds++, 100);
		fake_complete_all();
	}
}

void reconnect(struct rmem_queue *queue)
{
	ck_assert_uint_eq(stage_reconnect(queue), 1);
	expect_none(queue);
}
