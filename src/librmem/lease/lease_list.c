/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls on the tenant's named leases that need no handle: stat, remove, list. */
#include <rmem/rmem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "librmem/lease/lease.h"
#include "librmem/params.h"
#include "librmem/session/session.h"
#include "wire/codec.h"

static void stat_fill(const struct wire_entry *entry, struct rmem_stat *stat)
{
	*stat = (struct rmem_stat){
		.size = sizeof(*stat),
		.id = entry->lease,
		.bytes = entry->bytes,
		.age_ms = entry->age_ms,
		.ttl_ms = entry->ttl_ms,
		.sessions = entry->sessions,
		.segments = entry->segments,
	};
	memcpy(stat->name, entry->name, sizeof(stat->name));
}

static int stat_received(void *ctx, const struct wire_msg *reply)
{
	if (reply->entries.n_entries != 1)
		return err_set(-EPROTO,
			       "the server describes %u leases when asked for one",
			       reply->entries.n_entries);
	stat_fill(&reply->entries.entries[0], ctx);
	return 0;
}

int lease_stat_request(struct rmem *session, const char *tenant, const char *name,
		       struct rmem_stat *ret_stat)
{
	struct wire_msg request;
	int err;

	wire_msg_init(&request, WIRE_TYPE_stat);
	err = lease_name_parse(name, false, request.stat.name);
	if (!err)
		err = lease_tenant_parse(tenant, request.stat.tenant);
	return err ? err : session_call(session, &request, stat_received, ret_stat);
}

int rmem_stat(rmem *session, const char *name, struct rmem_stat *ret_stat)
{
	struct rmem_stat stat;
	int err;

	if (!session || !name || !ret_stat)
		return err_set(-EINVAL, "rmem_stat: an argument is NULL");
	err = lease_stat_request(session, NULL, name, &stat);
	if (!err)
		err = params_export(ret_stat, &stat, sizeof(stat),
				    PARAMS_UP_TO(struct rmem_stat, name), "rmem_stat");
	return err_end(
		err ? err_prefix(err, "rmem_stat \"%s\" at %s", name, session->server)
		    : 0);
}

int rmem_remove(rmem *session, const char *name)
{
	struct wire_msg request;
	int err;

	wire_msg_init(&request, WIRE_TYPE_remove);
	if (!session || !name)
		return err_set(-EINVAL, "rmem_remove: an argument is NULL");
	err = lease_name_parse(name, false, request.remove.name);
	if (!err)
		err = session_call(session, &request, NULL, NULL);
	return err_end(
		err ? err_prefix(err, "rmem_remove \"%s\" at %s", name, session->server)
		    : 0);
}

static int page_received(void *ctx, const struct wire_msg *reply)
{
	memcpy(ctx, &reply->entries, sizeof(reply->entries));
	return 0;
}

/* Ids rise from page to page, or the listing might never end. */
static int page_check(const struct wire_entries *page, uint64_t after)
{
	for (unsigned i = 0; i < page->n_entries; i++) {
		if (page->entries[i].lease <= after)
			return err_set(-EPROTO, "the server lists leases out of order");
		after = page->entries[i].lease;
	}
	if (page->more && page->n_entries == 0)
		return err_set(-EPROTO, "the server lists an empty page");
	return 0;
}

static int list(struct rmem *session, const char *prefix, struct wire_entries *page,
		int (*each)(const struct rmem_stat *stat, void *arg), void *arg)
{
	struct wire_msg request;
	int err;

	wire_msg_init(&request, WIRE_TYPE_list);
	err = prefix ? lease_name_parse(prefix, false, request.list.prefix) : 0;
	if (err)
		return err_prefix(err, "rmem_list");
	do {
		err = session_call(session, &request, page_received, page);
		if (!err)
			err = page_check(page, request.list.after);
		if (err)
			return err_prefix(err, "rmem_list at %s", session->server);
		for (unsigned i = 0; i < page->n_entries; i++) {
			struct rmem_stat stat;

			stat_fill(&page->entries[i], &stat);
			request.list.after = stat.id;
			err = each(&stat, arg);
			if (err)
				return err;
		}
	} while (page->more);
	return 0;
}

int rmem_list(rmem *session, const char *prefix,
	      int (*each)(const struct rmem_stat *stat, void *arg), void *arg)
{
	struct wire_entries *page;
	int err;

	if (!session || !each)
		return err_set(-EINVAL, "rmem_list: an argument is NULL");
	page = malloc(sizeof(*page));
	if (!page)
		return err_set(-ENOMEM, "rmem_list: no memory for a page");
	err = list(session, prefix, page, each, arg);
	free(page);
	return err_end(err);
}
