/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/atomic_device.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/queue.h"
#include "librmem/session/session.h"

static bool is_there(const struct wire_endpoint *endpoint,
		     const struct wire_home *atomic_device)
{
	return endpoint->fabric == atomic_device->fabric &&
	       strcmp(endpoint->device, atomic_device->device) == 0;
}

static void atomic_device_set(struct rmem_lease *lease, const struct wire_home *answer)
{
	const struct wire_welcome *welcome = &lease->session->welcome;
	struct atomic_device *atomic_device = &lease->atomic_device;

	for (unsigned i = 0; i < welcome->n_endpoints; i++)
		if (is_there(&welcome->endpoints[i], answer))
			atomic_device->endpoints |= 1u << i;
	(void)snprintf(atomic_device->text, sizeof(atomic_device->text),
		       "the atomic home of the lease is %s%s, and this queue has no "
		       "channel there",
		       answer->fabric == WIRE_FABRIC_TCP ? "tcp"
							 : "the server's RDMA device ",
		       answer->device);
	atomic_store_explicit(&atomic_device->state, HOME_KNOWN, memory_order_release);
}

static int atomic_device_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem_lease *lease = ctx;
	struct atomic_device *atomic_device = &lease->atomic_device;

	atomic_device->call = NULL;
	/* a queue that sees the state must see that there is news, too: endpoints_atomic() */
	SESSION_NOTIFY(lease->session, wake, lease->session);
	if (err) {
		atomic_device->err = err;
		(void)snprintf(atomic_device->text, sizeof(atomic_device->text), "%.*s",
			       HOME_TEXT_BYTES - 1, err_text());
		atomic_store_explicit(&atomic_device->state, HOME_REFUSED,
				      memory_order_release);
	} else {
		atomic_device_set(lease, &reply->home);
	}
	return 0;
}

void atomic_device_work(struct rmem_lease *lease)
{
	struct atomic_device *atomic_device = &lease->atomic_device;
	unsigned wanted =
		atomic_load_explicit(&atomic_device->wanted, memory_order_acquire);
	struct wire_msg *request;

	if (wanted == 0 || atomic_device->call ||
	    atomic_load(&atomic_device->state) != HOME_UNKNOWN)
		return;
	/* where it cannot be asked for, it is at the next occasion: look again */
	leases_want(lease->session);
	request = calloc(1, sizeof(*request));
	if (!request)
		return;
	request->type = WIRE_TYPE_fix_home;
	request->fix_home.lease = lease->id;
	request->fix_home.endpoint = (uint8_t)(wanted - 1);
	(void)connection_call(lease->session->connection, request, atomic_device_done,
			      lease, &atomic_device->call);
	free(request);
}

void atomic_device_forget(struct rmem_lease *lease)
{
	if (lease->atomic_device.call)
		session_abandon(lease->session, lease->atomic_device.call, NULL);
	lease->atomic_device.call = NULL;
}
