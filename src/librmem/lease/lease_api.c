/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls on leases: allocate, attach, rename, share, grow, shrink, renew, keep. */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"
#include "librmem/lease/lease.h"
#include "base/params.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/session/session.h"
#include "librmem/lease/inflight.h"
#include "wire/codec.h"

/* The longest wait between two attempts. */
#define ATTEMPT_MAX_MS 160u

/* ---- getting a lease ---- */

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

static int allocated(void *ctx, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	if (lease_find(lease->session, reply->lease.lease))
		return err_set(-EPROTO, "the server grants lease %" PRIu64 " twice",
			       reply->lease.lease);
	return lease_granted(lease, &reply->lease);
}

/* The server grants what the session does not have: an older handle has ended, though this session
 * has not been told, or the answer to its detach came too late. */
static int attached(void *ctx, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	lease_replace(lease->session, reply->lease.lease);
	return lease_granted(lease, &reply->lease);
}

/* The handle is owned by this function. */
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

/* Send the request for a new lease, and wait for the reply. */
static int lease_request(struct rmem *session, const struct wire_msg *request,
			 struct rmem_lease **ret_lease)
{
	const bool allocates = request->type == WIRE_TYPE_allocate;
	struct session_late late = { .done = allocates ? allocated_late
						       : attached_late };
	struct rmem_lease *lease;
	int err;

	(void)pthread_mutex_lock(&session->lock);
	err = give_backs_check(session);
	(void)pthread_mutex_unlock(&session->lock);
	if (err)
		return err;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return err_set(-ENOMEM, "no memory for a lease's handle");
	lease->session = session;
	lease->references = 1;
	list_init(&lease->node);
	list_init(&lease->rekey_node);
	lease->ended_late = (struct session_late){ .done = lease_ended_late,
						   .status = &lease->status };
	notice_source_init(&lease->notices);
	err = session_call_late(session, request, allocates ? allocated : attached,
				&late, lease);
	if (!err)
		*ret_lease = lease;
	else if (!late.passed)
		lease_handle_free(lease);
	return err;
}

static int rights_check(unsigned rights)
{
	if (rights == RMEM_READ || rights == (RMEM_READ | RMEM_WRITE))
		return 0;
	return err_set(-EINVAL,
		       "rights is neither RMEM_READ nor RMEM_READ | RMEM_WRITE");
}

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

static uint32_t reach_now(struct rmem *session)
{
	uint32_t reach;

	(void)pthread_mutex_lock(&session->lock);
	reach = recovery_reach(session);
	(void)pthread_mutex_unlock(&session->lock);
	return reach;
}

static int alloc(struct rmem *session, const struct rmem_alloc_params *params,
		 struct rmem_lease **ret_lease)
{
	struct wire_msg request;
	int err = alloc_check(params);

	wire_msg_init(&request, WIRE_TYPE_allocate);
	if (!err && params->name)
		err = lease_name_parse(params->name, true, request.allocate.name);
	if (!err)
		err = placement_parse(params, &request.allocate);
	if (err)
		return err;
	request.allocate.bytes = params->bytes;
	request.allocate.align = params->align;
	request.allocate.reach = reach_now(session);
	request.allocate.ttl_ms = params->ttl_ms;
	return lease_request(session, &request, ret_lease);
}

/* tenant NULL: the session's own, in this and the following functions. */
static int attach_new(struct rmem *session, const char *tenant, const char *name,
		      unsigned rights, struct rmem_lease **ret_lease)
{
	struct wire_msg request;
	int err;

	wire_msg_init(&request, WIRE_TYPE_attach);
	err = lease_name_parse(name, true, request.attach.name);
	if (!err)
		err = lease_tenant_parse(tenant, request.attach.tenant);
	if (err)
		return err;
	request.attach.rights = (uint8_t)rights;
	request.attach.reach = reach_now(session);
	return lease_request(session, &request, ret_lease);
}

