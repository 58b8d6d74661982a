/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/session/session.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/inflight.h"
#include "librmem/lease/watch.h"
#include "wire/codec.h"

void leases_want(struct rmem *session)
{
	atomic_store_explicit(&session->leases_due, true, memory_order_release);
}

/* Free the tables that nobody can read any more; others are looked at again. */
static void superseded_free(struct rmem_lease *lease)
{
	struct attachment *attachment =
		atomic_load_explicit(&lease->attachment, memory_order_relaxed);

	if (!attachment->older)
		return;
	if (lease_read(lease)) {
		leases_want(lease->session);
		return;
	}
	attachment_free(attachment->older);
	attachment->older = NULL;
}

int lease_publish(struct rmem_lease *lease, const struct wire_lease *answer)
{
	struct attachment *old =
		atomic_load_explicit(&lease->attachment, memory_order_relaxed);
	struct attachment *attachment;
	int err = attachment_create(answer, lease->session->welcome.n_endpoints,
				    &attachment);

	if (err)
		return err;
	atomic_store_explicit(&lease->numa_node,
			      answer->n_segments > 0 ? answer->segments[0].node
						     : RMEM_NODE_ANY,
			      memory_order_relaxed);
	lease->placement = (enum rmem_placement)answer->placement;
	lease->node_asked = answer->node;
	if (old && attachment_equal(attachment, old)) {
		attachment_free(attachment);
		return 0;
	}
	attachment->older = old;
	atomic_store_explicit(&lease->attachment, attachment, memory_order_release);
	atomic_store_explicit(&lease->bytes, attachment->bytes, memory_order_release);
	superseded_free(lease);
	return 0;
}

void lease_end(struct rmem_lease *lease)
{
	atomic_store_explicit(&lease->status, -ESTALE, memory_order_release);
	watch_ended(lease);
	SESSION_NOTIFY(lease->session, wake, lease->session);
}

struct rmem_lease *lease_find(struct rmem *session, uint64_t id)
{
	struct map_node *node = map_find(&session->leases_by_id, map_hash_u64(id));

	for (; node; node = map_find_next(node)) {
		struct rmem_lease *lease = container_of(node, struct rmem_lease, by_id);

		if (lease->id == id)
			return lease;
	}
	return NULL;
}

int lease_enter(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	if (map_insert(&session->leases_by_id, &lease->by_id, map_hash_u64(lease->id)))
		return err_set(-ENOMEM, "no memory for a lease's handle");
	list_append(&session->leases, &lease->node);
	return 0;
}

/* Not a lease of the session any more. */
static void lease_leave(struct rmem_lease *lease)
{
	map_remove(&lease->session->leases_by_id, &lease->by_id);
	list_remove(&lease->node);
}

/* ---- attaching anew ---- */

static connection_done rekey_done;

static int rekey_send(struct rmem_lease *lease)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_attach);
	lease->rekey_again = false;
	lease->asking = atomic_load_explicit(&lease->asked, memory_order_acquire);
	request.attach.lease = lease->id;
	request.attach.rights = (uint8_t)lease->rights;
	request.attach.reach = recovery_reach(lease->session);
	return connection_call(lease->session->connection, &request, rekey_done, lease,
			       &lease->rekey);
}

/* Ask for as many as may be asked for. */
static void rekeys_send(struct rmem *session)
{
	struct rmem_lease *lease;

	while (session->rekeys_sent < REKEYS_MAX &&
	       (lease = list_first(&session->rekeys_ahead, struct rmem_lease,
				   rekey_node))) {
		list_remove(&lease->rekey_node);
		if (atomic_load(&lease->status) == 0 && rekey_send(lease) == 0) {
			session->rekeys_sent++;
			continue;
		}
		session->rekeys--;
		/* where it could not be asked for, it is at the next occasion */
		(void)atomic_fetch_add(&lease->asked, 1);
		leases_want(session);
	}
}

static void rekey_finish(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;
	bool again = lease->rekey_again && atomic_load(&lease->status) == 0;

	lease->rekey = NULL;
	session->rekeys--;
	session->rekeys_sent--;
	/* a refusal that came after the request was sent is not explained by its answer */
	if (again)
		lease_rekey(lease);
	else
		atomic_store_explicit(&lease->verified, lease->asking,
				      memory_order_release);
	leases_want(session);
	rekeys_send(session);
	SESSION_NOTIFY(session, wake, session);
}

