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

/* A call with a text of the program, and its place in a list. */
struct named {
	struct call call; /* first */
	uint64_t after;   /* id */
	uint64_t n;       /* leases so far */
	/* the text as given, which may be wrong; only while the call is created */
	const char *given;
	char name[WIRE_NAME_MAX + 1];
};

static struct named *named_of(const struct call *call)
{
	return container_of((struct call *)(uintptr_t)call, struct named, call);
}

static int named_describe(struct call *call, int err)
{
	const struct named *named = named_of(call);

	return err_prefix(err, "%s \"%s\" at %s", call->kind->name,
			  named->given ? named->given : named->name,
			  call->session->server);
}

static int named_create(const struct call_kind *kind,
			const struct rmem_request *request, struct call **ret_call)
{
	struct named *named = calloc(1, sizeof(*named));
	int err = 0;

	if (!named)
		return err_set(-ENOMEM, "no memory for a call");
	if (request->name)
		err = lease_name_parse(request->name, false, named->name);
	named->given = request->name;
	call_init(&named->call, kind, request->session, request, err);
	named->given = NULL;
	*ret_call = &named->call;
	return 0;
}

/* The call tells of the leases in the reply. */
static int stats_take(struct call *call, const struct wire_entries *page)
{
	free(call->stats);
	call->stats = calloc(page->n_entries + 1u, sizeof(*call->stats));
	if (!call->stats)
		return err_set(-ENOMEM, "no memory for a page");
	for (unsigned i = 0; i < page->n_entries; i++)
		stat_fill(&page->entries[i], &call->stats[i]);
	call->answer.stats = call->stats;
	call->answer.n_stats = page->n_entries;
	return 0;
}

/* ---- stat ---- */

static int stat_step(struct call *call)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_stat);
	memcpy(request.stat.name, named_of(call)->name, sizeof(request.stat.name));
	return call_send(call, &request);
}

static int stat_answered(struct call *call, int err, const struct wire_msg *reply)
{
	if (err)
		return err;
	if (reply->entries.n_entries != 1)
		return err_set(-EPROTO,
			       "the server describes %u leases when asked for one",
			       reply->entries.n_entries);
	return stats_take(call, &reply->entries);
}

static const struct call_kind stat_kind = {
	.name = "rmem_stat",
	.step = stat_step,
	.answered = stat_answered,
	.describe = named_describe,
};

int lease_stat_create(const struct rmem_request *request, struct call **ret_call)
{
	return named_create(&stat_kind, request, ret_call);
}

int rmem_stat(rmem *session, const char *name, struct rmem_stat *ret_stat)
{
	const struct rmem_request request = { .call = RMEM_CALL_STAT,
					      .session = session,
					      .name = name };
	struct call *call;
	int err;

	if (!session || !name || !ret_stat)
		return err_set(-EINVAL, "rmem_stat: an argument is NULL");
	err = lease_stat_create(&request, &call);
	if (err)
		return err;
	err = call_run(call, NULL);
	if (!err)
		err = params_export(ret_stat, &call->stats[0], sizeof(call->stats[0]),
				    PARAMS_UP_TO(struct rmem_stat, name),
				    "rmem_stat: rmem_stat");
	call_free(call);
	return err_end(err);
}

/* ---- remove ---- */

static int remove_step(struct call *call)
{
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_remove);
	memcpy(request.remove.name, named_of(call)->name, sizeof(request.remove.name));
	return call_send(call, &request);
}

static int remove_answered(struct call *call, int err, const struct wire_msg *reply)
{
	(void)call;
	(void)reply;
	return err;
}

static const struct call_kind remove_kind = {
	.name = "rmem_remove",
	.step = remove_step,
	.answered = remove_answered,
	.describe = named_describe,
};

int lease_remove_create(const struct rmem_request *request, struct call **ret_call)
{
	return named_create(&remove_kind, request, ret_call);
}

int rmem_remove(rmem *session, const char *name)
{
	const struct rmem_request request = { .call = RMEM_CALL_REMOVE,
					      .session = session,
					      .name = name };

	if (!session || !name)
		return err_set(-EINVAL, "rmem_remove: an argument is NULL");
	return call_make(lease_remove_create, &request, NULL);
}

/* ---- list ---- */

static int list_step(struct call *call)
{
	const struct named *listing = named_of(call);
	struct wire_msg request;

	wire_msg_init(&request, WIRE_TYPE_list);
	request.list.after = listing->after;
	memcpy(request.list.prefix, listing->name, sizeof(request.list.prefix));
	return call_send(call, &request);
}

/* Ids rise from page to page, and there is a limit, or the list might never end. */
static int page_check(const struct named *listing, const struct wire_entries *page)
{
	uint64_t after = listing->after;

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

static int list_answered(struct call *call, int err, const struct wire_msg *reply)
{
	struct named *listing = named_of(call);
	const struct wire_entries *page;
	uint64_t now_ns = clock_now_ns();

	call->left_ns = 0;
	if (err)
		return err;
	page = &reply->entries;
	err = page_check(listing, page);
	if (!err)
		err = stats_take(call, page);
	if (err)
		return err;
	listing->n += page->n_entries;
	if (page->n_entries > 0)
		listing->after = page->entries[page->n_entries - 1].lease;
	if (!page->more)
		return 0;
	/* the time counts while the call waits for a part */
	call->left_ns = now_ns < call->end_ns ? call->end_ns - now_ns : 1;
	return CALL_HAS_MORE;
}

static int list_end(struct call *call, int result)
{
	uint64_t n = named_of(call)->n;

	if (result < 0)
		call->left_ns = 0;
	if (result != -ETIMEDOUT || n == 0)
		return result;
	return err_set(result,
		       "the list does not end within the time-out: the server has "
		       "sent %" PRIu64 " leases",
		       n);
}

static int list_describe(struct call *call, int err)
{
	return err_prefix(err, "rmem_list at %s", call->session->server);
}

static const struct call_kind list_kind = {
	.name = "rmem_list",
	.step = list_step,
	.answered = list_answered,
	.end = list_end,
	.describe = list_describe,
};

int lease_list_create(const struct rmem_request *request, struct call **ret_call)
{
	return named_create(&list_kind, request, ret_call);
}

static int page_show(const struct call *call,
		     int (*each)(const struct rmem_stat *stat, void *arg), void *arg)
{
	int result = 0;

	for (unsigned i = 0; i < call->answer.n_stats && !result; i++)
		result = each(&call->stats[i], arg);
	return result;
}

int rmem_list(rmem *session, const char *prefix,
	      int (*each)(const struct rmem_stat *stat, void *arg), void *arg)
{
	const struct rmem_request request = { .call = RMEM_CALL_LIST,
					      .session = session,
					      .name = prefix };
	struct call *call;
	int result, more;

	if (!session || !each)
		return err_set(-EINVAL, "rmem_list: an argument is NULL");
	result = lease_list_create(&request, &call);
	if (result)
		return result;
	do {
		more = call_run(call, NULL);
		result = more < 0 ? more : page_show(call, each, arg);
	} while (more == CALL_HAS_MORE && !result);
	call_free(call);
	return err_end(result);
}
