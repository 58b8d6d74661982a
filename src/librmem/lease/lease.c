/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/lease.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/modular.h"
#include "librmem/channel/device_recovery.h"
#include "librmem/session/session.h"
#include "librmem/lease/inflight.h"
#include "base/params.h"
#include "wire/codec.h"

/* Calls of queues are far shorter. */
#define FREE_STEP_NS NS_PER_MS

void lease_table_init(struct lease_table *table)
{
	*table = (struct lease_table){
		.notice_fd = -1,
		.free_ns = UINT64_MAX,
		.give_back_ns = UINT64_MAX,
		.generation = 1,
	};
	list_init(&table->all);
	list_init(&table->unwanted);
	notices_init(&table->notices);
	list_init(&table->rekeys_outstanding);
	list_init(&table->rekeys_held);
	list_init(&table->superseded);
	list_init(&table->work);
	list_init(&table->inflights);
	map_init(&table->by_id);
}

/* Free older attachments that no queue can read any more, or look again soon.  The first was
 * replaced first: if a call may still read it, it may read the others too. */
static void superseded_free(struct rmem *session)
{
	struct lease_table *table = session->leases;
	struct rmem_lease *lease;

	table->free_ns = UINT64_MAX;
	while ((lease = list_first(&table->superseded, struct rmem_lease,
				   superseded))) {
		struct attachment *attachment = lease_attachment(lease);

		if (attachments_read(session, attachment->generation)) {
			table->free_ns = clock_now_ns() + FREE_STEP_NS;
			return;
		}
		attachment_free(attachment->older);
		attachment->older = NULL;
		list_remove(&lease->superseded);
		if (!list_empty(&lease->rekey_node))
			list_move(&table->rekeys_outstanding, &lease->rekey_node);
	}
}

/* Queues read the attachment from now on. */
static void attachment_publish(struct rmem_lease *lease, struct attachment *attachment)
{
	struct lease_table *table = lease->session->leases;

	attachment->generation = table->generation + 1;
	attachment->older = lease_attachment(lease);
	atomic_store_explicit(&lease->attachment, attachment, memory_order_release);
	atomic_store_explicit(&lease->bytes, attachment->bytes, memory_order_release);
	attachments_published(lease->session, attachment->generation);
	if (!attachment->older)
		return;
	list_move(&table->superseded, &lease->superseded);
	superseded_free(lease->session);
}

int lease_publish(struct rmem_lease *lease, const struct wire_lease *answer)
{
	struct attachment *old = lease_attachment(lease);
	struct attachment *attachment;
	int err = attachment_create(answer, &lease->session->endpoint_map, &attachment);

	if (err)
		return err;
	atomic_store_explicit(&lease->numa_node,
			      answer->n_segments > 0 ? answer->segments[0].node
						     : RMEM_NODE_ANY,
			      memory_order_relaxed);
	lease->placement = (enum rmem_placement)answer->placement;
	lease->node_asked = answer->node;
	lease_name_set(lease, answer->name);
	if (old && attachment_equal(attachment, old)) {
		attachment_free(attachment);
		return 0;
	}
	attachment_publish(lease, attachment);
	return 0;
}

void lease_end(struct rmem_lease *lease, enum rmem_reason reason)
{
	if (lease_ended(lease)) {
		/* an attach request was refused before the event came */
		if (atomic_load(&lease->reason) == RMEM_REASON_UNKNOWN)
			atomic_store(&lease->reason, reason);
		return;
	}
	atomic_store_explicit(&lease->reason, reason, memory_order_relaxed);
	lease_move(lease, LEASE_STEP_END);
	(void)keep_stop(lease);
	watch_ended(lease);
	SESSION_NOTIFY(lease->session, wake, lease->session);
}

struct rmem_lease *lease_find(struct rmem *session, uint64_t id)
{
	struct map_node *node = map_find(&session->leases->by_id, map_hash_u64(id));

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

	if (map_insert(&session->leases->by_id, &lease->by_id, map_hash_u64(lease->id)))
		return err_set(-ENOMEM, "no memory for a lease's handle");
	lease_move(lease, LEASE_STEP_GRANT);
	lease->known = true;
	list_append(&session->leases->all, &lease->node);
	list_init(&lease->superseded);
	list_init(&lease->work);
	atomic_store_explicit(&lease->may_want, true, memory_order_release);
	return 0;
}

