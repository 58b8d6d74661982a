/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/action.h"

#include <errno.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "rmemd/admin/admin.h"
#include "rmemd/admin/view.h"
#include "rmemd/admin/view_member.h"
#include "rmemd/config/changes.h"
#include "rmemd/control/control.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"

/* ---- parameters ---- */

/* NULL: the query does not have it. */
static const char *parameter(const struct evkeyvalq *parameters, const char *name)
{
	return evhttp_find_header(parameters, name);
}

/* A number above 0.  -EINVAL with text. */
static int number_parse(const struct evkeyvalq *parameters, const char *name,
			uint64_t *ret_number)
{
	const char *text = parameter(parameters, name);

	if (!text)
		return err_set(-EINVAL, "the parameter %s is missing", name);
	if (units_parse_u64(text, 1, UINT64_MAX, ret_number))
		return err_set(-EINVAL, "%s: %s", name, err_text());
	return 0;
}

/* ---- reload ---- */

/* A value; NULL for that of a section that is not there. */
static const char *change_value(const struct config_change *change, const char *text)
{
	return change->key || *text ? text : NULL;
}

static void changes_add(json_t **answer, const char *key, const char *more_key,
			const struct config_changes *changes)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < changes->n; i++) {
		const struct config_change *change = &changes->at[i];
		json_t *one = json_object();

		view_text(&one, "section", change->section);
		view_text(&one, "key", change->key);
		view_text(&one, "old", change_value(change, change->old));
		view_text(&one, "new", change_value(change, change->new));
		view_append(&array, one);
	}
	view_add(answer, key, array);
	view_number(answer, more_key, changes->more);
}

static int act_reload(const struct admin_sources *from, const struct evkeyvalq *,
		      json_t **ret_answer)
{
	const struct config_reloaded *reloaded;

	/* the request is good, the configuration is not */
	if (from->reload(from->ctx, &reloaded))
		return -ECANCELED;
	*ret_answer = json_object();
	changes_add(ret_answer, "changed", "changed_more", &reloaded->changed);
	changes_add(ret_answer, "needs_restart", "needs_restart_more",
		    &reloaded->needs_restart);
	return 0;
}

/* ---- revoke ---- */

static int find_by_name(const struct control *control, const char *name,
			const char *owner, struct lease_status *ret_lease)
{
	unsigned n_tenants = 0, n = 0;
	struct lease_status found;
	char names[120] = ""; /* of tenants that have one */
	size_t used = 0;

	list_for_each_entry(const struct tenant, tenant, &control->tenants->all, link) {
		if (owner && strcmp(owner, tenant->name) != 0)
			continue;
		n_tenants++;
		if (!leases_find_named(tenant, name, &found))
			continue;
		(void)snprintf(names + used, sizeof(names) - used, "%s%s",
			       n++ ? ", " : "", tenant->name);
		used = strlen(names);
	}
	if (owner && !n_tenants)
		return err_set(-ENOENT, "there is no tenant %s", owner);
	if (owner && !n)
		return err_set(-ENOENT, "tenant %s has no lease with the name \"%s\"",
			       owner, name);
	if (!n)
		return err_set(-ENOENT, "no tenant has a lease with the name \"%s\"",
			       name);
	if (n > 1)
		return err_set(-EEXIST,
			       "%u tenants have a lease with the name \"%s\" (%s): "
			       "give the number of the lease, or its tenant (--tenant)",
			       n, name, names);
	*ret_lease = found;
	return 0;
}

static int find_lease(const struct control *control, const struct evkeyvalq *parameters,
		      struct lease_status *ret_lease)
{
	const char *name = parameter(parameters, "name");
	const char *tenant = parameter(parameters, "tenant");
	uint64_t id;
	int err;

	if (!name == !parameter(parameters, "lease"))
		return err_set(-EINVAL,
			       "one of the parameters lease and name is needed");
	if (tenant && !name)
		return err_set(-EINVAL, "the parameter tenant needs a name");
	if (name)
		return find_by_name(control, name, tenant, ret_lease);
	err = number_parse(parameters, "lease", &id);
	if (!err && !leases_find_status(control->leases, id, ret_lease))
		err = err_set(-ENOENT, "there is no lease %" PRIu64, id);
	return err;
}

/* An id, as all ids in JSON. */
#define ID_BYTES 24
static const char *id_format(uint64_t id, char buf[ID_BYTES])
{
	(void)snprintf(buf, ID_BYTES, "%" PRIu64, id);
	return buf;
}

static int act_revoke(const struct admin_sources *from,
		      const struct evkeyvalq *parameters, json_t **ret_answer)
{
	struct lease_status lease;
	char id[ID_BYTES];
	int err = find_lease(from->control, parameters, &lease);

	if (err)
		return err;
	/* what it has is gone afterwards */
	*ret_answer = json_pack("{s:{s:s, s:s?, s:s, s:I, s:I}}", "revoked", "id",
				id_format(lease.id, id), "name",
				*lease.name ? lease.name : NULL, "tenant", lease.tenant,
				"bytes", (json_int_t)lease.bytes, "sessions",
				(json_int_t)lease.sessions);
	return leases_revoke(from->control->leases, lease.id);
}

