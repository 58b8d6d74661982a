/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that change a lease: rename, share, grow, shrink, renew, keep. */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/lease/inflight.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

/* Nothing in the reply but that it is done. */
static int done(struct call *call, int err, const struct wire_msg *reply)
{
	(void)call;
	(void)reply;
	return err;
}

/* ---- rename ---- */

static int rename_step(struct call *call)
{
	const struct lease_call *renaming = lease_call_of(call);
	struct wire_msg request;
	int err = lease_call_check(call);

	if (err)
		return err;
	wire_msg_init(&request, WIRE_TYPE_rename);
	request.rename.lease = call->lease->id;
	memcpy(request.rename.name, renaming->text, sizeof(request.rename.name));
	request.rename.flags = renaming->value ? WIRE_RENAME_REPLACE : 0;
	return call_send(call, &request);
}

static int rename_answered(struct call *call, int err, const struct wire_msg *reply)
{
	(void)reply;
	if (!err)
		lease_name_set(call->lease, lease_call_of(call)->text);
	return err;
}

static const struct call_kind rename_kind = {
	.name = "rmem_rename",
	.step = rename_step,
	.answered = rename_answered,
	.describe = lease_call_describe,
};

int lease_rename_create(const struct rmem_request *request, struct call **ret_call)
{
	struct lease_call *call = lease_call_new();
	int err;

	if (!call)
		return -ENOMEM;
	if (request->value & ~(uint64_t)RMEM_RENAME_REPLACE)
		err = err_set(-EINVAL, "flags 0x%" PRIx64 " are unknown",
			      request->value);
	else
		err = lease_name_parse(request->name, true, call->text);
	*ret_call = lease_call_init(call, &rename_kind, request, err);
	return 0;
}

/* ---- share ---- */

static int share_step(struct call *call)
{
	const struct lease_call *sharing = lease_call_of(call);
	struct wire_msg request;
	int err = lease_call_check(call);

	if (err)
		return err;
	wire_msg_init(&request, WIRE_TYPE_share);
	request.share.lease = call->lease->id;
	memcpy(request.share.tenant, sharing->text, sizeof(request.share.tenant));
	request.share.rights = (uint8_t)sharing->value;
	return call_send(call, &request);
}

static const struct call_kind share_kind = {
	.name = "rmem_share",
	.step = share_step,
	.answered = done,
	.describe = lease_call_describe,
};

static const struct call_kind unshare_kind = {
	.name = "rmem_unshare",
	.step = share_step,
	.answered = done,
	.describe = lease_call_describe,
};

int lease_share_create(const struct rmem_request *request, struct call **ret_call)
{
	struct lease_call *call = lease_call_new();
	int err;

	if (!call)
		return -ENOMEM;
	err = lease_rights_check(request->value);
	if (!err)
		err = lease_tenant_parse(request->tenant, call->text);
	*ret_call = lease_call_init(call, &share_kind, request, err);
	return 0;
}

int lease_unshare_create(const struct rmem_request *request, struct call **ret_call)
{
	struct lease_call *call = lease_call_new();
	int err;

	if (!call)
		return -ENOMEM;
	err = lease_tenant_parse(request->tenant, call->text);
	*ret_call = lease_call_init(call, &unshare_kind, request, err);
	/* no rights are left */
	call->value = 0;
	return 0;
}

/* ---- grow, shrink ---- */

static int resize_send(struct call *call)
{
	struct wire_msg request;
	int err = lease_call_check(call);

	if (err)
		return err;
	wire_msg_init(&request, WIRE_TYPE_resize);
	request.resize.lease = call->lease->id;
	request.resize.bytes = lease_call_of(call)->value;
	request.resize.reach = recovery_reach(call->session);
	return call_send(call, &request);
}

static int grow_step(struct call *call)
{
	uint64_t bytes = lease_call_of(call)->value;

	if (bytes < rmem_lease_bytes(call->lease))
		return err_set(-EINVAL, "%" PRIu64 " bytes is shorter than it is",
			       bytes);
	return resize_send(call);
}

static int shrink_step(struct call *call)
{
	uint64_t bytes = lease_call_of(call)->value;
	int err = lease_check_idle(call->lease);

	if (bytes > rmem_lease_bytes(call->lease))
		return err_set(-EINVAL, "%" PRIu64 " bytes is longer than it is",
			       bytes);
	return err ? err : resize_send(call);
}

static int resized(struct call *call, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = call->lease;

	if (err)
		return err;
	if (reply->lease.lease != lease->id)
		return err_set(-EPROTO,
			       "the server resized lease %" PRIu64
			       " when asked for %" PRIu64,
			       reply->lease.lease, lease->id);
	return lease_publish(lease, &reply->lease);
}

static const struct call_kind grow_kind = {
	.name = "rmem_grow",
	.step = grow_step,
	.answered = resized,
	.describe = lease_call_describe,
};

static const struct call_kind shrink_kind = {
	.name = "rmem_shrink",
	.step = shrink_step,
	.answered = resized,
	.describe = lease_call_describe,
};

static int plain_create(const struct call_kind *kind,
			const struct rmem_request *request, int refused,
			struct call **ret_call)
{
	struct lease_call *call = lease_call_new();