/* Events do not find the lease any more. */
static void lease_forget(struct rmem_lease *lease)
{
	if (lease->known)
		map_remove(&lease->session->leases->by_id, &lease->by_id);
	lease->known = false;
}

void lease_replace(struct rmem *session, uint64_t id)
{
	struct rmem_lease *lease = lease_find(session, id);

	if (!lease)
		return;
	lease_end(lease, RMEM_REASON_FREED);
	lease_forget(lease);
}

/* ---- attaching again ---- */

static connection_done rekey_done;
static void lease_rekey(struct rmem_lease *lease);
static void lease_check(struct rmem_lease *lease);

static void rekey_uncount(struct rmem_lease *lease)
{
	lease->session->rekeys -= lease->counted;
	lease->counted = false;
}

static int rekey_send(struct rmem_lease *lease)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_attach);
	lease->rekey_again = false;
	lease->counted_sent = lease->counted;
	lease->asking = atomic_load_explicit(&lease->asked, memory_order_acquire);
	request.attach.lease = lease->id;
	request.attach.reach = recovery_reach(lease->session);
	return connection_call(lease->session->connection, &request, rekey_done, lease,
			       &lease->rekey);
}

/* Send attach requests up to the limit; not for a lease that has an older attachment, or a server
 * that changes keys without end would fill the memory during one call of a queue. */
static void rekeys_send(struct rmem *session)
{
	struct lease_table *table = session->leases;
	struct rmem_lease *lease;

	while (table->rekeys_sent < REKEYS_MAX &&
	       (lease = list_first(&table->rekeys_outstanding, struct rmem_lease,
				   rekey_node))) {
		if (lease_ended(lease)) {
			list_remove(&lease->rekey_node);
			rekey_uncount(lease);
		} else if (lease_attachment(lease)->older) {
			list_move(&table->rekeys_held, &lease->rekey_node);
		} else if (rekey_send(lease) == 0) {
			list_remove(&lease->rekey_node);
			table->rekeys_sent++;
		} else {
			/* leases_work() tries again */
			return;
		}
	}
}

static void rekey_finish(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;
	bool again = lease->rekey_again && !lease_ended(lease);

	assert(session->leases->rekeys_sent > 0 && list_empty(&lease->rekey_node));
	lease->rekey = NULL;
	session->leases->rekeys_sent--;
	/* a lease that changes all the time holds nobody up */
	if (lease->counted_sent || !again)
		rekey_uncount(lease);
	if (again)
		lease_rekey(lease);
	else
		atomic_store_explicit(&lease->verified, lease->asking,
				      memory_order_release);
	/* the answer does not cover a check that was asked for after the request was sent */
	lease_check(lease);
	rekeys_send(session);
	SESSION_NOTIFY(session, wake, session);
}

static int rekey_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;
	const struct rmem *session = lease->session;
	bool answered = !err;

	if (!err && reply->lease.lease != lease->id)
		err = err_set(-EPROTO,
			      "the server answers for lease %" PRIu64
			      " when asked for %" PRIu64,
			      reply->lease.lease, lease->id);
	else if (!err)
		err = lease_publish(lease, &reply->lease);
	else if ((err == -ESTALE || err == -ENOENT) && session->state != SESSION_LOST)
		lease_end(lease, RMEM_REASON_UNKNOWN);
	/* any other error: the old rkeys stay, and operations report it; of a lost session
	 * the request ends in -ESTALE, and the lease may live on */
	atomic_store_explicit(&lease->rekey_err, err, memory_order_relaxed);
	rekey_finish(lease);
	return answered && err == -EPROTO ? err : 0;
}

/* Attach the lease again for new rkeys; the queues are woken after the answer. */
static void lease_rekey(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	if (lease->rekey) {
		lease->rekey_again = true;
		return;
	}
	if (!list_empty(&lease->rekey_node))
		return;
	list_append(&session->leases->rekeys_outstanding, &lease->rekey_node);
	rekeys_send(session);
}

/* Attach the lease again if a queue has asked for that, and no request is under way. */
static void lease_check(struct rmem_lease *lease)
{
	if (!lease->rekey && !lease_ended(lease) &&
	    !lease_verified(lease, atomic_load(&lease->asked)))
		lease_rekey(lease);
}

