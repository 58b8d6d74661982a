/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/admin.h"
#include "rmemd/admin/view.h"
#include "rmemd/lease/tenant.h"

/* null: no limit */
static void view_limit(json_t **object, const char *key, uint64_t limit)
{
	if (limit)
		view_number(object, key, limit);
	else
		view_text(object, key, NULL);
}

static int tenant_view(const struct tenant *tenant, void *arg)
{
	const struct tenant_limits *limits = &tenant->limits;
	json_t **array = arg, *object = json_object();

	view_text(&object, "name", tenant->name);
	view_text(&object, "state", tenant->leaving ? "leaving" : "open");
	view_number(&object, "sessions", tenant->n_sessions);
	view_limit(&object, "sessions_max", limits->sessions_max);
	view_number(&object, "channels", tenant->n_channels);
	view_limit(&object, "channels_max", limits->channels_max);
	view_number(&object, "leases", tenant->n_leases);
	view_limit(&object, "leases_max", limits->leases_max);
	view_number(&object, "lent_bytes", tenant->bytes);
	view_limit(&object, "bytes_max", limits->bytes_max);
	view_number(&object, "keys", tenant->n_keys);
	view_limit(&object, "keys_max", limits->keys_max);
	view_limit(&object, "session_keys_max", limits->session_keys_max);
	view_limit(&object, "lease_min", limits->lease_min);
	view_limit(&object, "lease_max", limits->lease_max);
	view_limit(&object, "ttl_max_ms", limits->ttl_max_ms);
	view_number(&object, "refused", tenant->refused);
	view_append(array, object);
	return *array ? 0 : 1;
}

json_t *view_tenants(const struct admin_sources *from)
{
	json_t *object = json_object(), *array = json_array();

	/* ends early when memory is short, and the NULL that is left says so */
	(void)tenants_each(from->tenants, tenant_view, &array);
	view_add(&object, "tenants", array);
	return object;
}
