/* SPDX-License-Identifier: BSD-3-Clause */
/* What a server sends to a client that connects a channel over RDMA: the answer of rdma_cm with its
 * private data, or the attributes of its queue pair.  The queue pair is connected within the
 * client's own limits, or the call fails with a text. */
#include <check.h>
#include <string.h>

#include "base/err.h"
#include "fuzz/cm-data.h"
#include "fuzz/target.h"
#include "unit/fabric/verbs/verbs-client-stage.h"

#define RETRIES_MAX 6
#define QPN_MAX 0xffffffu

const unsigned fuzz_rounds = 20000;

/* The bits of the first byte. */
#define FLAG_IWARP 1u
#define FLAG_DIRECT 2u
#define FLAG_INFINIBAND 4u

static struct fabric_qp_info theirs;

static int exchange(void *, const struct fabric_qp_info *ours, unsigned,
		    struct fabric_qp_info *ret_theirs)
{
	ck_assert_uint_le(ours->psn, QPN_MAX);
	*ret_theirs = theirs;
	return 0;
}

static void attributes_read(struct fuzz_input *input)
{
	const uint8_t *gid;
	size_t n;

	theirs = (struct fabric_qp_info){ .qpn = 0 };
	theirs.qpn = (uint32_t)fuzz_number(input, 4);
	theirs.psn = (uint32_t)fuzz_number(input, 4);
	theirs.lid = (uint16_t)fuzz_number(input, 2);
	theirs.pkey = (uint16_t)fuzz_number(input, 2);
	theirs.mtu = (uint16_t)fuzz_number(input, 2);
	theirs.rd_atomic = (uint8_t)fuzz_number(input, 1);
	theirs.retry_count = (uint8_t)fuzz_number(input, 1);
	theirs.rnr_retry_count = (uint8_t)fuzz_number(input, 1);
	gid = fuzz_bytes(input, sizeof(theirs.gid), &n);
	memcpy(theirs.gid, gid, n);
}

static void answer_read(struct fuzz_input *input)
{
	static const enum rdma_cm_event_type answers[] = {
		RDMA_CM_EVENT_ESTABLISHED,      RDMA_CM_EVENT_REJECTED,
		RDMA_CM_EVENT_UNREACHABLE,      RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_DEVICE_REMOVAL,   RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_CONNECT_RESPONSE,
	};
	size_t n;
	const uint8_t *data;

	verbs_fake.answer =
		answers[fuzz_number(input, 1) % (sizeof(answers) / sizeof(answers[0]))];
	verbs_fake.answer_status = (int8_t)fuzz_number(input, 1);
	verbs_fake.ece_vendor = (uint32_t)fuzz_number(input, 1);
	data = fuzz_bytes(input, 255, &n);
	cm_data_set(data, n);
}

static void channel_check(unsigned flags)
{
	struct ibv_qp_attr attr = fake_qp_attr();

	/* librdmacm connects the queue pairs of iWARP */
	if (flags & FLAG_IWARP)
		return;
	ck_assert_uint_le(attr.retry_cnt, RETRIES_MAX);
	ck_assert_uint_le(attr.rnr_retry, RETRIES_MAX);
	ck_assert_uint_eq(attr.qp_access_flags, 0);
	if (flags & FLAG_DIRECT)
		ck_assert_uint_le(attr.max_rd_atomic, theirs.rd_atomic);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	unsigned flags = (unsigned)fuzz_number(&input, 1);
	struct fabric_channel_params wanted = {
		.hello = { .session = 7, .channel = 3, .token = { 1, 2, 3 } },
		.depth = DEPTH,
		.timeout_ms = WAIT_MS,
	};
	int err;

	fuzz_random_reset();
	if (flags & FLAG_IWARP)
		flags &= FLAG_IWARP;
	verbs_fake.iwarp = flags & FLAG_IWARP;
	verbs_fake.infiniband = flags & FLAG_INFINIBAND;
	endpoint.flags = flags & FLAG_DIRECT ? FABRIC_ENDPOINT_DIRECT : 0;
	if (flags & FLAG_DIRECT) {
		wanted.exchange = exchange;
		attributes_read(&input);
		ck_assert_int_eq(fabric_address_parse("10.1.0.1", &params.source), 0);
	} else {
		params.source.family = 0;
		answer_read(&input);
	}
	err = open_domain();
	if (!err)
		err = CLIENT->cq_create(domain, 2 * DEPTH, &cq);
	if (!err)
		err = wr_connect(CLIENT, cq, &wanted, &channel);
	if (err)
		ck_assert_str_ne(err_text(), "");
	else
		channel_check(flags);
	teardown();
	fake_forget_destroyed();
	cm_data_set(NULL, 0);
	return 0;
}

/* ---- valid inputs ---- */

/* Flags, answer, status, vendor, private data. */
static const struct {
	uint8_t head[4];
	uint8_t bytes;
	uint8_t data[16];
} answers[] = {
	{ { 0, 0, 0, 0 }, 8, { 'r', 'm', 'm', 't', 0, 4, 4, 3 } },
	{ { 0, 0, 0, 5 }, 0, { 0 } },
	{ { FLAG_IWARP, 0, 0, 0 }, 0, { 0 } },
	{ { 0, 1, 28, 0 }, 4, { 'r', 'm', 'n', 'o' } },
	{ { 0, 1, 8, 0 }, 0, { 0 } },
	{ { 0, 2, 0x92, 0 }, 0, { 0 } },
};
#define N_ANSWERS (sizeof(answers) / sizeof(answers[0]))

static void put_attributes(struct fuzz_output *output, unsigned flags)
{
	static const uint8_t gid[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, 1, 0, 9 };

	fuzz_put(output, flags, 1);
	fuzz_put(output, 0xabcdef, 4);
	fuzz_put(output, 0x123456, 4);
	fuzz_put(output, flags & FLAG_INFINIBAND ? 9 : 0, 2);
	fuzz_put(output, 0xffff, 2);
	fuzz_put(output, 1024, 2);
	fuzz_put(output, 5, 1);
	fuzz_put(output, 4, 1);
	fuzz_put(output, 3, 1);
	fuzz_put_bytes(output, gid, sizeof(gid));
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	struct fuzz_output output = { input, 0, max };

	if (which < N_ANSWERS) {
		fuzz_put_bytes(&output, answers[which].head, 4);
		fuzz_put_bytes(&output, answers[which].data, answers[which].bytes);
	} else if (which < N_ANSWERS + 2) {
		put_attributes(&output,
			       FLAG_DIRECT | (which > N_ANSWERS ? FLAG_INFINIBAND : 0));
	}
	return output.used;
}
