/* SPDX-License-Identifier: BSD-3-Clause */
/* The request `list`.  Few of many leases may have the prefix asked for, so they are searched in
 * slices. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"

/* Leases that are looked at before others get their turn. */
#define LEASES_PER_SLICE 256

/* A search; the first slice is the request's own. */
struct listing {
	struct list link; /* in session->listings */
	struct slice_work work;
	struct session *session;
	uint64_t id;    /* of the request */
	uint64_t after; /* the last lease looked at */
	char prefix[WIRE_NAME_MAX + 1];
	uint64_t found[WIRE_ENTRIES_MAX]; /* ids */
	unsigned n_found;
	bool more;
};

void fill_entry(const struct lease_status *status, struct wire_entry *entry)
{
	*entry = (struct wire_entry){
		.lease = status->id,
		.bytes = status->bytes,
		.age_ms = status->age_ms,
		.ttl_ms = status->ttl_ms,
		.sessions = status->sessions,
		.segments = status->segments,
	};
	(void)snprintf(entry->name, sizeof(entry->name), "%s", status->name);
}

static void listing_free(struct listing *listing)
{
	slices_remove(&listing->work);
	list_remove(&listing->link);
	listing->session->n_requests--;
	free(listing);
}

void listings_cancel(struct session *session)
{
	struct listing *listing;

	while ((listing = list_first(&session->listings, struct listing, link)))
		listing_free(listing);
}

static void listing_go_on(struct listing *listing)
{
	const struct session *session = listing->session;

	slices_add(&session->sessions->control->slices,
		   &session->lease_client.tenant->slices, &listing->work);
}

void listings_go_on(struct session *session)
{
	list_for_each_entry(struct listing, listing, &session->listings, link)
		listing_go_on(listing);
}

static int find_one(const struct lease_status *status, void *arg)
{
	struct listing *listing = arg;

	listing->more = listing->n_found == WIRE_ENTRIES_MAX;
	if (!listing->more)
		listing->found[listing->n_found++] = status->id;
	return listing->more;
}

/* Leases that were found may have ended meanwhile. */
static void listing_fill(const struct listing *listing, struct wire_entries *entries)
{
	const struct leases *leases = listing->session->sessions->control->leases;
	struct lease_status status;

	entries->more = listing->more;
	entries->n_entries = 0;
	for (unsigned i = 0; i < listing->n_found; i++)
		if (leases_find_status(leases, listing->found[i], &status))
			fill_entry(&status, &entries->entries[entries->n_entries++]);
}

static bool listing_work(struct slice_work *work)
{
	struct listing *listing = container_of(work, struct listing, work);
	struct session *session = listing->session;
	struct wire_msg *out = &session->sessions->control->out;

	if (connection_stalled(session->connection))
		return false;
	if (leases_each_named(session->lease_client.tenant, &listing->after,
			      listing->prefix, LEASES_PER_SLICE, find_one,
			      listing) == -EAGAIN)
		return true;
	listing_fill(listing, &out->entries);
	/* a page without entries would be the last one */
	if (listing->more && out->entries.n_entries == 0) {
		listing->n_found = 0;
		return true;
	}
	out->type = WIRE_TYPE_entries;
	out->id = listing->id;
	listing_free(listing);
	connection_send(session->connection, out);
	return false;
}

int handle_list(struct session *session, const struct wire_msg *msg, struct wire_msg *)
{
	struct listing *listing;

	if (session->n_requests == REQUESTS_MAX)
		return err_set(-EDQUOT, "%d requests of this session wait already",
			       REQUESTS_MAX);
	listing = malloc(sizeof(*listing));
	if (!listing)
		return err_set(-ENOMEM, "no memory for a request");
	*listing = (struct listing){ .session = session,
				     .id = msg->id,
				     .after = msg->list.after };
	(void)snprintf(listing->prefix, sizeof(listing->prefix), "%s",
		       msg->list.prefix);
	slice_work_init(&listing->work, listing_work);
	list_append(&session->listings, &listing->link);
	session->n_requests++;
	if (listing_work(&listing->work))
		listing_go_on(listing);
	return HANDLER_LATER;
}
