/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/inband.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/verbs/common/status.h"

/* Those whose memory a device may still write to. */
static struct list strays = LIST_INIT(strays);

/* ---- loop ---- */

static int receive_post(struct verbs_desk *desk, unsigned which)
{
	struct ibv_sge place = {
		.addr = (uintptr_t)&desk->requests[which],
		.length = sizeof(desk->requests[which]),
		.lkey = desk->mr->lkey,
	};
	struct ibv_recv_wr receive = {
		.wr_id = verbs_desk_id(desk->number, which),
		.sg_list = &place,
		.num_sge = 1,
	};
	struct ibv_recv_wr *bad;

	return -abs(ibv_post_recv(desk->qp, &receive, &bad));
}

int verbs_desk_open(struct ibv_qp *qp, uint64_t number, struct verbs_gate *gate,
		    const struct inband_memory *memory, struct verbs_desk **ret_desk)
{
	struct verbs_desk *desk =
		aligned_alloc(_Alignof(struct verbs_desk), sizeof(*desk));
	int err = 0;

	if (!desk)
		return err_errno(-ENOMEM, "a channel's receives");
	*desk = (struct verbs_desk){
		.qp = qp,
		.number = number,
		.gate = gate,
		.memory = *memory,
	};
	list_init(&desk->strays);
	desk->mr = ibv_reg_mr(qp->pd, desk->requests,
			      sizeof(*desk) - offsetof(struct verbs_desk, requests),
			      IBV_ACCESS_LOCAL_WRITE);
	if (!desk->mr) {
		err = err_errno(verbs_failure(), "ibv_reg_mr of a channel's receives");
		free(desk);
		return err;
	}
	for (unsigned i = 0; i < VERBS_CREDITS && !err; i++)
		err = receive_post(desk, i);
	if (err) {
		/* before it is connected a queue pair receives nothing */
		verbs_desk_free(desk);
		return err_errno(err, "ibv_post_recv");
	}
	*ret_desk = desk;
	return 0;
}

void verbs_desk_free(struct verbs_desk *desk)
{
	if (!desk)
		return;
	if (ibv_dereg_mr(desk->mr))
		list_append(&strays, &desk->strays);
	else
		free(desk);
}

/* ---- poller ---- */

/* The client breaks the rules, or cannot be answered: all that is posted is flushed, which
 * tells the loop. */
static void desk_break(struct verbs_desk *desk, const char *why)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (!desk->wrong)
		desk->wrong = why;
	desk->n_waiting = 0;
	(void)ibv_modify_qp(desk->qp, &attr, IBV_QP_STATE);
}

static void answer_send(struct verbs_desk *desk, const struct inband_answer *answer)
{
	unsigned which = desk->next_send;
	struct ibv_sge place = {
		.addr = (uintptr_t)&desk->answers[which],
		.length = sizeof(*answer),
		.lkey = desk->mr->lkey,
	};
	struct ibv_send_wr send = {
		.wr_id = verbs_desk_id(desk->number, VERBS_DESK_SEND),
		.sg_list = &place,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	desk->answers[which].inband = *answer;
	desk->next_send = (which + 1) % VERBS_CREDITS;
	desk->n_sends++;
	if (ibv_post_send(desk->qp, &send, &bad))
		desk_break(desk, "an in-band request could not be answered");
}

/* Its receive is posted again before the answer, which gives the credit back. */
static void request_serve(struct verbs_desk *desk, unsigned receive, uint32_t bytes)
{
	const struct inband_request request = desk->requests[receive];
	struct inband_answer answer = { .cookie = request.cookie };
	const char *wrong = bytes == sizeof(request)
				    ? inband_request_check(&request)
				    : "an in-band request of another length";
	uint64_t result;

	if (!wrong && receive_post(desk, receive))
		wrong = "a receive could not be posted";
	if (wrong) {
		desk_break(desk, wrong);
		return;
	}
	answer.status = htole32(inband_serve(&request, &desk->memory, &result));
	answer.result = htole64(result);
	/* what it has stored is seen by whoever learns of the answer: posting puts all stores
	 * before it in order for the device, as the answer itself needs it */
	answer_send(desk, &answer);
}

static void waiting_serve(struct verbs_desk *desk)
{
	while (desk->n_waiting > 0 && desk->n_sends < VERBS_CREDITS) {
		unsigned at = desk->first;

		desk->first = (at + 1) % VERBS_CREDITS;
		desk->n_waiting--;
		request_serve(desk, desk->waiting[at].receive, desk->waiting[at].bytes);
	}
}

void verbs_desk_serve(struct verbs_desk *desk, const struct ibv_wc *wc)
{
	unsigned which = verbs_desk_which(wc->wr_id), at;

	if (desk->wrong)
		return;
	if (which == VERBS_DESK_SEND) {
		desk->n_sends--;
	} else if (wc->opcode != IBV_WC_RECV) {
		/* it has brought no bytes: what lies there is an earlier request */
		desk_break(desk, "a write with an immediate, which takes a receive");
	} else {
		/* there are no more than receives */
		at = (desk->first + desk->n_waiting++) % VERBS_CREDITS;
		desk->waiting[at].receive = which;
		desk->waiting[at].bytes = wc->byte_len;
	}
	waiting_serve(desk);
}
