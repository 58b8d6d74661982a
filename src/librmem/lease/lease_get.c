/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that get a lease: allocate, attach. */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/params.h"
#include "base/utf8.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

/* The longest wait between two attempts. */
#define ATTEMPT_MAX_MS 160u

/* clang-format off */
enum getting_step {
	GETTING_ALLOCATE,
	GETTING_ATTACH, /* after EEXIST, with RMEM_ALLOC_ATTACH, too */
	GETTING_STAT,   /* the session has the lease already: which is it? */
};
/* clang-format on */

struct getting {
	struct call call; /* first */
	enum getting_step step;
	bool attaches;            /* RMEM_ALLOC_ATTACH */
	struct rmem_lease *lease; /* the handle that is to be granted; NULL: none */
	struct backoff backoff;
	struct wire_allocate allocate;
	struct wire_attach attach;
	/* names as given, which may be wrong; only while the call is created */
	const char *name, *tenant;
};

static struct getting *getting_of(const struct call *call)
{
	return container_of((struct call *)(uintptr_t)call, struct getting, call);
}

/* ---- a grant ---- */

/* The server has granted the lease: from here on events find the lease. */
static int lease_granted(struct rmem_lease *lease, const struct wire_lease *answer)
{
	int err;

	lease->id = answer->lease;
	lease->rights = answer->rights & (RMEM_READ | RMEM_WRITE);
	err = lease_publish(lease, answer);
	if (err)
		return err;
	err = lease_enter(lease);
	if (err) {
		attachment_free(lease_attachment(lease));
		atomic_store(&lease->attachment, NULL);
		lease_name_set(lease, "");
	}
	return err;
}

static int allocated(struct rmem_lease *lease, const struct wire_lease *answer)
{
	if (lease_find(lease->session, answer->lease))
		return err_set(-EPROTO, "the server grants lease %" PRIu64 " twice",
			       answer->lease);
	return lease_granted(lease, answer);
}

/* The server grants what the session does not have: an older handle has ended, though this session
 * has not been told, or the answer to its detach came too late. */
static int attached(struct rmem_lease *lease, const struct wire_lease *answer)
{
	lease_replace(lease->session, answer->lease);
	return lease_granted(lease, answer);
}

/* The handle is owned by this function, as by the next. */
static int allocated_late(void *ctx, int err, const struct wire_msg *reply)
{
	if (err)
		lease_handle_free(ctx);
	else
		lease_give_back(ctx, reply->lease.lease, WIRE_DETACH_UNDO);
	return 0;
}

static int attached_late(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	if (err) {
		lease_handle_free(lease);
		return 0;
	}
	lease_replace(lease->session, reply->lease.lease);
	lease_give_back(lease, reply->lease.lease, 0);
	return 0;
}

static connection_done *late_of(const struct getting *getting)
{
	return getting->step == GETTING_ALLOCATE ? allocated_late : attached_late;
}

static int granted(struct getting *getting, const struct wire_msg *reply)
{
	struct rmem_lease *lease = getting->lease;
	int err = getting->step == GETTING_ALLOCATE ? allocated(lease, &reply->lease)
						    : attached(lease, &reply->lease);

	if (err == -EPROTO)
		return err;
	getting->lease = NULL;
	if (err) {
		(void)late_of(getting)(lease, 0, reply);
		return err;
	}
	getting->call.answer.object = lease;
	return getting->attaches && getting->step == GETTING_ATTACH;
}

/* One more reference to the handle that the session has.
 *   -EAGAIN  it has none, or gives it back at this moment */
static int reference_take(struct getting *getting, uint64_t id)
{
	struct rmem_lease *lease = lease_find(getting->call.session, id);

	if (!lease || lease->state != LEASE_USED || lease->ending)
		return err_set(-EAGAIN, "another thread is about to detach it");
	if (getting->attach.rights & ~lease->rights)
		return err_set(-EBUSY, "this session has attached it for reading only");
	lease->references++;
	getting->call.answer.object = lease;
	return getting->attaches;
}

/* ---- the requests ---- */

static int handle_create(struct getting *getting)
{
	struct rmem *session = getting->call.session;
	struct rmem_lease *lease;
	int err = give_backs_check(session);

	if (err || getting->lease)
		return err;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return err_set(-ENOMEM, "no memory for a lease's handle");
	lease->session = session;
	lease->references = 1;
	list_init(&lease->node);
	list_init(&lease->rekey_node);
	call_line_init(&lease->line);
	notice_source_init(&lease->notices);
	getting->lease = lease;
	return 0;
}