/* Forget the attach request before the handle is freed. */
static void rekey_abandon(struct rmem_lease *lease)
{
	struct rmem *session = lease->session;

	if (lease->rekey) {
		/* it attaches nothing that would have to be detached */
		(void)connection_abandon(lease->rekey, NULL, NULL);
		session->leases->rekeys_sent--;
	} else if (list_empty(&lease->rekey_node)) {
		return;
	}
	list_remove(&lease->rekey_node);
	rekey_uncount(lease);
	rekeys_send(session);
	/* session->rekeys may be 0 now, which ends SESSION_REKEY */
	session_wake(session);
}

/* ---- the atomic device ---- */

static void atomic_device_set(struct rmem_lease *lease,
			      const struct wire_atomic_device *answer)
{
	const struct wire_welcome *welcome = &lease->session->welcome;
	struct atomic_device *atomic_device = &lease->atomic_device;

	for (unsigned i = 0; i < welcome->n_endpoints; i++)
		if (welcome->endpoints[i].fabric == answer->fabric &&
		    strcmp(welcome->endpoints[i].device, answer->device) == 0)
			atomic_device->endpoints |= 1u << i;
	(void)snprintf(atomic_device->text, sizeof(atomic_device->text),
		       "the atomic device of the lease is %s%s, and this queue has no "
		       "channel there",
		       answer->fabric == WIRE_FABRIC_TCP ? "tcp"
							 : "the server's RDMA device ",
		       answer->device);
	atomic_store_explicit(&atomic_device->state, ATOMIC_DEVICE_KNOWN,
			      memory_order_release);
}

static int atomic_device_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;
	struct atomic_device *atomic_device = &lease->atomic_device;

	atomic_device->call = NULL;
	/* before `state` changes: a queue that sees the state must also see `woken`, see
	 * endpoints_atomic() */
	SESSION_NOTIFY(lease->session, wake, lease->session);
	if (err) {
		atomic_device->err = err;
		(void)snprintf(atomic_device->text, sizeof(atomic_device->text), "%.*s",
			       ATOMIC_DEVICE_TEXT_BYTES - 1, err_text());
		atomic_store_explicit(&atomic_device->state, ATOMIC_DEVICE_REFUSED,
				      memory_order_release);
	} else {
		atomic_device_set(lease, &reply->atomic_device);
	}
	return 0;
}

/* Ask the server, if a queue wants that and nobody has asked; not through an endpoint that is away:
 * it may be back when the session resumes.  -errno: the request cannot be sent now. */
static int atomic_device_ask(struct rmem_lease *lease)
{
	struct atomic_device *atomic_device = &lease->atomic_device;
	const struct endpoint_map *map = &lease->session->endpoint_map;
	unsigned wanted =
		atomic_load_explicit(&atomic_device->wanted, memory_order_acquire);
	struct wire_msg request;

	if (wanted == 0 || atomic_device->call ||
	    atomic_load(&atomic_device->state) != ATOMIC_DEVICE_UNKNOWN ||
	    !endpoint_is_present(map, wanted - 1))
		return 0;
	wire_msg_init(&request, WIRE_TYPE_fix_atomic_device);
	request.fix_atomic_device.lease = lease->id;
	request.fix_atomic_device.endpoint = map->index[wanted - 1];
	return connection_call(lease->session->connection, &request, atomic_device_done,
			       lease, &atomic_device->call);
}

/* ---- due work ---- */

void lease_want(struct rmem_lease *lease)
{
	struct lease_table *table = lease->session->leases;

	/* what the caller wants was stored before: wants_take(), which allows the next one, sees
	 * it */
	if (atomic_exchange_explicit(&lease->may_want, false, memory_order_acq_rel)) {
		lease->next_want =
			atomic_load_explicit(&table->wants, memory_order_relaxed);
		while (!atomic_compare_exchange_weak_explicit(
			&table->wants, &lease->next_want, lease, memory_order_release,
			memory_order_relaxed))
			;
	}
	session_wake(lease->session);
}

/* Move the leases that queues have enlisted to `work`. */
static void wants_take(struct lease_table *table)
{
	struct rmem_lease *lease =
		atomic_exchange_explicit(&table->wants, NULL, memory_order_acquire);

	while (lease) {
		struct rmem_lease *next = lease->next_want;

		list_move(&table->work, &lease->work);
		(void)atomic_exchange_explicit(&lease->may_want, true,
					       memory_order_acq_rel);
		lease = next;
	}
}

