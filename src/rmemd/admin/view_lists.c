/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists that are sent in pages. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "rmemd/admin/admin.h"
#include "rmemd/admin/filter.h"
#include "rmemd/admin/view.h"
#include "rmemd/admin/view_member.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"
#include "rmemd/lease/origin.h"
#include "rmemd/lease/share.h"
#include "rmemd/system/recent.h"

/* Items that a page looks at, whether or not the filter lets them pass; one whose name is compared
 * with a pattern counts for several. */
#define SEEN_MAX 256
#define SEEN_BY_PATTERN 8
/* Attachments whose traffic takes as long to add up as to look at an item. */
#define KEYS_PER_SEEN 4

/* ---- pages ---- */

static int body_write(const char *text, size_t bytes, void *ctx)
{
	return evbuffer_add(ctx, text, bytes);
}

static void page_fail(struct view_page *page)
{
	page->err = -ENOMEM;
}

static void page_text(struct view_page *page, const char *text)
{
	if (evbuffer_add(page->body, text, strlen(text)))
		page_fail(page);
}

/* Takes the JSON over; NULL: no memory. */
static void page_json(struct view_page *page, json_t *json, size_t flags)
{
	if (!json ||
	    json_dump_callback(json, body_write, page->body, JSON_COMPACT | flags))
		page_fail(page);
	json_decref(json);
	page->rows++;
}

static bool page_full(const struct view_page *page)
{
	return page->err || page->rows >= VIEW_PAGE_ITEMS || page->seen >= SEEN_MAX;
}

/* The item with this id is next. */
static void page_look(struct view_page *page, uint64_t id)
{
	page->after = id;
	page->seen += *page->filter->name ? SEEN_BY_PATTERN : 1;
}

static void page_begin_item(struct view_page *page)
{
	if (page->any)
		page_text(page, ",");
	page->any = true;
}

static void traffic_view(json_t **object, struct fabric_mr_traffic traffic)
{
	view_number(object, "tcp_operations", traffic.operations);
	view_number(object, "tcp_bytes", traffic.bytes);
}

/* ---- /v1/sessions ---- */

/* Of the endpoints where it has, or had, a channel; "" before the first one. */
static const char *session_fabrics(const struct lease_client *client)
{
	bool kinds[FABRIC_VERBS + 1] = { false };

	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		if (client->ports[i].session)
			kinds[client->ports[i].ops->kind] = true;
	if (kinds[FABRIC_VERBS])
		return kinds[FABRIC_TCP] ? "rdma,tcp" : "rdma";
	return kinds[FABRIC_TCP] ? "tcp" : "";
}

static json_t *session_view(const struct session *session)
{
	const struct lease_client *client = &session->lease_client;
	uint64_t now_ms = clock_now_ms();
	json_t *object = json_object();

	view_id(&object, "id", client->id);
	view_text(&object, "tenant", client->tenant->name);
	view_text(&object, "client", session->client);
	view_text(&object, "peer", session->address);
	view_text(&object, "state",
		  session->state == WIRE_SESSION_ACTIVE ? "active" : "fenced");
	view_text(&object, "fabric", session_fabrics(client));
	view_text(&object, "auth", session->auth ? session->auth : "");
	view_number(&object, "age_ms", now_ms - session->opened_ms);
	view_number(&object, "idle_ms", now_ms - session->heard_ms);
	view_number(&object, "channels", session->n_connected);
	view_number(&object, "leases", client->n_attachments);
	view_number(&object, "keys", client->n_keys);
	view_number(&object, "watches", client->n_watches);
	view_number(&object, "notices", client->notices.n);
	view_number(&object, "lent_bytes", client->lent_bytes);
	view_number(&object, "resumes", session->resumes);
	traffic_view(&object, lease_client_traffic(client));
	return object;
}

static bool session_matches(const struct session *session, const struct filter *filter)
{
	const struct lease_client *client = &session->lease_client;

	return (!filter->session || client->id == filter->session) &&
	       filter_tenant(filter, client->tenant->name) &&
	       filter_older(filter, clock_now_ms() - session->opened_ms) &&
	       filter_name(filter, session->client);
}

static int session_add(const struct session *session, void *arg)
{
	struct view_page *page = arg;

	page_look(page, session->lease_client.id);
	if (session_matches(session, page->filter)) {
		page->seen += session->lease_client.n_attachments / KEYS_PER_SEEN;
		page_begin_item(page);
		page_json(page, session_view(session), 0);
	}
	return page_full(page);
}

bool view_sessions(const struct admin_sources *from, struct view_page *page)
{
	return sessions_each(from->control->sessions, page->after, session_add, page) !=
	       0;
}

/* ---- /v1/leases ---- */

static json_t *lease_nodes_view(const struct lease_status *lease)
{
	struct lease_part parts[WIRE_SEGMENTS_MAX];
	unsigned n = lease_parts(lease, parts);
	json_t *array = json_array();

	for (unsigned i = 0; i < n; i++) {
		json_t *object = json_object();

		view_optional(&object, "node", parts[i].node);
		view_number(&object, "bytes", parts[i].bytes);
		view_append(&array, object);
	}
	return array;
}

static const char *rights_name(unsigned rights)
{
	return rights & WIRE_RIGHT_WRITE ? "read-write" : "read";
}

/* "TENANT:read" or "TENANT:read-write" of each. */
static json_t *lease_shares_view(const struct lease_status *lease)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < lease->n_shares; i++)
		view_append(&array, json_sprintf("%s:%s", lease->shares[i].tenant,
						 rights_name(lease->shares[i].rights)));
	return array;
}

