/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's insides, and what its loop does: time, signals, news from one part to
 * another, the line for the service manager.  For daemon.c and loop.c alone.
 * Threads: [loop]. */
#ifndef RMEMD_LOOP_H
#define RMEMD_LOOP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "rmemd/admin/admin.h"
#include "rmemd/control/connections.h"
#include "rmemd/control/control.h"
#include "rmemd/control/listener.h"
#include "rmemd/control/session.h"
#include "rmemd/daemon.h"
#include "rmemd/fabrics/fabrics.h"
#include "rmemd/system/fdstore.h"
#include "rmemd/pool/resize.h"

enum { ON_TERM, ON_INT, ON_HUP, N_SIGNALS };

struct daemon {
	struct config config;
	char *config_path; /* NULL: there is none */
	uint64_t started_ms;
	struct event_base *base;
	struct fdstore *keep;
	struct ledger *ledger;
	struct pools *pools;
	struct resizes *resizes;
	struct tenants tenants;
	struct leases *leases;
	struct sessions *sessions;
	struct control control;
	struct fabrics *fabrics;
	struct connections *connections;
	struct listener *listeners[CONFIG_LIST_MAX];
	unsigned n_listeners;
	struct admin_sources sources;
	struct admin *admin;
	struct event *pools_event;
	struct event *signals[N_SIGNALS];
	struct event *tick;
	struct event *given; /* memory to the scrubbers */
	bool tick_looked;    /* at the sockets, before what is due happens */
	struct event *status;
	uint64_t sessions_next_ms; /* what tick is armed for, at the latest */
	bool stopping;
	char status_text[192];
};

/* What the leases and sessions tell of their own accord; ctx is the daemon. */
extern const struct leases_events loop_leases_events;
extern const struct sessions_events loop_sessions_events;

/* Watch time, signals and what comes back from the scrubbers.  -ENOMEM */
int loop_open(struct daemon *daemon);
void loop_close(struct daemon *daemon);
/* How much the pools have to lend. */
void loop_count_memory(struct daemon *daemon);
/* Make daemon->status_text anew; whether it has changed. */
bool loop_describe(struct daemon *daemon);

#endif