/* One more reference to the handle that the session has.
 *   -EAGAIN  it has none, or gives it back at this moment */
static int reference_take(struct rmem *session, uint64_t id, unsigned rights,
			  struct rmem_lease **ret_lease)
{
	struct rmem_lease *lease;
	int err = 0;

	(void)pthread_mutex_lock(&session->lock);
	lease = lease_find(session, id);
	if (!lease || lease->state != LEASE_USED || lease->ended_late.call)
		err = err_set(-EAGAIN, "another thread is about to detach it");
	else if (rights & ~lease->rights)
		err = err_set(-EBUSY, "this session has attached it for reading only");
	else
		lease->references++;
	(void)pthread_mutex_unlock(&session->lock);
	if (!err)
		*ret_lease = lease;
	return err;
}

static int attach_again(struct rmem *session, const char *tenant, const char *name,
			unsigned rights, struct rmem_lease **ret_lease)
{
	struct rmem_stat stat;
	int err = lease_stat_request(session, tenant, name, &stat);

	return err ? err : reference_take(session, stat.id, rights, ret_lease);
}

/* What is in the way, such as a detach of another thread, takes a time. */
struct attempts {
	struct rmem *session;
	struct backoff backoff;
	uint64_t end_ns;
};

static struct attempts attempts_begin(struct rmem *session)
{
	return (struct attempts){ .session = session,
				  .backoff = BACKOFF_INIT(ATTEMPT_MAX_MS),
				  .end_ns = session_end_ns(session) };
}

/* Wait a little; false: the time is over. */
static bool attempts_wait(struct attempts *attempts)
{
	if (clock_now_ns() >= attempts->end_ns)
		return false;
	session_pause(attempts->session, backoff_next(&attempts->backoff));
	return true;
}

/* Between the two requests the lease may get another name, or be detached. */
static int attach(struct rmem *session, const char *tenant, const char *name,
		  unsigned rights, struct rmem_lease **ret_lease)
{
	struct attempts attempts = attempts_begin(session);
	int err = rights_check(rights);

	if (err)
		return err;
	do {
		err = attach_new(session, tenant, name, rights, ret_lease);
		if (err != -EBUSY)
			return err;
		err = attach_again(session, tenant, name, rights, ret_lease);
	} while ((err == -EAGAIN || err == -ENOENT) && attempts_wait(&attempts));
	return err == -EAGAIN ? -EBUSY : err;
}

/* Between the refusal and the attempt to attach it, the lease may end; or it is being granted to
 * another session. */
static int alloc_or_attach(struct rmem *session, const struct rmem_alloc_params *params,
			   struct rmem_lease **ret_lease)
{
	struct attempts attempts = attempts_begin(session);
	int err;

	do {
		err = alloc(session, params, ret_lease);
		if (err != -EEXIST || !(params->flags & RMEM_ALLOC_ATTACH))
			return err;
		err = attach(session, NULL, params->name, RMEM_READ | RMEM_WRITE,
			     ret_lease);
		if (!err)
			return 1;
	} while (err == -ENOENT && attempts_wait(&attempts));
	return err == -ENOENT
		       ? err_set(-EBUSY, "at each attempt the lease of that name "
					 "was being granted, or had just ended")
		       : err;
}

int rmem_alloc(rmem *session, const struct rmem_alloc_params *params,
	       rmem_lease **ret_lease)
{
	struct rmem_alloc_params all = rmem_alloc_params_init();
	int err;

	if (!session || !params || !ret_lease)
		return err_set(-EINVAL, "rmem_alloc: an argument is NULL");
	err = params_import(&all, sizeof(all), params, params->size, sizeof(all),
			    "rmem_alloc_params");
	if (!err)
		err = alloc_or_attach(session, &all, ret_lease);
	return err_end(err < 0 ? err_prefix(err,
					    "rmem_alloc of %" PRIu64 " bytes at %s",
					    params->bytes, session->server)
			       : err);
}