/* ---- kick ---- */

static int act_kick(const struct admin_sources *from,
		    const struct evkeyvalq *parameters, json_t **ret_answer)
{
	struct sessions *sessions = from->control->sessions;
	const struct session *session;
	char text[ID_BYTES];
	uint64_t id;
	int err = number_parse(parameters, "session", &id);

	if (err)
		return err;
	session = sessions_find(sessions, id);
	if (session)
		*ret_answer =
			json_pack("{s:{s:s, s:s, s:s, s:s, s:I, s:I}}", "kicked", "id",
				  id_format(id, text), "tenant",
				  session->lease_client.tenant->name, "client",
				  session->client, "peer", session->address, "leases",
				  (json_int_t)session->lease_client.n_attachments,
				  "keys", (json_int_t)session->lease_client.n_keys);
	return sessions_kick(sessions, id);
}

/* ---- drain and undrain ---- */

static json_t *drain_answer(const struct admin_sources *from)
{
	return json_pack("{s:o, s:I, s:I}", "draining", view_drain(from), "leases",
			 (json_int_t)leases_count(from->control->leases), "sessions",
			 (json_int_t)sessions_count(from->control->sessions));
}

static int act_drain(const struct admin_sources *from,
		     const struct evkeyvalq *parameters, json_t **ret_answer)
{
	const char *deadline = parameter(parameters, "deadline_ms");
	uint64_t left_ms = DRAIN_NO_DEADLINE;
	int err;

	if (deadline && units_parse_u64(deadline, 0, DRAIN_MS_MAX, &left_ms))
		return err_set(-EINVAL, "deadline_ms: %s", err_text());
	err = drain_begin(&from->control->drain, left_ms);
	if (!err)
		*ret_answer = drain_answer(from);
	return err;
}

static int act_undrain(const struct admin_sources *from, const struct evkeyvalq *,
		       json_t **ret_answer)
{
	int err = drain_end(&from->control->drain);

	if (!err)
		*ret_answer = drain_answer(from);
	return err;
}

/* ---- log-level ---- */

/* Until a reload, which sets that of the configuration. */
static int act_log_level(const struct admin_sources *from,
			 const struct evkeyvalq *parameters, json_t **ret_answer)
{
	const char *text = parameter(parameters, "level");
	int level;

	if (!text)
		return err_set(-EINVAL, "the parameter level is missing");
	if (config_log_level_parse(text, &level))
		return err_set(-EINVAL, "level: %s", err_text());
	log_set_level(level);
	*ret_answer = view_log_level(from);
	return 0;
}

/* ---- all ---- */

static const struct action actions[] = {
	{ "/v1/reload", { NULL }, act_reload },
	{ "/v1/log-level", { "level" }, act_log_level },
	{ "/v1/kick", { "session" }, act_kick },
	{ "/v1/drain", { "deadline_ms" }, act_drain },
	{ "/v1/undrain", { NULL }, act_undrain },
	{ "/v1/revoke", { "lease", "name", "tenant" }, act_revoke },
};

const struct action *action_find(const char *path)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (path && strcmp(actions[i].path, path) == 0)
			return &actions[i];
	return NULL;
}

static bool has_parameter(const struct action *action, const char *name)
{
	for (unsigned i = 0; action->parameters[i]; i++)
		if (strcmp(action->parameters[i], name) == 0)
			return true;
	return false;
}

int action_parse(const struct action *action, const char *query,
		 struct evkeyvalq *ret_parameters)
{
	/* makes them empty first, and after an error again */
	if (evhttp_parse_query_str(query, ret_parameters))
		return err_set(-EINVAL, "the query is malformed");
	for (const struct evkeyval *one = ret_parameters->tqh_first; one;
	     one = one->next.tqe_next) {
		if (!has_parameter(action, one->key))
			return err_set(-EINVAL,
				       "the query has a parameter that %s "
				       "does not have",
				       action->path);
		if (!utf8_clean(one->value, strlen(one->value)))
			return err_set(-EINVAL, "%s " UTF8_UNCLEAN, one->key);
	}
	return 0;
}

void action_describe(const struct action *action, const struct evkeyvalq *parameters,
		     const char *who, char buf[ACTION_BYTES])
{
	size_t used = (size_t)snprintf(buf, ACTION_BYTES, "%s: %s", who, action->path);

	for (unsigned i = 0; action->parameters[i] && used < ACTION_BYTES; i++) {
		const char *name = action->parameters[i];
		const char *value = parameter(parameters, name);

		if (!value)
			continue;
		if (!utf8_clean(value, strlen(value)))
			value = "?";
		used += (size_t)snprintf(buf + used, ACTION_BYTES - used, " %s=%.*s",
					 name, (int)utf8_cut(value, 300), value);
	}
}