static void leases_work(struct rmem *session, uint64_t now_ns)
{
	struct lease_table *table = session->leases;
	struct rmem_lease *lease;

	keeps_work(session, now_ns);
	give_backs_work(session, now_ns);
	superseded_free(session);
	wants_take(table);
	while ((lease = list_first(&table->work, struct rmem_lease, work))) {
		lease_check(lease);
		/* the next call of this function tries again */
		if (atomic_device_ask(lease))
			break;
		list_remove(&lease->work);
	}
	rekeys_send(session);
}

static uint64_t leases_due(const struct rmem *session)
{
	const struct lease_table *table = session->leases;
	uint64_t due_ns = keeps_due(session);

	if (table->free_ns < due_ns)
		due_ns = table->free_ns;
	if (give_backs_due(session) < due_ns)
		due_ns = give_backs_due(session);
	return due_ns;
}

unsigned lease_verify(struct rmem_lease *lease)
{
	unsigned count =
		atomic_fetch_add_explicit(&lease->asked, 1, memory_order_release) + 1;

	lease_want(lease);
	return count;
}

/* The counters may wrap. */
MODULAR bool lease_verified(const struct rmem_lease *lease, unsigned count)
{
	return (int)(atomic_load_explicit(&lease->verified, memory_order_acquire) -
		     count) >= 0;
}

/* Take the handle out of all lists, and free what it has. */
static void lease_clear(struct rmem_lease *lease)
{
	call_line_end(&lease->line);
	rekey_abandon(lease);
	if (lease->atomic_device.call)
		(void)connection_abandon(lease->atomic_device.call, NULL, NULL);
	keep_abandon(lease);
	watch_cancel(lease);
	if (lease->ending)
		(void)connection_abandon(lease->ending, NULL, NULL);
	lease->ending = NULL;
	lease_forget(lease);
	list_remove(&lease->node);
	/* it may be among them */
	wants_take(lease->session->leases);
	list_remove(&lease->work);
	list_remove(&lease->superseded);
	attachment_free(lease_attachment(lease));
	lease_name_set(lease, "");
}

void lease_drop(struct rmem_lease *lease)
{
	lease_clear(lease);
	lease_handle_free(lease);
}

void lease_undo(struct rmem_lease *lease, unsigned flags)
{
	if (--lease->references > 0)
		return;
	lease_clear(lease);
	if (lease->state == LEASE_USED)
		lease_give_back(lease, lease->id, flags);
	else
		lease_handle_free(lease);
}

void leases_destroy(struct rmem *session)
{
	struct lease_table *table = session->leases;

	(void)pthread_mutex_lock(&session->lock);
	list_for_each_entry_safe(struct rmem_lease, lease, &table->all, node)
		lease_drop(lease);
	give_backs_drop(table);
	assert(!session->rekeys && !table->rekeys_sent && !table->keeps_sent);
	map_destroy(&table->by_id);
	notices_close(&table->notices);
	watch_fd_close(session);
	(void)pthread_mutex_unlock(&session->lock);
}

/* ---- as a layer of the session ---- */

static void leases_rekey(struct rmem *session)
{
	list_for_each_entry(struct rmem_lease, lease, &session->leases->all, node) {
		if (atomic_load(&lease->status) != 0)
			continue;
		session->rekeys += !lease->counted;
		lease->counted = true;
		lease_rekey(lease);
	}
}

static void leases_state(struct rmem *session)
{
	if (session->state == SESSION_LOST)
		list_for_each_entry(struct rmem_lease, lease, &session->leases->all,
				    node)
			watch_ended(lease);
	/* channels have ended with the server's side of the session */
	if (session->state != SESSION_REKEY && session->state != SESSION_UP)
		session->leases->opened = 0;
	if (session->state == SESSION_UP)
		keeps_resumed(session);
	if (session->state != SESSION_REKEY)
		return;
	list_for_each_entry(struct rmem_lease, lease, &session->leases->all, node) {
		watch_resumed(lease);
		/* endpoints may be back */
		list_move(&session->leases->work, &lease->work);
	}
	leases_rekey(session);
}

static void leases_notified(struct rmem *session, const struct wire_notified *msg)
{
	struct rmem_lease *lease = NULL;

	for (unsigned i = 0; i < msg->n_notices; i++) {
		if (!lease || lease->id != msg->notices[i].lease)
			lease = lease_find(session, msg->notices[i].lease);
		if (lease)
			watch_notified(lease, &msg->notices[i]);
	}
}