/* NULL: null */
static json_t *creator_view(const struct origin *creator)
{
	json_t *object;

	if (!creator)
		return json_null();
	object = json_object();
	view_id(&object, "session", creator->session);
	view_text(&object, "client", creator->client);
	view_text(&object, "peer", creator->peer);
	return object;
}

static json_t *lease_view(const struct lease_status *lease)
{
	static const char *const placements[] = {
		[WIRE_PLACE_NODE] = "node",
		[WIRE_PLACE_DEVICE] = "device",
		[WIRE_PLACE_INTERLEAVE] = "interleave",
	};
	json_t *object = json_object();

	view_id(&object, "id", lease->id);
	view_text(&object, "name", lease->name[0] ? lease->name : NULL);
	view_text(&object, "tenant", lease->tenant);
	view_id(&object, "owner", lease->owner);
	view_add(&object, "creator", creator_view(lease->creator));
	view_text(&object, "state", lease->ready ? "ready" : "waiting");
	view_number(&object, "bytes", lease->bytes);
	view_number(&object, "lent_bytes", lease->lent);
	view_number(&object, "segments", lease->segments);
	view_text(&object, "placement", placements[lease->placement]);
	view_optional(&object, "node_asked", lease->node);
	view_add(&object, "nodes", lease_nodes_view(lease));
	view_add(&object, "shares", lease_shares_view(lease));
	view_number(&object, "sessions", lease->sessions);
	view_number(&object, "writers", lease->writers);
	view_number(&object, "age_ms", lease->age_ms);
	view_known(&object, "ttl_ms", lease->ttl_ms);
	view_number(&object, "generation", lease->generation);
	traffic_view(&object, lease_traffic(lease));
	return object;
}

static bool lease_matches(const struct lease_status *lease, const struct filter *filter)
{
	return filter_tenant(filter, lease->tenant) &&
	       filter_older(filter, lease->age_ms) &&
	       (!filter->session || lease_is_of(lease, filter->session)) &&
	       filter_name(filter, lease->name);
}

static int holder_add(const struct lease_holder *holder, void *arg)
{
	struct view_page *page = arg;
	json_t *object = json_object();

	view_id(&object, "session", holder->session);
	view_text(&object, "tenant", holder->tenant);
	view_text(&object, "client", holder->origin ? holder->origin->client : NULL);
	view_text(&object, "peer", holder->origin ? holder->origin->peer : NULL);
	view_text(&object, "rights", rights_name(holder->rights));
	view_text(&object, "state", holder->fenced ? "fenced" : "active");
	if (page->within)
		page_text(page, ",");
	page->within = holder->session;
	page_json(page, object, 0);
	return page_full(page);
}

/* The members of a lease, and the beginning of the list of its sessions. */
static void lease_open(struct view_page *page, const struct lease_status *lease)
{
	page->seen += lease->sessions / KEYS_PER_SEEN;
	page_begin_item(page);
	page_text(page, "{");
	page_json(page, lease_view(lease), JSON_EMBED);
	page->open = !page->filter->no_attached;
	page->within = 0;
	page_text(page, page->open ? ",\"attached\":[" : "}");
}

static void lease_close(struct view_page *page)
{
	page_text(page, "]}");
	page->open = false;
}

static int lease_add(const struct lease_status *lease, void *arg)
{
	struct view_page *page = arg;

	/* the last page ended with a lease that has ended since, in the list of its sessions */
	if (page->open && lease->id != page->after)
		lease_close(page);
	if (!page->open) {
		page_look(page, lease->id);
		if (lease_matches(lease, page->filter))
			lease_open(page, lease);
	}
	if (page->open && !page->err &&
	    !lease_each_holder(lease, page->within, holder_add, page))
		lease_close(page);
	return page_full(page);
}

bool view_leases(const struct admin_sources *from, struct view_page *page)
{
	/* begin with the lease whose list is open */
	uint64_t after = page->open ? page->after - 1 : page->after;

	if (leases_each(from->control->leases, after, lease_add, page))
		return true;
	if (page->open)
		lease_close(page);
	return false;
}

/* ---- /v1/events ---- */

static const char *level_name(int level)
{
	static const char *const names[] = { "error",   "error",  "error", "error",
					     "warning", "notice", "info",  "debug" };

	return names[level & 7];
}

/* "": null */
static void view_named(json_t **object, const char *key, const char *name)
{
	view_text(object, key, *name ? name : NULL);
}

json_t *view_event(const struct recent_event *event, uint64_t missed)
{
	json_t *object = json_object();

	view_number(&object, "number", event->number);
	view_number(&object, "missed", missed);
	view_number(&object, "time_ms", event->time_ms);
	view_text(&object, "level", level_name(event->level));
	view_text(&object, "event", event->event);
	view_text(&object, "text", event->text);
	view_id(&object, "session", event->session);
	view_id(&object, "lease", event->lease);
	view_named(&object, "tenant", event->tenant);
	view_named(&object, "peer", event->peer);
	view_named(&object, "pool", event->pool);
	view_named(&object, "device", event->device);
	return object;
}

bool view_event_matches(const struct recent_event *event, const struct filter *filter)
{
	return filter_tenant(filter, event->tenant) &&
	       (!filter->session || event->session == filter->session) &&
	       filter_name(filter, event->event);
}

bool view_events(const struct admin_sources *, struct view_page *page)
{
	const struct recent_event *event;

	page->after = recent_resume(page->after);
	while (!page_full(page) && (event = recent_after(page->after))) {
		uint64_t missed = event->number - page->after - 1;

		page_look(page, event->number);
		page->missed += missed;
		if (!view_event_matches(event, page->filter))
			continue;
		page_begin_item(page);
		page_json(page, view_event(event, page->missed), 0);
		page->missed = 0;
	}
	return recent_after(page->after) != NULL;
}