static int rekey_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	if (!err && reply->lease.lease != lease->id)
		err = err_set(-EPROTO,
			      "the server answers for lease %" PRIu64
			      " when asked for %" PRIu64,
			      reply->lease.lease, lease->id);
	else if (!err)
		err = lease_publish(lease, &reply->lease);
	else if (err == -ESTALE || err == -ENOENT)
		lease_end(lease);
	/* any other refusal: the old keys stay, and operations tell */
	rekey_finish(lease);
	return err == -EPROTO ? err : 0;
}

void lease_rekey(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	if (lease->rekey) {
		lease->rekey_again = true;
		return;
	}
	if (!list_empty(&lease->rekey_node))
		return;
	session->rekeys++;
	list_append(&session->rekeys_ahead, &lease->rekey_node);
	rekeys_send(session);
}

int lease_attach_undo(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem *session = ctx;
	struct wire_msg request;

	if (err || lease_find(session, reply->lease.lease))
		return 0;
	wire_msg_init(&request, WIRE_TYPE_detach);
	request.detach.lease = reply->lease.lease;
	session_tell(session, &request);
	return 0;
}

/* Nobody wants its keys any more. */
static void rekey_forget(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	if (lease->rekey) {
		session_abandon(session, lease->rekey, lease_attach_undo);
		session->rekeys_sent--;
	} else if (list_empty(&lease->rekey_node)) {
		return;
	}
	list_remove(&lease->rekey_node);
	session->rekeys--;
	rekeys_send(session);
	/* session_keyed() may hold now */
	session_wake(session);
}

static void leases_work(struct rmem *session, uint64_t now_ns)
{
	(void)now_ns;
	/* what is asked for from here on is found, or looked for again */
	if (!atomic_exchange_explicit(&session->leases_due, false,
				      memory_order_acq_rel))
		return;
	list_for_each(node, &session->leases) {
		struct rmem_lease *lease = container_of(node, struct rmem_lease, node);

		superseded_free(lease);
		atomic_device_work(lease);
		if (!lease->rekey && atomic_load(&lease->status) == 0 &&
		    !lease_verified(lease, atomic_load(&lease->asked)))
			lease_rekey(lease);
	}
}

unsigned lease_verify(struct rmem_lease *lease)
{
	unsigned count =
		atomic_fetch_add_explicit(&lease->asked, 1, memory_order_release) + 1;

	leases_want(lease->session);
	session_wake(lease->session);
	return count;
}

bool lease_verified(const struct rmem_lease *lease, unsigned count)
{
	/* the counters wrap */
	return (int)(atomic_load_explicit(&lease->verified, memory_order_acquire) -
		     count) >= 0;
}

void lease_drop(struct rmem_lease *lease)
{
	rekey_forget(lease);
	atomic_device_forget(lease);
	watch_forget(lease);
	lease_leave(lease);
	attachment_free(atomic_load(&lease->attachment));
	free(lease);
}

/* ---- as a layer of the session ---- */

static void leases_rekey(struct rmem *session)
{
	list_for_each(node, &session->leases) {
		struct rmem_lease *lease = container_of(node, struct rmem_lease, node);

		if (atomic_load(&lease->status) == 0)
			lease_rekey(lease);
	}
}

static void leases_state(struct rmem *session)
{
	if (session->state == SESSION_LOST)
		watch_lost(session);
	if (session->state != SESSION_REKEY)
		return;
	watch_resumed(session);
	leases_rekey(session);
}

/* Whether every lease has keys for the endpoint; those of a device that was removed are gone,
 * though there was a channel once. */
static bool endpoint_keyed(const struct rmem *session, unsigned endpoint)
{
	list_for_each(node, &session->leases) {
		struct rmem_lease *lease = container_of(node, struct rmem_lease, node);
		const struct attachment *att =
			atomic_load_explicit(&lease->attachment, memory_order_acquire);

		for (unsigned i = 0;
		     atomic_load(&lease->status) == 0 && i < att->n_segments; i++)
			if ((att->endpoints[i] & (1u << endpoint)) &&
			    !att->keys[i][endpoint].present)
				return false;
	}
	return true;
}

