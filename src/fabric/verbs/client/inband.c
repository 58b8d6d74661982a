/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/inband.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/verbs/client/connection.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/qp.h"

static struct verbs_inband_op *op_at(struct verbs_inband *inband, unsigned i)
{
	return &inband->requested[(inband->first + i) % INBAND_CREDITS];
}

static int receive_post(struct verbs_inband *inband, unsigned which)
{
	return verbs_qp_post_recv(inband->channel->qp,
				  (uintptr_t)&inband->ids[which] | VERBS_WR_ID_OTHER,
				  &inband->answers[which],
				  sizeof(inband->answers[which]), inband->mr->lkey);
}

int verbs_inband_open(struct fabric_channel *channel)
{
	struct verbs_inband *inband = calloc(1, sizeof(*inband));
	int err;

	if (!inband)
		return err_errno(-ENOMEM, "a channel's in-band requests");
	inband->channel = channel;
	inband->credits =
		channel->depth < INBAND_CREDITS ? channel->depth : INBAND_CREDITS;
	inband->mr =
		ibv_reg_mr(channel->cq->domain->pd, inband->requests,
			   sizeof(*inband) - offsetof(struct verbs_inband, requests),
			   IBV_ACCESS_LOCAL_WRITE);
	if (!inband->mr) {
		err = err_errno(verbs_errno(),
				"ibv_reg_mr of a channel's in-band requests");
		free(inband);
		return err;
	}
	/* if one fails no answers will come, but the memory has to stay for the receives that are
	 * posted */
	for (unsigned i = 0; i < inband->credits && !inband->lost; i++) {
		inband->ids[i].inband = inband;
		if (receive_post(inband, i))
			inband->lost = -ECONNRESET;
	}
	channel->inband = inband;
	return 0;
}

void verbs_inband_stop(struct verbs_inband *inband)
{
	if (inband && !inband->lost)
		inband->lost = -ECONNRESET;
}

void verbs_inband_free(struct verbs_inband *inband)
{
	if (!inband)
		return;
	(void)ibv_dereg_mr(inband->mr);
	free(inband);
}

void verbs_inband_add(struct verbs_inband *inband, const struct fabric_batch *batch,
		      const struct fabric_op *op,
		      const struct fabric_inband_request *request)
{
	struct verbs_sq *sq = &inband->channel->sq;
	unsigned which = (inband->first + sq->n_inband) % INBAND_CREDITS;
	struct inband_request *made = &inband->requests[which];

	*made = inband_request_make(batch->opcode, (uint32_t)op->bytes, request);
	made->rkey = htole64(batch->rkey);
	made->addr = htole64(batch->remote_addr + op->offset);
	made->cookie = htole64(inband->cookie++);
	inband->requested[which] = (struct verbs_inband_op){
		.slot = verbs_sq_add_send(sq, made, sizeof(*made), inband->mr->lkey,
					  inband->channel->confirm),
		.crc = batch->opcode == FABRIC_CRC ? op->addr : NULL,
	};
	sq->n_inband++;
	sq->n_slow++;
}

void verbs_inband_trim(struct fabric_channel *channel)
{
	struct verbs_inband *inband = channel->inband;
	struct verbs_sq *sq = &channel->sq;

	while (sq->n_inband > 0 &&
	       verbs_sq_distance(sq, sq->first,
				 op_at(inband, sq->n_inband - 1)->slot) >=
		       sq->n_posted) {
		sq->n_inband--;
		sq->n_slow--;
		inband->cookie--;
	}
}

/* 0, or -EPROTO: the answer is malformed. */
static int answer_process(struct verbs_inband *inband,
			  const struct inband_answer *answer, uint32_t bytes)
{
	unsigned n = inband->channel->sq.n_inband;
	uint64_t expected = inband->cookie - (n - inband->n_answered);
	struct verbs_inband_op *op = op_at(inband, inband->n_answered);
	uint32_t status = le32toh(answer->status);

	if (inband->n_answered == n || bytes != sizeof(*answer) ||
	    le64toh(answer->cookie) != expected)
		return -EPROTO;
	op->status = status == FABRIC_DONE ? 0 : -EACCES;
	if (op->crc && !op->status)
		*op->crc = (uint32_t)le64toh(answer->result);
	inband->n_answered++;
	return 0;
}

void verbs_inband_receive(struct verbs_inband *inband, const struct ibv_wc *wc,
			  bool dead)
{
	unsigned which = (unsigned)(verbs_inband_id_of(wc) - inband->ids);

	if (inband->lost)
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		inband->lost = -ECONNRESET;
		return;
	}
	inband->lost = answer_process(inband, &inband->answers[which], wc->byte_len);
	/* it may belong to a request that was reported as flushed */
	if (inband->lost && dead)
		inband->lost = -ECONNRESET;
	if (!inband->lost && receive_post(inband, which))
		inband->lost = -ECONNRESET;
}

unsigned verbs_inband_before_first(const struct verbs_inband *inband)
{
	const struct verbs_sq *sq = &inband->channel->sq;

	if (sq->n_inband == 0)
		return UINT_MAX;
	return verbs_sq_distance(sq, sq->first, inband->requested[inband->first].slot);
}

int verbs_inband_first_status(const struct verbs_inband *inband)
{
	if (inband->n_answered > 0)
		return inband->requested[inband->first].status;
	return inband->lost ? inband->lost : 1;
}

void verbs_inband_pop(struct verbs_inband *inband)
{
	inband->first = (inband->first + 1) % INBAND_CREDITS;
	inband->channel->sq.n_inband--;
	inband->channel->sq.n_slow--;
	if (inband->n_answered > 0)
		inband->n_answered--;
}