int rmem_attach(rmem *session, const char *name, unsigned rights,
		rmem_lease **ret_lease)
{
	int err;

	if (!session || !name || !ret_lease)
		return err_set(-EINVAL, "rmem_attach: an argument is NULL");
	err = attach(session, NULL, name, rights, ret_lease);
	return err_end(
		err ? err_prefix(err, "rmem_attach \"%s\" at %s", name, session->server)
		    : 0);
}

int rmem_attach_shared(rmem *session, const char *tenant, const char *name,
		       unsigned rights, rmem_lease **ret_lease)
{
	int err;

	if (!session || !tenant || !name || !ret_lease)
		return err_set(-EINVAL, "rmem_attach_shared: an argument is NULL");
	err = attach(session, tenant, name, rights, ret_lease);
	return err_end(err ? err_prefix(err, "rmem_attach_shared \"%s\" of %s at %s",
					name, tenant, session->server)
			   : 0);
}

/* ---- changing a lease ---- */

/* Send a request that changes a writable lease that has not ended. */
static int lease_change(struct rmem_lease *lease, const struct wire_msg *request,
			session_take *take, void *ctx)
{
	int err = session_own(lease->session);

	if (err)
		return err;
	if (atomic_load(&lease->status) != 0)
		return err_set(-ESTALE, "%s", lease_ended_text(lease));
	err = lease_check_writable(lease);
	return err ? err : session_call(lease->session, request, take, ctx);
}

struct renaming {
	struct rmem_lease *lease;
	const char *name;
};

static int renamed(void *ctx, const struct wire_msg *reply)
{
	const struct renaming *renaming = ctx;

	(void)reply;
	lease_name_set(renaming->lease, renaming->name);
	return 0;
}

int rmem_rename(rmem_lease *lease, const char *name, unsigned flags)
{
	struct renaming renaming = { lease, name };
	struct wire_msg request;
	int err;

	wire_msg_init(&request, WIRE_TYPE_rename);
	if (!lease)
		return err_set(-EINVAL, "rmem_rename: the lease is NULL");
	if (flags & ~RMEM_RENAME_REPLACE)
		return err_set(-EINVAL, "rmem_rename: flags 0x%x are unknown", flags);
	err = lease_name_parse(name, true, request.rename.name);
	if (!err) {
		request.rename.lease = lease->id;
		request.rename.flags =
			flags & RMEM_RENAME_REPLACE ? WIRE_RENAME_REPLACE : 0;
		err = lease_change(lease, &request, renamed, &renaming);
	}
	return err_end(err ? lease_error(lease, err, "rmem_rename") : 0);
}

static int share(struct rmem_lease *lease, const char *tenant, unsigned rights)
{
	struct wire_msg request;
	int err;

	wire_msg_init(&request, WIRE_TYPE_share);
	err = lease_tenant_parse(tenant, request.share.tenant);
	if (err)
		return err;
	request.share.lease = lease->id;
	request.share.rights = (uint8_t)rights;
	return lease_change(lease, &request, NULL, NULL);
}

int rmem_share(rmem_lease *lease, const char *tenant, unsigned rights)
{
	int err;

	if (!lease || !tenant)
		return err_set(-EINVAL, "rmem_share: an argument is NULL");
	err = rights_check(rights);
	if (!err)
		err = share(lease, tenant, rights);
	return err_end(err ? lease_error(lease, err, "rmem_share") : 0);
}

int rmem_unshare(rmem_lease *lease, const char *tenant)
{
	int err;

	if (!lease || !tenant)
		return err_set(-EINVAL, "rmem_unshare: an argument is NULL");
	err = share(lease, tenant, 0);
	return err_end(err ? lease_error(lease, err, "rmem_unshare") : 0);
}

static int resized(void *ctx, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	if (reply->lease.lease != lease->id)
		return err_set(-EPROTO,
			       "the server resized lease %" PRIu64
			       " when asked for %" PRIu64,
			       reply->lease.lease, lease->id);
	return lease_publish(lease, &reply->lease);
}

