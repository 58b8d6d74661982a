/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases that the server has granted when their caller had gone: nobody will ever detach them, so
 * the thread that drives the session does, until the server says that they are gone. */
#include "librmem/lease/lease.h"

#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

/* Between a refusal and the next attempt. */
#define AGAIN_NS (100 * NS_PER_MS)

static void give_back_later(struct rmem *session)
{
	session->leases->give_back_ns = clock_now_ns() + AGAIN_NS;
}

static int given_back(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;

	(void)reply;
	lease->ending = NULL;
	if (err && err != -ESTALE && err != -ENOENT) {
		give_back_later(lease->session);
		return 0;
	}
	list_remove(&lease->node);
	lease->session->leases->n_unwanted--;
	assert(list_empty(&lease->session->leases->unwanted) ==
	       !lease->session->leases->n_unwanted);
	lease_handle_free(lease);
	return 0;
}

static void give_back_send(struct rmem_lease *lease)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_detach);
	request.detach.lease = lease->id;
	request.detach.flags = lease->detach_flags;
	if (connection_call(lease->session->connection, &request, given_back, lease,
			    &lease->ending))
		give_back_later(lease->session);
}

void lease_give_back(struct rmem_lease *handle, uint64_t id, unsigned flags)
{
	lease_move(handle, LEASE_STEP_LATE);
	handle->id = id;
	handle->detach_flags = flags;
	list_append(&handle->session->leases->unwanted, &handle->node);
	handle->session->leases->n_unwanted++;
	give_back_send(handle);
}

int give_backs_check(const struct rmem *session)
{
	if (session->leases->n_unwanted < UNWANTED_MAX)
		return 0;
	return err_set(-ETIMEDOUT,
		       "the server has not taken back %u leases that it granted too "
		       "late: it is asked for no more",
		       session->leases->n_unwanted);
}

uint64_t give_backs_due(const struct rmem *session)
{
	return session->state == SESSION_LOST ? UINT64_MAX
					      : session->leases->give_back_ns;
}

void give_backs_work(struct rmem *session, uint64_t now_ns)
{
	struct lease_table *table = session->leases;

	if (now_ns < give_backs_due(session))
		return;
	table->give_back_ns = UINT64_MAX;
	list_for_each_entry(struct rmem_lease, lease, &table->unwanted, node)
		if (!lease->ending)
			give_back_send(lease);
}

void give_backs_drop(struct lease_table *table)
{
	list_for_each_entry_safe(struct rmem_lease, lease, &table->unwanted, node) {
		if (lease->ending)
			(void)connection_abandon(lease->ending, NULL, NULL);
		list_remove(&lease->node);
		lease_handle_free(lease);
	}
}