/* Later servers may have other reasons. */
static enum rmem_reason reason_from_wire(unsigned reason)
{
	switch (reason) {
	case WIRE_REASON_EXPIRED:
		return RMEM_REASON_EXPIRED;
	case WIRE_REASON_REVOKED:
		return RMEM_REASON_REVOKED;
	case WIRE_REASON_REPLACED:
		return RMEM_REASON_REPLACED;
	case WIRE_REASON_UNSHARED:
		return RMEM_REASON_UNSHARED;
	default:
		return RMEM_REASON_FREED;
	}
}

static void leases_event(struct rmem *session, const struct wire_msg *msg)
{
	struct rmem_lease *lease = NULL;

	switch (msg->type) {
	case WIRE_TYPE_revoked:
		lease = lease_find(session, msg->revoked.lease);
		if (lease)
			lease_end(lease, reason_from_wire(msg->revoked.reason));
		break;
	case WIRE_TYPE_changed:
		lease = lease_find(session, msg->changed.lease);
		if (lease)
			lease_rekey(lease);
		break;
	case WIRE_TYPE_shrinking:
		lease = lease_find(session, msg->shrinking.lease);
		if (lease && !lease_ended(lease))
			watch_wanted(lease, &msg->shrinking);
		break;
	case WIRE_TYPE_notified:
		leases_notified(session, &msg->notified);
		break;
	default:
		break;
	}
}

/* Whether every lease has rkeys for the endpoint.  After a channel was open, rkeys of a removed
 * device may be missing again. */
static bool endpoint_keyed(const struct rmem *session, unsigned endpoint)
{
	list_for_each_entry(struct rmem_lease, lease, &session->leases->all, node) {
		const struct attachment *att = lease_attachment(lease);

		for (unsigned i = 0;
		     atomic_load(&lease->status) == 0 && i < att->n_segments; i++)
			if ((att->endpoints[i] & (1u << endpoint)) &&
			    !att->keys[i][endpoint].present)
				return false;
	}
	return true;
}

/* After the first channel to an endpoint, every lease gets rkeys for that endpoint. */
static void leases_endpoint_opened(struct rmem *session, unsigned endpoint)
{
	if ((session->leases->opened & 1u << endpoint) &&
	    endpoint_keyed(session, endpoint))
		return;
	session->leases->opened |= 1u << endpoint;
	leases_rekey(session);
}

static void leases_inherited(struct rmem *session)
{
	lease_names_reset();
	list_for_each_entry(struct rmem_lease, lease, &session->leases->all, node) {
		if (lease_ended(lease))
			continue;
		atomic_store(&lease->reason, RMEM_REASON_LOST);
		lease_move(lease, LEASE_STEP_END);
	}
	watch_fd_close(session);
}

const struct session_observer lease_observer = {
	.inherited = leases_inherited,
	.state = leases_state,
	.event = leases_event,
	.work = leases_work,
	.due = leases_due,
	.endpoint_opened = leases_endpoint_opened,
};

/* ---- looking at a lease ---- */

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

/* Add bytes to the share of a node; the shares are sorted by node. */
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
	struct rmem_layout now = { .nodes = 0 };
	const struct attachment *att;

	if (!lease || !layout)
		return err_set(-EINVAL, "rmem_lease_layout: an argument is NULL");
	if (session_own(lease->session))
		return lease_error(lease, -ESTALE, "rmem_lease_layout");
	(void)pthread_mutex_lock(&lease->session->lock);
	/* under the lock, the attachment cannot be replaced */
	att = lease_attachment(lease);
	now.placement = lease->placement;
	now.node = lease->node_asked;
	now.segments = att->n_segments;
	for (unsigned i = 0; i < att->n_segments; i++)
		layout_add(&now, att->nodes[i],
			   att->ends[i] - attachment_start(att, i));
	(void)pthread_mutex_unlock(&lease->session->lock);
	return err_end(params_export(layout, &now, sizeof(now),
				     PARAMS_UP_TO(struct rmem_layout, share),
				     "rmem_lease_layout: rmem_layout"));
}

unsigned rmem_lease_rights(const rmem_lease *lease)
{
	return lease->rights;
}

int rmem_lease_status(const rmem_lease *lease)
{
	return lease_status(lease);
}
