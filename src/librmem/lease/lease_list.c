/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls on the tenant's named leases that need no handle: stat, remove, list. */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/lease/lease.h"
#include "base/params.h"
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

/* The state of rmem_list(). */
struct listing {
	struct rmem *session;
	struct wire_msg request;
	struct wire_entries page;
	uint64_t n; /* leases so far */
	/* rest of the call's time-out, which counts while it waits for pages */
	uint64_t left_ns;
};

static int page_received(void *ctx, const struct wire_msg *reply)
{
	memcpy(ctx, &reply->entries, sizeof(reply->entries));
	return 0;
}

/* Ids rise from page to page, and there is a limit, or the list might never end. */
static int page_check(const struct listing *listing)
{
	const struct wire_entries *page = &listing->page;
	uint64_t after = listing->request.list.after;

	for (unsigned i = 0; i < page->n_entries; i++) {
		if (page->entries[i].lease <= after)
			return err_set(-EPROTO, "the server lists leases out of order");
		after = page->entries[i].lease;
	}
	if (page->more && page->n_entries == 0)
		return err_set(-EPROTO, "the server lists an empty page");
	if (listing->n + page->n_entries > WIRE_LISTED_MAX)
		return err_set(-EPROTO, "the server lists more than %d leases",
			       WIRE_LISTED_MAX);
	return 0;
}

static int page_fetch(struct listing *listing)
{
	uint64_t begin_ns = clock_now_ns(), spent_ns;
	int err = session_call_until(listing->session, &listing->request, page_received,
				     &listing->page, begin_ns + listing->left_ns, NULL);

	if (err == -ETIMEDOUT && listing->n)
		return err_set(err,
			       "the list does not end within the time-out: the server "
			       "has sent %" PRIu64 " leases",
			       listing->n);
	if (err)
		return err;
	spent_ns = clock_now_ns() - begin_ns;
	listing->left_ns -= spent_ns < listing->left_ns ? spent_ns : listing->left_ns;
	return page_check(listing);
}

static int list(struct listing *listing,
		int (*each)(const struct rmem_stat *stat, void *arg), void *arg)
{
	const struct wire_entries *page = &listing->page;

	do {
		int err = page_fetch(listing);

		if (err)
			return err_prefix(err, "rmem_list at %s",
					  listing->session->server);
		for (unsigned i = 0; i < page->n_entries; i++) {
			struct rmem_stat stat;

			stat_fill(&page->entries[i], &stat);
			listing->request.list.after = stat.id;
			listing->n++;
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
	struct listing *listing;
	int err;

	if (!session || !each)
		return err_set(-EINVAL, "rmem_list: an argument is NULL");
	listing = calloc(1, sizeof(*listing));
	if (!listing)
		return err_set(-ENOMEM, "rmem_list: no memory for a page");
	listing->session = session;
	listing->left_ns = session_timeout_ms(session) * NS_PER_MS;
	wire_msg_init(&listing->request, WIRE_TYPE_list);
	err = prefix ? lease_name_parse(prefix, false, listing->request.list.prefix)
		     : 0;
	if (err)
		err = err_prefix(err, "rmem_list");
	else
		err = list(listing, each, arg);
	free(listing);
	return err_end(err);
}
