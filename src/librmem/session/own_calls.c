/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that are on no lease: those of the library itself, and the ping. */
#include "librmem/session/session.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/session/call.h"
#include "wire/codec.h"

/* A request of the library itself. */
struct own_call {
	struct call call;
	const struct wire_msg *request;
	session_take *take;
	void *ctx;
};

static int own_step(struct call *call)
{
	return call_send(call, container_of(call, struct own_call, call)->request);
}

static int own_answered(struct call *call, int err, const struct wire_msg *reply)
{
	const struct own_call *own = container_of(call, struct own_call, call);

	if (err || !own->take)
		return err;
	return own->take(own->ctx, reply);
}

static const struct call_kind own_kind = { .step = own_step, .answered = own_answered };

int session_call_until(struct rmem *session, const struct wire_msg *request,
		       session_take *take, void *ctx, uint64_t end_ns,
		       const atomic_bool *cancelled)
{
	const struct rmem_request none = { .call = 0 };
	struct own_call own = { .request = request, .take = take, .ctx = ctx };
	int err;

	call_init(&own.call, &own_kind, session, &none, 0);
	own.call.end_ns = end_ns;
	err = call_run(&own.call, cancelled);
	call_clear(&own.call);
	return err;
}

void session_call_bye(struct rmem *session, uint64_t end_ns)
{
	struct wire_msg request;

	if (atomic_load(&session->status) != 0)
		return;
	wire_msg_init(&request, WIRE_TYPE_bye);
	/* without the bye, the server ends the session by its clock */
	(void)session_call_until(session, &request, NULL, NULL, end_ns, NULL);
}

static bool is_away(const void *arg)
{
	const struct rmem *session = arg;

	return session->state != SESSION_UP && session->state != SESSION_LOST;
}

bool session_returned(struct rmem *session, unsigned resumes, uint64_t deadline_ns)
{
	struct wire_msg request;
	bool returned;

	if (clock_now_ns() >= deadline_ns)
		return false;
	/* a ping, as the loss may not have been noticed yet */
	wire_msg_init(&request, WIRE_TYPE_ping);
	(void)session_call_until(session, &request, NULL, NULL, deadline_ns,
				 &session->cancelled);
	(void)pthread_mutex_lock(&session->lock);
	(void)session_await(session, deadline_ns, is_away, session);
	returned =
		session->state == SESSION_UP && (unsigned)session->resumes != resumes;
	(void)pthread_mutex_unlock(&session->lock);
	return returned;
}

/* ---- ping ---- */

static int ping_step(struct call *call)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_ping);
	return call_send(call, &request);
}

static int ping_answered(struct call *call, int err, const struct wire_msg *reply)
{
	(void)reply;
	call->answer.value = clock_now_ns() - call->begin_ns;
	return err;
}

static int ping_describe(struct call *call, int err)
{
	return err_prefix(err, "rmem_ping of %s", call->session->server);
}

static const struct call_kind ping_kind = {
	.step = ping_step,
	.answered = ping_answered,
	.describe = ping_describe,
};

int session_ping_create(const struct rmem_request *request, struct call **ret_call)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return err_set(-ENOMEM, "rmem_ping: no memory for a call");
	call_init(call, &ping_kind, request->session, request, 0);
	*ret_call = call;
	return 0;
}

int rmem_ping(rmem *session, uint64_t *ret_ns)
{
	const struct rmem_request request = { .call = RMEM_CALL_PING,
					      .session = session };
	struct rmem_answer answer;
	int err;

	if (!session)
		return err_set(-EINVAL, "rmem_ping: the session is NULL");
	err = call_make(session_ping_create, &request, &answer);
	if (!err && ret_ns)
		*ret_ns = answer.value;
	return err;
}
