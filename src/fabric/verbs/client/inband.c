/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/inband.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/verbs/common/status.h"

static struct verbs_ask *ask_at(struct verbs_asks *asks, unsigned i)
{
	return &asks->asked[(asks->first + i) % VERBS_CREDITS];
}

static int receive_post(struct verbs_asks *asks, unsigned which)
{
	struct ibv_sge place = {
		.addr = (uintptr_t)&asks->answers[which],
		.length = sizeof(asks->answers[which]),
		.lkey = asks->mr->lkey,
	};
	struct ibv_recv_wr receive = {
		.wr_id = (uintptr_t)&asks->ids[which] | VERBS_ASIDE,
		.sg_list = &place,
		.num_sge = 1,
	};
	struct ibv_recv_wr *bad;

	return -abs(ibv_post_recv(asks->qp, &receive, &bad));
}

/* Where that fails no answers will come, but the memory has to stay for those receives that
 * are posted. */
static void receives_post(struct verbs_asks *asks)
{
	for (unsigned i = 0; i < asks->credits && !asks->lost; i++) {
		asks->ids[i].asks = asks;
		if (receive_post(asks, i))
			asks->lost = -ECONNRESET;
	}
}

int verbs_asks_open(struct fabric_channel *channel, struct verbs_ring *ring,
		    struct ibv_pd *pd, struct ibv_qp *qp, unsigned depth, bool fence,
		    struct verbs_asks **ret_asks)
{
	struct verbs_asks *asks = calloc(1, sizeof(*asks));
	int err;

	if (!asks)
		return err_errno(-ENOMEM, "a channel's in-band requests");
	asks->channel = channel;
	asks->ring = ring;
	asks->qp = qp;
	asks->fence = fence;
	asks->credits = depth < VERBS_CREDITS ? depth : VERBS_CREDITS;
	asks->mr = ibv_reg_mr(pd, asks->requests,
			      sizeof(*asks) - offsetof(struct verbs_asks, requests),
			      IBV_ACCESS_LOCAL_WRITE);
	if (!asks->mr) {
		err = err_errno(verbs_failure(),
				"ibv_reg_mr of a channel's in-band requests");
		free(asks);
		return err;
	}
	receives_post(asks);
	*ret_asks = asks;
	return 0;
}

void verbs_asks_end(struct verbs_asks *asks)
{
	if (asks && !asks->lost)
		asks->lost = -ECONNRESET;
}

void verbs_asks_free(struct verbs_asks *asks)
{
	if (!asks)
		return;
	(void)ibv_dereg_mr(asks->mr);
	free(asks);
}

void verbs_asks_put(struct verbs_asks *asks, const struct fabric_batch *run,
		    const struct fabric_op *part,
		    const struct fabric_inband_request *request)
{
	unsigned which = (asks->first + asks->ring->n_asked) % VERBS_CREDITS;
	struct inband_request *made = &asks->requests[which];

	*made = inband_request_make(run->opcode, (uint32_t)part->bytes, request);
	made->rkey = htole64(run->rkey);
	made->addr = htole64(run->remote_addr + part->offset);
	made->cookie = htole64(asks->cookie++);
	asks->asked[which] = (struct verbs_ask){
		.place = verbs_ring_put_send(asks->ring, made, sizeof(*made),
					     asks->mr->lkey, asks->fence),
		.crc = run->opcode == FABRIC_CRC ? part->addr : NULL,
	};
	asks->ring->n_asked++;
	asks->ring->n_slow++;
}

void verbs_asks_trim(struct verbs_asks *asks)
{
	struct verbs_ring *ring = asks->ring;

	while (ring->n_asked > 0 &&
	       verbs_ring_distance(ring, ring->first,
				   ask_at(asks, ring->n_asked - 1)->place) >=
		       ring->n_posted) {
		ring->n_asked--;
		ring->n_slow--;
		asks->cookie--;
	}
}

/* 0, or why the answer makes no sense. */
static int answer_take(struct verbs_asks *asks, const struct inband_answer *answer,
		       uint32_t bytes)
{
	unsigned n = asks->ring->n_asked;
	uint64_t expected = asks->cookie - (n - asks->n_answered);
	struct verbs_ask *ask = ask_at(asks, asks->n_answered);
	uint32_t status = le32toh(answer->status);

	if (asks->n_answered == n || bytes != sizeof(*answer) ||
	    le64toh(answer->cookie) != expected ||
	    (status != INBAND_DONE && status != INBAND_REFUSED))
		return -EPROTO;
	ask->status = status == INBAND_DONE ? 0 : -EACCES;
	if (ask->crc && !ask->status)
		*ask->crc = (uint32_t)le64toh(answer->result);
	asks->n_answered++;
	return 0;
}

void verbs_asks_take(struct verbs_asks *asks, const struct ibv_wc *wc, bool dead)
{
	unsigned which = (unsigned)(verbs_ask_id_of(wc) - asks->ids);

	if (asks->lost)
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		asks->lost = -ECONNRESET;
		return;
	}
	asks->lost = answer_take(asks, &asks->answers[which], wc->byte_len);
	/* it may be to a request that was reported as flushed already */
	if (asks->lost && dead)
		asks->lost = -ECONNRESET;
	if (!asks->lost && receive_post(asks, which))
		asks->lost = -ECONNRESET;
}

unsigned verbs_asks_ahead(const struct verbs_asks *asks)
{
	const struct verbs_ring *ring = asks->ring;

	if (ring->n_asked == 0)
		return UINT_MAX;
	return verbs_ring_distance(ring, ring->first, asks->asked[asks->first].place);
}

int verbs_asks_first(const struct verbs_asks *asks)
{
	if (asks->n_answered > 0)
		return asks->asked[asks->first].status;
	return asks->lost ? asks->lost : 1;
}

void verbs_asks_pop(struct verbs_asks *asks)
{
	asks->first = (asks->first + 1) % VERBS_CREDITS;
	asks->ring->n_asked--;
	asks->ring->n_slow--;
	if (asks->n_answered > 0)
		asks->n_answered--;
}
