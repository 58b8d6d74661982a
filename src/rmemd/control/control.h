/* SPDX-License-Identifier: BSD-3-Clause */
/* The control plane: sessions, leases and their timers, over the caller's pools, ledger and fabric
 * servers; and the state that its parts share.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_CONTROL_H
#define RMEMD_CONTROL_CONTROL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "rmemd/config/config.h"
#include "rmemd/control/drain.h"
#include "rmemd/control/endpoints.h"
#include "rmemd/control/refusal.h"
#include "rmemd/lease/lease.h"
#include "rmemd/lease/tenant.h"
#include "rmemd/loop/slices.h"
#include "rmemd/loop/turn.h"
#include "wire/msg.h"

struct connections;
struct fdstore;
struct ledger;
struct resizes;
struct sessions;
struct tls_context;

struct control_counters {
	uint64_t connections;
	uint64_t connections_refused;
	uint64_t refused[REFUSALS]; /* by reason */
	uint64_t requests;
	uint64_t requests_failed; /* sum of requests_refused */
	uint64_t requests_refused[REQUEST_REFUSALS];
	uint64_t sessions_opened;
	uint64_t sessions_fenced;
	uint64_t sessions_resumed;
	uint64_t channels_refused;
	uint64_t admin_views_refused; /* requests over the admin socket */
	uint64_t admin_acts_refused;
	/* HTTP: connections that sent more than is read, requests to names of others */
	uint64_t http_refused;
};

struct control {
	/* Set by the user; borrowed. */
	struct event_base *base;
	const struct config *config; /* after a change call control_reload() */
	struct tenants *tenants;
	struct ledger *ledger;   /* outlasts the process */
	struct fdstore *fdstore; /* where pools outlast it */
	uint64_t first_id;       /* of the next session, and of the next lease */
	/* The daemon is drained: stop it. */
	void (*drained)(void *user);
	void *user;

	struct tls_context *tls; /* NULL: auth = none */
	struct turn turn;        /* measured by the user */
	struct slices slices;
	struct endpoints endpoints;
	/* Endpoints of pools that are not lent through all endpoints, a bit each. */
	unsigned sole;
	struct pools *pools; /* borrowed */
	struct resizes *resizes;
	struct leases *leases;
	struct sessions *sessions;
	struct connections *connections;
	struct drain drain;
	/* Sessions for which there are descriptors; 0: not known. */
	uint32_t sessions_fit;
	unsigned newcomers_max;          /* connections that may wait for a slot */
	uint64_t memory_bytes;           /* of all pools */
	char server[WIRE_LABEL_MAX + 1]; /* the name of this host for clients */
	struct control_counters counters;
	/* Too large for the stack; in use while a frame is handled or an answer is sent. */
	struct wire_msg in, out;

	/* Timers. */
	struct event *tick;
	bool tick_polled; /* one turn of the loop has read the sockets; timers are next */
	uint64_t sessions_next_ms;
	struct event *slices_event;
	struct event *freed_timer; /* hands freed memory to the scrubbers */
	struct event *pools_event;
};

/* Begin a message in control->out; id 0: an event. */
static inline struct wire_msg *control_message(struct control *control,
					       enum wire_type type, uint64_t id)
{
	control->out.type = type;
	control->out.id = id;
	return &control->out;
}

/* After the user's members are set: listener_open() and endpoints_serve() may follow.  -ENOMEM */
int control_open(struct control *control);
/* Lend `pools`, borrowed, through the endpoints served now; restore the sessions and leases of the
 * ledger.
 *   -EBADMSG, -EINVAL  a record of the ledger is malformed, or outside the pools
 *   -ENOMEM */
int control_start(struct control *control, struct pools *pools);
/* The configuration has changed. */
void control_reload(struct control *control);
/* Tell all clients that the server stops, and close all connections: connections_drained().
 * back: clients may resume, as the next process restores their sessions. */
void control_stop(struct control *control, bool back);
/* Also after control_open() or control_start() has failed.  The caller has closed the listeners;
 * pools and ledger keep their contents. */
void control_close(struct control *control);

#endif