	if (!call)
		return -ENOMEM;
	*ret_call = lease_call_init(call, kind, request, refused);
	return 0;
}

int lease_grow_create(const struct rmem_request *request, struct call **ret_call)
{
	return plain_create(&grow_kind, request, 0, ret_call);
}

int lease_shrink_create(const struct rmem_request *request, struct call **ret_call)
{
	return plain_create(&shrink_kind, request, 0, ret_call);
}

/* ---- renew, keep ---- */

static int renew_step(struct call *call)
{
	struct lease_call *renewing = lease_call_of(call);
	struct wire_msg request;
	int err = lease_call_check(call);

	if (err)
		return err;
	/* the session must not renew the lease after this request */
	renewing->flag = keep_stop(call->lease);
	call->begin_ns = clock_now_ns();
	wire_msg_init(&request, WIRE_TYPE_renew);
	request.renew.lease = call->lease->id;
	if (renewing->value == RMEM_TTL_SAME)
		request.renew.flags = WIRE_RENEW_SAME;
	else
		request.renew.ttl_ms = renewing->value;
	return call_send(call, &request);
}

static int kept(struct call *call, int err, const struct wire_msg *reply)
{
	(void)reply;
	if (!err)
		keep_start(call->lease, lease_call_of(call)->value, call->begin_ns);
	return err;
}

/* After an error the session goes on to renew it, behind the request, which may take effect after a
 * time-out. */
static int renew_end(struct call *call, int result)
{
	if (result && lease_call_of(call)->flag) {
		keep_resume(call->lease);
		session_wake(call->session);
	}
	return result;
}

static const struct call_kind renew_kind = {
	.name = "rmem_renew",
	.step = renew_step,
	.answered = done,
	.end = renew_end,
	.describe = lease_call_describe,
};

static const struct call_kind keep_kind = {
	.name = "rmem_keep",
	.step = renew_step,
	.answered = kept,
	.end = renew_end,
	.describe = lease_call_describe,
};

int lease_renew_create(const struct rmem_request *request, struct call **ret_call)
{
	return plain_create(&renew_kind, request, 0, ret_call);
}

int lease_keep_create(const struct rmem_request *request, struct call **ret_call)
{
	uint64_t ttl_ms = request->value;
	int err = 0;

	if (ttl_ms == 0 || ttl_ms == RMEM_TTL_SAME)
		err = err_set(-EINVAL, "ttl_ms is %s", ttl_ms ? "RMEM_TTL_SAME" : "0");
	return plain_create(&keep_kind, request, err, ret_call);
}

/* ---- the synchronous calls ---- */

int rmem_rename(rmem_lease *lease, const char *name, unsigned flags)
{
	const struct rmem_request request = {
		.call = RMEM_CALL_RENAME, .lease = lease, .name = name, .value = flags
	};

	if (!lease)
		return err_set(-EINVAL, "rmem_rename: the lease is NULL");
	return call_make(lease_rename_create, &request, NULL);
}

int rmem_share(rmem_lease *lease, const char *tenant, unsigned rights)
{
	const struct rmem_request request = { .call = RMEM_CALL_SHARE,
					      .lease = lease,
					      .tenant = tenant,
					      .value = rights };

	if (!lease || !tenant)
		return err_set(-EINVAL, "rmem_share: an argument is NULL");
	return call_make(lease_share_create, &request, NULL);
}

int rmem_unshare(rmem_lease *lease, const char *tenant)
{
	const struct rmem_request request = { .call = RMEM_CALL_UNSHARE,
					      .lease = lease,
					      .tenant = tenant };

	if (!lease || !tenant)
		return err_set(-EINVAL, "rmem_unshare: an argument is NULL");
	return call_make(lease_unshare_create, &request, NULL);
}

int rmem_grow(rmem_lease *lease, uint64_t bytes)
{
	const struct rmem_request request = { .call = RMEM_CALL_GROW,
					      .lease = lease,
					      .value = bytes };

	if (!lease)
		return err_set(-EINVAL, "rmem_grow: the lease is NULL");
	return call_make(lease_grow_create, &request, NULL);
}

int rmem_shrink(rmem_lease *lease, uint64_t bytes)
{
	const struct rmem_request request = { .call = RMEM_CALL_SHRINK,
					      .lease = lease,
					      .value = bytes };

	if (!lease)
		return err_set(-EINVAL, "rmem_shrink: the lease is NULL");
	return call_make(lease_shrink_create, &request, NULL);
}

int rmem_renew(rmem_lease *lease, uint64_t ttl_ms)
{
	const struct rmem_request request = { .call = RMEM_CALL_RENEW,
					      .lease = lease,
					      .value = ttl_ms };

	if (!lease)
		return err_set(-EINVAL, "rmem_renew: the lease is NULL");
	return call_make(lease_renew_create, &request, NULL);
}

int rmem_keep(rmem_lease *lease, uint64_t ttl_ms)
{
	const struct rmem_request request = { .call = RMEM_CALL_KEEP,
					      .lease = lease,
					      .value = ttl_ms };

	if (!lease)
		return err_set(-EINVAL, "rmem_keep: the lease is NULL");
	return call_make(lease_keep_create, &request, NULL);
}
