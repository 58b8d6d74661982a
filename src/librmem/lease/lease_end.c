/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that end a lease, for this session or for all. */
#include <rmem/rmem.h>

#include <errno.h>

#include "base/err.h"
#include "librmem/lease/inflight.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

int lease_check_idle(const struct rmem_lease *lease)
{
	unsigned n = lease_inflight(lease);

	if (n > 0)
		return err_set(-EBUSY, "%u operations on the lease are outstanding", n);
	return 0;
}

/* ---- one reference less ---- */

/* Until the request is answered the session gives no other reference.  lease_call.flag: it has
 * begun. */
static int leave_begin(struct call *call)
{
	struct rmem_lease *lease = call->lease;
	int err = lease_check_idle(lease);

	if (err)
		return err;
	lease_move(lease, LEASE_STEP_LEAVE);
	lease_call_of(call)->flag = true;
	return 0;
}

static int leave_send(struct call *call, const struct wire_msg *request)
{
	struct rmem_lease *lease = call->lease;

	if (!lease_call_of(call)->flag) {
		int err = leave_begin(call);

		if (err)
			return err;
	}
	if (atomic_load(&lease->status) != 0)
		return err_set(-ESTALE, "it has ended meanwhile");
	/* a second request could end what another thread has attached since the first */
	if (lease->ending)
		return call_await(call, err_set(-ETIMEDOUT,
						"no answer to an earlier request to "
						"end it"));
	return call_send(call, request);
}

static int detach_step(struct call *call)
{
	struct rmem_lease *lease = call->lease;
	struct wire_msg request;

	if (!lease_call_of(call)->flag && lease->references > 1) {
		lease->references--;
		return 0;
	}
	wire_msg_init(&request, WIRE_TYPE_detach);
	request.detach.lease = lease->id;
	return leave_send(call, &request);
}

static int destroy_step(struct call *call)
{
	struct rmem_lease *lease = call->lease;
	struct wire_msg request;
	/* a lease that has ended needs no protection */
	int err = atomic_load(&lease->status) == 0 ? lease_check_writable(lease) : 0;

	if (err)
		return err;
	wire_msg_init(&request, WIRE_TYPE_free);
	request.free.lease = lease->id;
	return leave_send(call, &request);
}

static int leave_answered(struct call *call, int err, const struct wire_msg *reply)
{
	(void)call;
	(void)reply;
	return err;
}

/* The program has its handle still, of a lease that has ended. */
static int ended_late(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	(void)reply;
	lease->ending = NULL;
	if (!err || err == -ESTALE || err == -ENOENT)
		lease_end(lease, err ? RMEM_REASON_UNKNOWN : RMEM_REASON_FREED);
	call_line_go(&lease->line);
	return 0;
}

static void leave_leave(struct call *call)
{
	if (connection_abandon(call->sent, ended_late, call->lease))
		call->lease->ending = call->sent;
}

/* The lease may be attached again, by another handle; that it had ended already is no error.  The
 * handle is freed, unless there are other references to it. */
static int leave_end(struct call *call, int result)
{
	struct rmem_lease *lease = call->lease;

	if (!lease_call_of(call)->flag)
		return result;
	lease_move(lease, LEASE_STEP_ANSWER);
	if (result && result != -ESTALE && result != -ENOENT)
		return result;
	if (--lease->references > 0) {
		lease_end(lease, RMEM_REASON_FREED);
		return 0;
	}
	call->lease = NULL;
	call->line = NULL;
	lease_drop(lease);
	return 0;
}

static const struct call_kind detach_kind = {
	.name = "rmem_detach",
	.step = detach_step,
	.answered = leave_answered,
	.leave = leave_leave,
	.end = leave_end,
	.describe = lease_call_describe,
};

static const struct call_kind destroy_kind = {
	.name = "rmem_destroy",
	.step = destroy_step,
	.answered = leave_answered,
	.leave = leave_leave,
	.end = leave_end,
	.describe = lease_call_describe,
};

static int leave_create(const struct call_kind *kind,
			const struct rmem_request *request, struct call **ret_call)
{
	struct lease_call *call = lease_call_new();

	if (!call)
		return -ENOMEM;
	*ret_call = lease_call_init(call, kind, request, 0);
	return 0;
}

int lease_detach_create(const struct rmem_request *request, struct call **ret_call)
{
	return leave_create(&detach_kind, request, ret_call);
}

int lease_destroy_create(const struct rmem_request *request, struct call **ret_call)
{
	return leave_create(&destroy_kind, request, ret_call);
}

/* ---- the synchronous calls ---- */

int rmem_detach(rmem_lease *lease)
{
	const struct rmem_request request = { .call = RMEM_CALL_DETACH,
					      .lease = lease };

	if (!lease)
		return err_set(-EINVAL, "rmem_detach: the lease is NULL");
	return call_make(lease_detach_create, &request, NULL);
}

int rmem_destroy(rmem_lease *lease)
{
	const struct rmem_request request = { .call = RMEM_CALL_DESTROY,
					      .lease = lease };

	if (!lease)
		return err_set(-EINVAL, "rmem_destroy: the lease is NULL");
	return call_make(lease_destroy_create, &request, NULL);
}
