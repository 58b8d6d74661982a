/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/inband.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/qp.h"

/* Structures that were not freed, as the device may still write to their memory. */
static struct list leaked = LIST_INIT(leaked);
static pthread_mutex_t leaked_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- worker ---- */

static int receive_post(struct verbs_inband_server *inband, unsigned which)
{
	return verbs_qp_post_recv(inband->qp, verbs_inband_wr_id(inband->number, which),
				  &inband->requests[which],
				  sizeof(inband->requests[which]), inband->mr->lkey);
}

int verbs_inband_server_open(struct ibv_qp *qp, uint64_t number, struct fair_lock *lock,
			     const struct inband_memory *memory,
			     struct verbs_inband_server **ret_inband)
{
	struct verbs_inband_server *inband =
		aligned_alloc(_Alignof(struct verbs_inband_server), sizeof(*inband));
	int err = 0;

	if (!inband)
		return err_errno(-ENOMEM, "a channel's receives");
	*inband = (struct verbs_inband_server){
		.qp = qp,
		.number = number,
		.lock = lock,
		.memory = *memory,
	};
	list_init(&inband->leaked);
	inband->mr = ibv_reg_mr(qp->pd, inband->requests,
				sizeof(*inband) -
					offsetof(struct verbs_inband_server, requests),
				IBV_ACCESS_LOCAL_WRITE);
	if (!inband->mr) {
		err = err_errno(verbs_errno(), "ibv_reg_mr of a channel's receives");
		free(inband);
		return err;
	}
	for (unsigned i = 0; i < INBAND_CREDITS && !err; i++)
		err = receive_post(inband, i);
	if (err) {
		/* before it is connected a queue pair receives nothing */
		verbs_inband_server_free(inband);
		return err_errno(err, "ibv_post_recv");
	}
	*ret_inband = inband;
	return 0;
}

void verbs_inband_server_free(struct verbs_inband_server *inband)
{
	if (!inband)
		return;
	if (!ibv_dereg_mr(inband->mr)) {
		free(inband);
		return;
	}
	(void)pthread_mutex_lock(&leaked_lock);
	list_append(&leaked, &inband->leaked);
	(void)pthread_mutex_unlock(&leaked_lock);
}

/* ---- poller ---- */

/* The client breaks a rule, or cannot be answered: move the queue pair to ERROR.  The loop ends the
 * channel when its receives are flushed. */
static void client_fail(struct verbs_inband_server *inband, const char *why)
{
	if (!inband->violation)
		inband->violation = why;
	inband->n_waiting = 0;
	/* SIGPIPE is blocked in the poller */
	(void)verbs_qp_fail(inband->qp, false);
}

static void answer_send(struct verbs_inband_server *inband,
			const struct inband_answer *answer)
{
	unsigned which = inband->next_send;
	struct ibv_sge local = {
		.addr = (uintptr_t)&inband->answers[which],
		.length = sizeof(*answer),
		.lkey = inband->mr->lkey,
	};
	struct ibv_send_wr send = {
		.wr_id = verbs_inband_wr_id(inband->number, VERBS_INBAND_SEND),
		.sg_list = &local,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	inband->answers[which].inband = *answer;
	inband->next_send = (which + 1) % INBAND_CREDITS;
	inband->n_sends++;
	if (ibv_post_send(inband->qp, &send, &bad))
		client_fail(inband, "an in-band request could not be answered");
}

/* Execute a request.  Its receive is posted again before the answer, which returns the credit. */
static void request_serve(struct verbs_inband_server *inband, unsigned receive,
			  uint32_t bytes)
{
	const struct inband_request request = inband->requests[receive];
	struct inband_answer answer = { .cookie = request.cookie };
	const char *wrong = bytes == sizeof(request)
				    ? inband_request_check(&request)
				    : "an in-band request of another length";
	uint64_t result;

	if (!wrong && receive_post(inband, receive))
		wrong = "a receive could not be posted";
	if (wrong) {
		client_fail(inband, wrong);
		return;
	}
	answer.status = htole32(inband_serve(&request, &inband->memory, &result));
	answer.result = htole64(result);
	/* the client sees what the request has stored when it gets the answer: posting orders
	 * all earlier stores before the device's reads, as the answer itself needs */
	answer_send(inband, &answer);
}

void verbs_inband_server_serve(struct verbs_inband_server *inband,
			       const struct ibv_wc *wc)
{
	unsigned which = verbs_inband_wr_slot(wc->wr_id), at;

	if (inband->violation)
		return;
	if (which == VERBS_INBAND_SEND) {
		inband->n_sends--;
	} else if (wc->opcode != IBV_WC_RECV) {
		/* such a write carries no request: the receive's memory still has an earlier one */
		client_fail(inband, "a write with an immediate, which takes a receive");
	} else {
		/* there are never more requests than receives */
		at = (inband->first + inband->n_waiting++) % INBAND_CREDITS;
		inband->waiting[at].receive = which;
		inband->waiting[at].bytes = wc->byte_len;
	}
	while (inband->n_waiting > 0 && inband->n_sends < INBAND_CREDITS) {
		at = inband->first;
		inband->first = (at + 1) % INBAND_CREDITS;
		inband->n_waiting--;
		request_serve(inband, inband->waiting[at].receive,
			      inband->waiting[at].bytes);
	}
}