static int allocate_send(struct getting *getting)
{
	struct wire_msg request;
	int err = handle_create(getting);

	if (err)
		return err;
	wire_msg_init(&request, WIRE_TYPE_allocate);
	request.allocate = getting->allocate;
	request.allocate.reach = recovery_reach(getting->call.session);
	return call_send(&getting->call, &request);
}

static int attach_send(struct getting *getting)
{
	struct wire_msg request;
	int err = handle_create(getting);

	if (err)
		return err;
	wire_msg_init(&request, WIRE_TYPE_attach);
	request.attach = getting->attach;
	request.attach.reach = recovery_reach(getting->call.session);
	return call_send(&getting->call, &request);
}

static int stat_send(struct getting *getting)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_stat);
	memcpy(request.stat.name, getting->attach.name, sizeof(request.stat.name));
	memcpy(request.stat.tenant, getting->attach.tenant,
	       sizeof(request.stat.tenant));
	return call_send(&getting->call, &request);
}

static int getting_step(struct call *call)
{
	struct getting *getting = getting_of(call);

	if (getting->step == GETTING_ALLOCATE)
		return allocate_send(getting);
	if (getting->step == GETTING_ATTACH)
		return attach_send(getting);
	return stat_send(getting);
}

static int getting_go(struct getting *getting, enum getting_step step)
{
	getting->step = step;
	return getting_step(&getting->call);
}

/* What is in the way, such as a detach of another thread, takes a time; then begin again.  err: the
 * result if it stays there. */
static int getting_again(struct getting *getting, int err)
{
	if (getting->attaches && err == -ENOENT)
		err = err_set(-EBUSY, "at each attempt the lease of that name was "
				      "being granted, or had just ended");
	getting->step =
		getting->attaches && err == -EBUSY ? GETTING_ALLOCATE : GETTING_ATTACH;
	return call_pause(&getting->call, backoff_next(&getting->backoff), err);
}

static int allocate_answered(struct getting *getting, int err,
			     const struct wire_msg *reply)
{
	if (!err)
		return granted(getting, reply);
	if (err == -EEXIST && getting->attaches)
		return getting_go(getting, GETTING_ATTACH);
	return err;
}

/* Between the refusal and the attempt to attach it, the lease may end; or it is being granted to
 * another session. */
static int attach_answered(struct getting *getting, int err,
			   const struct wire_msg *reply)
{
	if (!err)
		return granted(getting, reply);
	if (err == -EBUSY)
		return getting_go(getting, GETTING_STAT);
	if (err == -ENOENT && getting->attaches)
		return getting_again(getting, err);
	return err;
}

/* Since the refusal the lease may have got another name, or have been detached. */
static int stat_answered(struct getting *getting, int err, const struct wire_msg *reply)
{
	if (!err && reply->entries.n_entries != 1)
		return err_set(-EPROTO,
			       "the server describes %u leases when asked for one",
			       reply->entries.n_entries);
	if (!err)
		err = reference_take(getting, reply->entries.entries[0].lease);
	if (err == -EAGAIN)
		err = -EBUSY;
	else if (err != -ENOENT)
		return err;
	return getting_again(getting, err);
}

static int getting_answered(struct call *call, int err, const struct wire_msg *reply)
{
	struct getting *getting = getting_of(call);

	if (getting->step == GETTING_ALLOCATE)
		return allocate_answered(getting, err, reply);
	if (getting->step == GETTING_ATTACH)
		return attach_answered(getting, err, reply);
	return stat_answered(getting, err, reply);
}

/* ---- the end ---- */

static void getting_leave(struct call *call)
{
	struct getting *getting = getting_of(call);
	bool grants = getting->step != GETTING_STAT;

	if (connection_abandon(call->sent, grants ? late_of(getting) : NULL,
			       getting->lease) &&
	    grants)
		getting->lease = NULL;
}

static int getting_end(struct call *call, int result)
{
	struct getting *getting = getting_of(call);

	if (getting->lease)
		lease_handle_free(getting->lease);
	getting->lease = NULL;
	return result;
}

