/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/inband.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/verbs/common/status.h"

static struct verbs_inband_op *op_at(struct verbs_inband *inband, unsigned i)
{
	return &inband->asked[(inband->first + i) % VERBS_CREDITS];
}

static int receive_post(struct verbs_inband *inband, unsigned which)
{
	struct ibv_sge place = {
		.addr = (uintptr_t)&inband->answers[which],
		.length = sizeof(inband->answers[which]),
		.lkey = inband->mr->lkey,
	};
	struct ibv_recv_wr receive = {
		.wr_id = (uintptr_t)&inband->ids[which] | VERBS_WR_ID_OTHER,
		.sg_list = &place,
		.num_sge = 1,
	};
	struct ibv_recv_wr *bad;

	return -abs(ibv_post_recv(inband->qp, &receive, &bad));
}

/* Where that fails no answers will come, but the memory has to stay for those receives that
 * are posted. */
static void receives_post(struct verbs_inband *inband)
{
	for (unsigned i = 0; i < inband->credits && !inband->lost; i++) {
		inband->ids[i].inband = inband;
		if (receive_post(inband, i))
			inband->lost = -ECONNRESET;
	}
}

int verbs_inband_open(struct fabric_channel *channel, struct verbs_sq *sq,
		      struct ibv_pd *pd, struct ibv_qp *qp, unsigned depth, bool fence,
		      struct verbs_inband **ret_asks)
{
	struct verbs_inband *inband = calloc(1, sizeof(*inband));
	int err;

	if (!inband)
		return err_errno(-ENOMEM, "a channel's in-band requests");
	inband->channel = channel;
	inband->sq = sq;
	inband->qp = qp;
	inband->fence = fence;
	inband->credits = depth < VERBS_CREDITS ? depth : VERBS_CREDITS;
	inband->mr =
		ibv_reg_mr(pd, inband->requests,
			   sizeof(*inband) - offsetof(struct verbs_inband, requests),
			   IBV_ACCESS_LOCAL_WRITE);
	if (!inband->mr) {
		err = err_errno(verbs_errno(),
				"ibv_reg_mr of a channel's in-band requests");
		free(inband);
		return err;
	}
	receives_post(inband);
	*ret_asks = inband;
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
	unsigned which = (inband->first + inband->sq->n_inband) % VERBS_CREDITS;
	struct inband_request *made = &inband->requests[which];

	*made = inband_request_make(batch->opcode, (uint32_t)op->bytes, request);
	made->rkey = htole64(batch->rkey);
	made->addr = htole64(batch->remote_addr + op->offset);
	made->cookie = htole64(inband->cookie++);
	inband->asked[which] = (struct verbs_inband_op){
		.place = verbs_sq_add_send(inband->sq, made, sizeof(*made),
					   inband->mr->lkey, inband->fence),
		.crc = batch->opcode == FABRIC_CRC ? op->addr : NULL,
	};
	inband->sq->n_inband++;
	inband->sq->n_slow++;
}

void verbs_inband_trim(struct verbs_inband *inband)
{
	struct verbs_sq *sq = inband->sq;

	while (sq->n_inband > 0 &&
	       verbs_sq_distance(sq, sq->first,
				 op_at(inband, sq->n_inband - 1)->place) >=
		       sq->n_posted) {
		sq->n_inband--;
		sq->n_slow--;
		inband->cookie--;
	}
}

/* 0, or why the answer makes no sense. */
static int answer_take(struct verbs_inband *inband, const struct inband_answer *answer,
		       uint32_t bytes)
{
	unsigned n = inband->sq->n_inband;
	uint64_t expected = inband->cookie - (n - inband->n_answered);
	struct verbs_inband_op *op = op_at(inband, inband->n_answered);
	uint32_t status = le32toh(answer->status);

	if (inband->n_answered == n || bytes != sizeof(*answer) ||
	    le64toh(answer->cookie) != expected ||
	    (status != INBAND_DONE && status != INBAND_REFUSED))
		return -EPROTO;
	op->status = status == INBAND_DONE ? 0 : -EACCES;
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
	inband->lost = answer_take(inband, &inband->answers[which], wc->byte_len);
	/* it may be to a request that was reported as flushed already */
	if (inband->lost && dead)
		inband->lost = -ECONNRESET;
	if (!inband->lost && receive_post(inband, which))
		inband->lost = -ECONNRESET;
}

unsigned verbs_inband_before_first(const struct verbs_inband *inband)
{
	const struct verbs_sq *sq = inband->sq;

	if (sq->n_inband == 0)
		return UINT_MAX;
	return verbs_sq_distance(sq, sq->first, inband->asked[inband->first].place);
}

int verbs_inband_first_status(const struct verbs_inband *inband)
{
	if (inband->n_answered > 0)
		return inband->asked[inband->first].status;
	return inband->lost ? inband->lost : 1;
}

void verbs_inband_pop(struct verbs_inband *inband)
{
	inband->first = (inband->first + 1) % VERBS_CREDITS;
	inband->sq->n_inband--;
	inband->sq->n_slow--;
	if (inband->n_answered > 0)
		inband->n_answered--;
}