/* After the first channel through an endpoint every lease gets keys for it. */
static void leases_endpoint_opened(struct rmem *session, unsigned endpoint)
{
	if ((session->opened & 1u << endpoint) && endpoint_keyed(session, endpoint))
		return;
	session->opened |= 1u << endpoint;
	leases_rekey(session);
}

static int buffers_register(struct rmem *session, unsigned number)
{
	const struct domain_set *set = &session->domains;
	int err = 0;

	if (!set->ops->needs_local_mr)
		return 0;
	list_for_each(node, &session->buffers) {
		struct rmem_buffer *buffer =
			container_of(node, struct rmem_buffer, node);

		if (!err)
			err = set->ops->reg_mr(set->domains[number].fabric,
					       buffer->addr, (size_t)buffer->bytes,
					       &buffer->mrs[number]);
	}
	return err;
}

static void buffers_deregister(struct rmem *session, unsigned number)
{
	list_for_each(node, &session->buffers) {
		struct rmem_buffer *buffer =
			container_of(node, struct rmem_buffer, node);

		if (buffer->mrs[number])
			session->domains.ops->dereg_mr(buffer->mrs[number]);
		buffer->mrs[number] = NULL;
	}
}

const struct session_observer lease_observer = {
	.state = leases_state,
	.work = leases_work,
	.endpoint_opened = leases_endpoint_opened,
	.domain_opened = buffers_register,
	.domain_closing = buffers_deregister,
};

/* ---- looking at it ---- */

uint64_t rmem_lease_bytes(const rmem_lease *lease)
{
	return atomic_load_explicit(&lease->bytes, memory_order_acquire);
}

uint64_t rmem_lease_id(const rmem_lease *lease)
{
	return lease->id;
}

int rmem_lease_node(const rmem_lease *lease)
{
	return atomic_load_explicit(&lease->numa_node, memory_order_relaxed);
}

/* So many bytes more are on that node; the shares are in the order of their nodes. */
static void layout_add(struct rmem_layout *layout, int node, uint64_t bytes)
{
	unsigned i = layout->nodes;

	while (i > 0 && layout->share[i - 1].node > node)
		i--;
	if (i > 0 && layout->share[i - 1].node == node) {
		layout->share[i - 1].bytes += bytes;
		return;
	}
	memmove(&layout->share[i + 1], &layout->share[i],
		(layout->nodes - i) * sizeof(layout->share[0]));
	layout->share[i].node = node;
	layout->share[i].bytes = bytes;
	layout->nodes++;
}

int rmem_lease_layout(rmem_lease *lease, struct rmem_layout *layout)
{
	struct rmem_layout now = { .size = sizeof(now) };
	const struct attachment *att;

	if (!lease || !layout)
		return err_set(-EINVAL, "rmem_lease_layout: an argument is NULL");
	if (layout->size != sizeof(*layout))
		return err_set(-EINVAL,
			       "rmem_lease_layout: the size of rmem_layout is %zu, not "
			       "%zu",
			       layout->size, sizeof(*layout));
	(void)pthread_mutex_lock(&lease->session->lock);
	/* it cannot be superseded meanwhile */
	att = atomic_load_explicit(&lease->attachment, memory_order_relaxed);
	now.placement = lease->placement;
	now.node = lease->node_asked;
	now.segments = att->n_segments;
	for (unsigned i = 0; i < att->n_segments; i++)
		layout_add(&now, att->nodes[i],
			   att->ends[i] - attachment_start(att, i));
	(void)pthread_mutex_unlock(&lease->session->lock);
	*layout = now;
	return 0;
}

unsigned rmem_lease_rights(const rmem_lease *lease)
{
	return lease->rights;
}

int rmem_lease_status(const rmem_lease *lease)
{
	int status = atomic_load_explicit(&lease->status, memory_order_acquire);
	int session =
		atomic_load_explicit(&lease->session->status, memory_order_acquire);

	return status == 0 && session == -ESTALE ? -ESTALE : status;
}