static int alloc_describe(struct call *call, int err)
{
	return err_prefix(err, "rmem_alloc of %" PRIu64 " bytes at %s",
			  getting_of(call)->allocate.bytes, call->session->server);
}

static int attach_describe(struct call *call, int err)
{
	const struct getting *getting = getting_of(call);

	return err_prefix(err, "rmem_attach \"%s\" at %s",
			  getting->name ? getting->name : getting->attach.name,
			  call->session->server);
}

static int attach_shared_describe(struct call *call, int err)
{
	const struct getting *getting = getting_of(call);

	return err_prefix(err, "rmem_attach_shared \"%s\" of %s at %s",
			  getting->name ? getting->name : getting->attach.name,
			  getting->tenant ? getting->tenant : getting->attach.tenant,
			  call->session->server);
}

static void alloc_undo(struct call *call)
{
	bool found = call->answer.status == 1;

	lease_undo(call->answer.object, found ? 0 : WIRE_DETACH_UNDO);
}

static void attach_undo(struct call *call)
{
	lease_undo(call->answer.object, 0);
}

static const struct call_kind alloc_kind = {
	.step = getting_step,
	.answered = getting_answered,
	.leave = getting_leave,
	.end = getting_end,
	.describe = alloc_describe,
	.undo = alloc_undo,
};

static const struct call_kind attach_kind = {
	.step = getting_step,
	.answered = getting_answered,
	.leave = getting_leave,
	.end = getting_end,
	.describe = attach_describe,
	.undo = attach_undo,
};

static const struct call_kind attach_shared_kind = {
	.step = getting_step,
	.answered = getting_answered,
	.leave = getting_leave,
	.end = getting_end,
	.describe = attach_shared_describe,
	.undo = attach_undo,
};

/* ---- arguments ---- */

static int alloc_check(const struct rmem_alloc_params *params)
{
	if (params->align > 0 &&
	    (params->align & (params->align - 1) || params->align > UINT64_C(1) << 30))
		return err_set(-EINVAL,
			       "align is %" PRIu64 ", not a power of two up to 1 GiB",
			       params->align);
	if (params->node < RMEM_NODE_ANY)
		return err_set(-EINVAL, "node is %d", params->node);
	if (params->flags & ~RMEM_ALLOC_ATTACH)
		return err_set(-EINVAL, "flags 0x%x are unknown", params->flags);
	if (params->flags & RMEM_ALLOC_ATTACH && !params->name)
		return err_set(-EINVAL, "RMEM_ALLOC_ATTACH is given, but no name");
	return 0;
}

_Static_assert((int)RMEM_PLACE_NODE == (int)WIRE_PLACE_NODE &&
		       (int)RMEM_PLACE_DEVICE == (int)WIRE_PLACE_DEVICE &&
		       (int)RMEM_PLACE_INTERLEAVE == (int)WIRE_PLACE_INTERLEAVE,
	       "placements of the API and of the wire");

static int placement_parse(const struct rmem_alloc_params *params,
			   struct wire_allocate *allocate)
{
	bool by_device = params->placement == RMEM_PLACE_DEVICE;
	size_t len = params->device ? strnlen(params->device, WIRE_LABEL_MAX + 1) : 0;

	if ((unsigned)params->placement > RMEM_PLACE_INTERLEAVE)
		return err_set(-EINVAL, "placement is %d", (int)params->placement);
	if (params->placement != RMEM_PLACE_NODE && params->node != RMEM_NODE_ANY)
		return err_set(-EINVAL, "node is for RMEM_PLACE_NODE");
	if (by_device != (params->device != NULL))
		return err_set(-EINVAL, by_device ? "device is NULL"
						  : "device is for RMEM_PLACE_DEVICE");
	if (by_device &&
	    (len == 0 || len > WIRE_LABEL_MAX || !utf8_clean(params->device, len)))
		return err_set(-EINVAL, "device is not the name of one");
	allocate->placement = (uint8_t)params->placement;
	allocate->node = params->node;
	if (by_device)
		memcpy(allocate->device, params->device, len + 1);
	return 0;
}

