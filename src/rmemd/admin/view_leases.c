/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/admin.h"
#include "rmemd/admin/view.h"
#include "rmemd/lease/lease.h"

static const char *placement_name(enum wire_placement placement)
{
	static const char *const names[] = {
		[WIRE_PLACE_NODE] = "node",
		[WIRE_PLACE_DEVICE] = "device",
		[WIRE_PLACE_INTERLEAVE] = "interleave",
	};

	return names[placement];
}

static json_t *nodes_view(const struct lease_status *lease)
{
	struct lease_share shares[WIRE_SEGMENTS_MAX];
	unsigned n = lease_shares(lease, shares);
	json_t *array = json_array();

	for (unsigned i = 0; i < n; i++) {
		json_t *object = json_object();

		view_node(&object, "node", shares[i].node);
		view_number(&object, "bytes", shares[i].bytes);
		view_append(&array, object);
	}
	return array;
}

static int lease_view(const struct lease_status *lease, void *arg)
{
	json_t **array = arg, *object = json_object();

	view_id(&object, "id", lease->id);
	view_text(&object, "name", lease->name[0] ? lease->name : NULL);
	view_text(&object, "tenant", lease->tenant);
	if (lease->owner)
		view_id(&object, "owner", lease->owner);
	else
		view_text(&object, "owner", NULL);
	view_text(&object, "state", lease->ready ? "ready" : "waiting");
	view_number(&object, "bytes", lease->bytes);
	view_number(&object, "lent_bytes", lease->lent);
	view_number(&object, "segments", lease->segments);
	view_text(&object, "placement", placement_name(lease->placement));
	view_node(&object, "node_asked", lease->node);
	view_add(&object, "nodes", nodes_view(lease));
	view_number(&object, "sessions", lease->sessions);
	view_number(&object, "writers", lease->writers);
	view_number(&object, "age_ms", lease->age_ms);
	if (lease->ttl_ms)
		view_number(&object, "ttl_ms", lease->ttl_ms);
	else
		view_text(&object, "ttl_ms", NULL);
	view_number(&object, "generation", lease->generation);
	view_append(array, object);
	return *array ? 0 : 1;
}

json_t *view_leases(const struct admin_sources *from)
{
	json_t *object = json_object(), *array = json_array();

	/* ends early when memory is short, and the NULL that is left says so */
	(void)leases_each(from->leases, lease_view, &array);
	view_add(&object, "leases", array);
	return object;
}