static int resize(struct rmem_lease *lease, uint64_t bytes)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_resize);
	request.resize.lease = lease->id;
	request.resize.bytes = bytes;
	request.resize.reach = reach_now(lease->session);
	return lease_change(lease, &request, resized, lease);
}

int rmem_grow(rmem_lease *lease, uint64_t bytes)
{
	int err;

	if (!lease)
		return err_set(-EINVAL, "rmem_grow: the lease is NULL");
	if (bytes < rmem_lease_bytes(lease))
		err = err_set(-EINVAL, "%" PRIu64 " bytes is shorter than it is",
			      bytes);
	else
		err = resize(lease, bytes);
	return err_end(err ? lease_error(lease, err, "rmem_grow") : 0);
}

int rmem_shrink(rmem_lease *lease, uint64_t bytes)
{
	int err;

	if (!lease)
		return err_set(-EINVAL, "rmem_shrink: the lease is NULL");
	if (session_own(lease->session))
		return err_prefix(-ESTALE, "rmem_shrink");
	(void)pthread_mutex_lock(&lease->session->lock);
	err = lease_check_idle(lease);
	(void)pthread_mutex_unlock(&lease->session->lock);
	if (bytes > rmem_lease_bytes(lease))
		err = err_set(-EINVAL, "%" PRIu64 " bytes is longer than it is", bytes);
	if (!err)
		err = resize(lease, bytes);
	return err_end(err ? lease_error(lease, err, "rmem_shrink") : 0);
}

static int renew(struct rmem_lease *lease, uint64_t ttl_ms, session_take *take,
		 void *ctx)
{
	struct rmem *session = lease->session;
	struct wire_msg request;
	bool kept;
	int err;

	if (session_own(session))
		return -ESTALE;
	wire_msg_init(&request, WIRE_TYPE_renew);
	request.renew.lease = lease->id;
	if (ttl_ms == RMEM_TTL_SAME)
		request.renew.flags = WIRE_RENEW_SAME;
	else
		request.renew.ttl_ms = ttl_ms;
	/* the session must not renew the lease after this request */
	(void)pthread_mutex_lock(&session->lock);
	kept = keep_stop(lease);
	(void)pthread_mutex_unlock(&session->lock);
	err = lease_change(lease, &request, take, ctx);
	if (!err || !kept)
		return err;
	/* it goes on, behind the request, which may take effect after a time-out */
	(void)pthread_mutex_lock(&session->lock);
	keep_resume(lease);
	(void)pthread_mutex_unlock(&session->lock);
	session_wake(session);
	return err;
}

int rmem_renew(rmem_lease *lease, uint64_t ttl_ms)
{
	int err;

	if (!lease)
		return err_set(-EINVAL, "rmem_renew: the lease is NULL");
	err = renew(lease, ttl_ms, NULL, NULL);
	return err_end(err ? lease_error(lease, err, "rmem_renew") : 0);
}

struct keeping {
	struct rmem_lease *lease;
	uint64_t ttl_ms;
	uint64_t begin_ns; /* before the request was sent */
};

static int kept(void *ctx, const struct wire_msg *reply)
{
	const struct keeping *keeping = ctx;

	(void)reply;
	keep_start(keeping->lease, keeping->ttl_ms, keeping->begin_ns);
	return 0;
}

int rmem_keep(rmem_lease *lease, uint64_t ttl_ms)
{
	struct keeping keeping = { lease, ttl_ms, clock_now_ns() };
	int err;

	if (!lease)
		return err_set(-EINVAL, "rmem_keep: the lease is NULL");
	if (ttl_ms == 0 || ttl_ms == RMEM_TTL_SAME)
		err = err_set(-EINVAL, "ttl_ms is %s", ttl_ms ? "RMEM_TTL_SAME" : "0");
	else
		err = renew(lease, ttl_ms, kept, &keeping);
	return err_end(err ? lease_error(lease, err, "rmem_keep") : 0);
}