/* All of *params, of any version of the structure. */
static int alloc_parse(struct getting *getting, const struct rmem_alloc_params *params)
{
	struct wire_allocate *allocate = &getting->allocate;
	struct rmem_alloc_params all = rmem_alloc_params_init();
	int err = params_import(&all, sizeof(all), params, params->size, sizeof(all),
				"rmem_alloc_params");

	if (!err)
		err = alloc_check(&all);
	if (!err && all.name)
		err = lease_name_parse(all.name, true, allocate->name);
	if (!err)
		err = placement_parse(&all, allocate);
	allocate->bytes = params->bytes;
	if (err)
		return err;
	allocate->align = all.align;
	allocate->ttl_ms = all.ttl_ms;
	getting->attaches = (all.flags & RMEM_ALLOC_ATTACH) != 0;
	memcpy(getting->attach.name, allocate->name, sizeof(allocate->name));
	getting->attach.rights = RMEM_READ | RMEM_WRITE;
	return 0;
}

static int attach_parse(struct getting *getting, const struct rmem_request *request,
			const char *tenant)
{
	struct wire_attach *attach = &getting->attach;
	int err = lease_rights_check(request->value);

	if (!err)
		err = lease_name_parse(request->name, true, attach->name);
	if (!err)
		err = lease_tenant_parse(tenant, attach->tenant);
	attach->rights = (uint8_t)request->value;
	return err;
}

static struct getting *getting_new(enum getting_step step)
{
	struct getting *getting = calloc(1, sizeof(*getting));

	if (!getting) {
		(void)err_set(-ENOMEM, "no memory for a call");
		return NULL;
	}
	getting->step = step;
	getting->backoff = (struct backoff)BACKOFF_INIT(ATTEMPT_MAX_MS);
	return getting;
}

int lease_alloc_create(const struct rmem_request *request, struct call **ret_call)
{
	struct getting *getting = getting_new(GETTING_ALLOCATE);

	if (!getting)
		return -ENOMEM;
	call_init(&getting->call, &alloc_kind, request->session, request,
		  alloc_parse(getting, request->params));
	*ret_call = &getting->call;
	return 0;
}

/* tenant NULL: the session's own. */
static int attach_create(const struct call_kind *kind,
			 const struct rmem_request *request, const char *tenant,
			 struct call **ret_call)
{
	struct getting *getting = getting_new(GETTING_ATTACH);

	if (!getting)
		return -ENOMEM;
	getting->name = request->name;
	getting->tenant = tenant;
	call_init(&getting->call, kind, request->session, request,
		  attach_parse(getting, request, tenant));
	getting->name = getting->tenant = NULL;
	*ret_call = &getting->call;
	return 0;
}

int lease_attach_create(const struct rmem_request *request, struct call **ret_call)
{
	return attach_create(&attach_kind, request, NULL, ret_call);
}

int lease_attach_shared_create(const struct rmem_request *request,
			       struct call **ret_call)
{
	return attach_create(&attach_shared_kind, request, request->tenant, ret_call);
}

/* ---- the synchronous calls ---- */

static int lease_get(call_create *create, const struct rmem_request *request,
		     rmem_lease **ret_lease)
{
	struct rmem_answer answer;
	int result = call_make(create, request, &answer);

	if (result >= 0)
		*ret_lease = answer.object;
	return result;
}

int rmem_alloc(rmem *session, const struct rmem_alloc_params *params,
	       rmem_lease **ret_lease)
{
	const struct rmem_request request = { .call = RMEM_CALL_ALLOC,
					      .session = session,
					      .params = params };

	if (!session || !params || !ret_lease)
		return err_set(-EINVAL, "rmem_alloc: an argument is NULL");
	return lease_get(lease_alloc_create, &request, ret_lease);
}

int rmem_attach(rmem *session, const char *name, unsigned rights,
		rmem_lease **ret_lease)
{
	const struct rmem_request request = { .call = RMEM_CALL_ATTACH,
					      .session = session,
					      .name = name,
					      .value = rights };

	if (!session || !name || !ret_lease)
		return err_set(-EINVAL, "rmem_attach: an argument is NULL");
	return lease_get(lease_attach_create, &request, ret_lease);
}

int rmem_attach_shared(rmem *session, const char *tenant, const char *name,
		       unsigned rights, rmem_lease **ret_lease)
{
	const struct rmem_request request = { .call = RMEM_CALL_ATTACH_SHARED,
					      .session = session,
					      .name = name,
					      .tenant = tenant,
					      .value = rights };

	if (!session || !tenant || !name || !ret_lease)
		return err_set(-EINVAL, "rmem_attach_shared: an argument is NULL");
	return lease_get(lease_attach_shared_create, &request, ret_lease);
}
