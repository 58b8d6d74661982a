/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/view.h"
#include "rmemd/control/session.h"
#include "rmemd/admin/admin.h"

static int session_view(const struct session_status *session, void *arg)
{
	json_t **array = arg, *object = json_object();

	view_id(&object, "id", session->id);
	view_text(&object, "tenant", session->tenant);
	view_text(&object, "client", session->client);
	view_text(&object, "peer", session->peer);
	view_text(&object, "state", session->state);
	view_text(&object, "fabric", session->fabric);
	view_number(&object, "age_ms", session->age_ms);
	view_number(&object, "idle_ms", session->idle_ms);
	view_number(&object, "channels", session->channels);
	view_number(&object, "leases", session->leases);
	view_number(&object, "keys", session->keys);
	view_number(&object, "watches", session->watches);
	view_number(&object, "notices", session->notices);
	view_number(&object, "lent_bytes", session->lent_bytes);
	view_number(&object, "resumes", session->resumes);
	view_append(array, object);
	return *array ? 0 : 1;
}

json_t *view_sessions(const struct admin_sources *from)
{
	json_t *object = json_object(), *array = json_array();

	/* ends early when memory is short, and the NULL that is left says so */
	(void)sessions_each(from->sessions, session_view, &array);
	view_add(&object, "sessions", array);
	return object;
}
