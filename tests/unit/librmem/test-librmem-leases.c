/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases are allocated, listed and changed with the daemon. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* before the case's `queue` */
#include "librmem/sync.h"

#include "unit/librmem/core-case.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"

START_TEST(lease__passes_through_all_calls)
{
	rmem_lease *lease, *again = NULL;
	struct rmem_stat stat = rmem_stat_init();

	open_with(0);
	lease = alloc(1000, "thing");
	ck_assert_uint_eq(rmem_lease_bytes(lease), 1000);
	ck_assert_uint_eq(rmem_lease_rights(lease), RMEM_READ | RMEM_WRITE);
	ck_assert_int_eq(rmem_lease_node(lease),
			 proxy.last[WIRE_TYPE_lease].lease.segments[0].node);
	ck_assert_int_eq(rmem_lease_status(lease), 0);
	ck_assert_int_eq(rmem_stat(stage.client, "thing", &stat), 0);
	ck_assert_uint_eq(stat.id, rmem_lease_id(lease));
	ck_assert_int_eq(rmem_attach(stage.client, "thing", RMEM_READ, &again), 0);
	ck_assert_ptr_eq(again, lease);
	ck_assert_int_eq(rmem_detach(again), 0);
	ck_assert_int_eq(rmem_grow(lease, 2000), 0);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 2000);
	ck_assert_int_eq(rmem_write(lease, 1990, stage.buf, 10), 0);
	ck_assert_int_eq(rmem_write(lease, 1991, stage.buf, 10), -EINVAL);
	ck_assert_int_eq(rmem_grow(lease, 1999), -EINVAL);
	ck_assert_int_eq(rmem_shrink(lease, 2001), -EINVAL);
	ck_assert_int_eq(rmem_shrink(lease, 0), 0);
	ck_assert_int_eq(rmem_read(lease, 0, stage.buf, 1), -EINVAL);
	ck_assert_int_eq(rmem_read(lease, 0, stage.buf, 0), 0);
	ck_assert_int_eq(rmem_rename(lease, "other", 0), 0);
	ck_assert_int_eq(rmem_rename(lease, "", 0), -EINVAL);
	ck_assert_int_eq(rmem_rename(lease, "a", ~RMEM_RENAME_REPLACE), -EINVAL);
	ck_assert_int_eq(rmem_renew(lease, 60000), 0);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_attach(stage.client, "thing", RMEM_READ, &lease),
			 -ENOENT);
	ck_assert_int_eq(rmem_attach(stage.client, "other", 9, &lease), -EINVAL);
	ck_assert_int_eq(rmem_attach(stage.client, "other", RMEM_READ, &lease), 0);
	ck_assert_int_eq(rmem_destroy(lease), -EACCES);
	ck_assert_int_eq(rmem_grow(lease, 9), -EACCES);
	ck_assert_int_eq(rmem_rename(lease, "x", 0), -EACCES);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_remove(stage.client, "other"), 0);
	ck_assert_int_eq(rmem_remove(stage.client, "other"), -ENOENT);
}
END_TEST

/* The reply of a server with several nodes. */
static void edit_segments(struct wire_msg *msg)
{
	struct wire_lease *lease = &msg->lease;

	if (msg->type != WIRE_TYPE_lease || lease->bytes != 5000)
		return;
	lease->n_segments = lease->n_keys = 3;
	for (uint8_t i = 0; i < 3; i++) {
		lease->segments[i] = lease->segments[0];
		lease->segments[i].bytes = i < 2 ? 1000 : 3000;
		lease->segments[i].node = i == 1 ? 2 : 3;
		lease->keys[i] = lease->keys[0];
		lease->keys[i].segment = i;
		lease->keys[i].addr += i * UINT64_C(1000);
	}
}

static int no_stat(const struct rmem_stat *stat, void *arg)
{
	(void)stat;
	(void)arg;
	return 0;
}

/* The server would end the session of a client that sent one. */
START_TEST(name__that_is_refused_is_not_sent)
{
	static const char *const names[] = { "a\nb", "a\xe2\x80\xae", "\xed\xa0\x80" };
	const char *name = names[_i];
	rmem_lease *lease;
	struct rmem_stat stat = rmem_stat_init();
	struct rmem_alloc_params params = rmem_alloc_params_init();

	open_with(0);
	params.bytes = 1000;
	params.name = name;
	ck_assert_int_eq(rmem_alloc(stage.client, &params, &lease), -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(rmem_error(), "control character or an invisible one"));
	lease = alloc(1000, "thing");
	ck_assert_int_eq(rmem_rename(lease, name, 0), -EINVAL);
	ck_assert_int_eq(rmem_stat(stage.client, name, &stat), -EINVAL);
	ck_assert_int_eq(rmem_list(stage.client, name, no_stat, NULL), -EINVAL);
	ck_assert_int_eq(rmem_remove(stage.client, name), -EINVAL);
	ck_assert_int_eq(rmem_detach(lease), 0);
	ck_assert_int_eq(rmem_attach(stage.client, name, RMEM_READ, &lease), -EINVAL);
	ck_assert_int_eq(rmem_remove(stage.client, "thing"), 0);
}
END_TEST

START_TEST(layout__has_the_placement_and_the_nodes)
{
	struct rmem_layout layout = rmem_layout_init();
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	serve_rdma();
	proxy.edit = edit_segments;
	open_with(0);
	params.bytes = 5000;
	params.placement = RMEM_PLACE_INTERLEAVE;
	ck_assert_int_eq(rmem_alloc(stage.client, &params, &lease), 0);
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), 0);
	ck_assert_int_eq((int)layout.placement, (int)RMEM_PLACE_INTERLEAVE);
	ck_assert_int_eq(layout.node, RMEM_NODE_ANY);
	ck_assert_uint_eq(layout.segments, 3);
	ck_assert_uint_eq(layout.nodes, 2);
	ck_assert_int_eq(layout.share[0].node, 2);
	ck_assert_uint_eq(layout.share[0].bytes, 1000);
	ck_assert_int_eq(layout.share[1].node, 3);
	ck_assert_uint_eq(layout.share[1].bytes, 4000);
	/* a lease without memory */
	ck_assert_int_eq(rmem_shrink(lease, 0), 0);
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), 0);
	ck_assert_uint_eq(layout.segments + layout.nodes, 0);
	layout.size--;
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), -EINVAL);
	ck_assert_int_eq(rmem_lease_layout(lease, NULL), -EINVAL);
	params.placement = RMEM_PLACE_DEVICE;
	params.device = "fake0";
	params.bytes = 4000;
	ck_assert_int_eq(rmem_alloc(stage.client, &params, &lease), 0);
	ck_assert_str_eq(proxy.last[WIRE_TYPE_allocate].allocate.device, "fake0");
	layout.size++;
	ck_assert_int_eq(rmem_lease_layout(lease, &layout), 0);
	ck_assert_int_eq((int)layout.placement, (int)RMEM_PLACE_DEVICE);
	ck_assert_uint_eq(layout.nodes, 1);
}
END_TEST

#define ANY RMEM_NODE_ANY

/* The test sets the size of the parameters, and bytes if they are 0. */
static const struct {
	struct rmem_alloc_params params;
	int err;
	const char *text;
} bad_params[] = {
	{ { .bytes = 2 * CORE_POOL_BYTES, .node = ANY }, -ENOSPC, "the pools" },
	{ { .align = 3, .node = ANY }, -EINVAL, "" },
	{ { .align = UINT64_C(1) << 31, .node = ANY }, -EINVAL, "" },
	{ { .node = -2 }, -EINVAL, "" },
	{ { .device = "able0" }, -EINVAL, "" },
	{ { .placement = RMEM_PLACE_DEVICE, .device = "able0" }, -EINVAL, "" },
	{ { .placement = RMEM_PLACE_DEVICE, .device = "", .node = ANY }, -EINVAL, "" },
	{ { .placement = RMEM_PLACE_DEVICE, .device = "a\tb", .node = ANY },
	  -EINVAL,
	  "" },
	{ { .placement = RMEM_PLACE_DEVICE, .node = ANY }, -EINVAL, "" },
	{ { .placement = (enum rmem_placement)3, .node = ANY },
	  -EINVAL,
	  "placement is 3" },
	{ { .ttl_ms = 5, .name = "a\tb", .node = ANY }, -EINVAL, "" },
};

START_TEST(alloc__fails)
{
	struct rmem_alloc_params params = bad_params[_i].params;
	rmem_lease *lease = NULL;

	open_with(0);
	params.size = sizeof(params);
	if (params.bytes == 0)
		params.bytes = 1;
	ck_assert_int_eq(rmem_alloc(stage.client, &params, &lease), bad_params[_i].err);
	ck_assert_ptr_nonnull(strstr(rmem_error(), bad_params[_i].text));
	ck_assert_ptr_null(lease);
}
END_TEST

static int count_to_5(const struct rmem_stat *stat, void *arg)
{
	unsigned *n = arg;

	ck_assert_uint_gt(stat->id, 0);
	return ++*n == 5 ? 55 : 0;
}

/* The server repeats its first page. */
static void edit_repeat_page(struct wire_msg *msg)
{
	static struct wire_entries page;

	if (msg->type != WIRE_TYPE_entries)
		return;
	if (page.n_entries == 0)
		page = msg->entries;
	msg->entries = page;
}

START_TEST(list__fetches_all_pages)
{
	char name[16];
	unsigned n = 0;

	open_with(0);
	for (unsigned i = 0; i < WIRE_ENTRIES_MAX + 6; i++) {
		(void)snprintf(name, sizeof(name), "%c%u", i < 3 ? 'b' : 'a', i);
		(void)alloc(1, name);
	}
	ck_assert_int_eq(rmem_list(stage.client, "a", count_to_5, &n), 55);
	ck_assert_uint_eq(n, 5);
	n = 10;
	ck_assert_int_eq(rmem_list(stage.client, "a", count_to_5, &n), 0);
	ck_assert_uint_eq(n, 10 + WIRE_ENTRIES_MAX + 3);
	n = 0;
	ck_assert_int_eq(rmem_list(stage.client, "none", count_to_5, &n), 0);
	ck_assert_uint_eq(n, 0);
	proxy.edit = edit_repeat_page;
	n = 10;
	ck_assert_int_eq(rmem_list(stage.client, "a", count_to_5, &n), -EPROTO);
}
END_TEST

/* Pages of leases that no server has, and there are always more. */
static void edit_endless(struct wire_msg *msg)
{
	static uint64_t last;

	if (msg->type != WIRE_TYPE_entries)
		return;
	msg->entries.more = 1;
	msg->entries.n_entries = WIRE_ENTRIES_MAX;
	for (unsigned i = 0; i < WIRE_ENTRIES_MAX; i++)
		msg->entries.entries[i] =
			(struct wire_entry){ .lease = ++last, .name = "a" };
}

static int count_all(const struct rmem_stat *stat, void *arg)
{
	++*(uint64_t *)arg;
	return stat->id == 0;
}

/* The time-out is of all pages together. */
START_TEST(list__ends_in_time)
{
	uint64_t n = 0;

	open_with(0);
	proxy.edit = edit_endless;
	(void)rmem_thread_timeout(300);
	ck_assert_int_eq(rmem_list(stage.client, NULL, count_all, &n), -ETIMEDOUT);
	ck_assert_uint_ge(n, WIRE_ENTRIES_MAX);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "the list does not end"));
	(void)rmem_thread_timeout(0);
}
END_TEST

/* The time to live of a lease without a name waits for its name. */
START_TEST(alloc__without_a_name_takes_a_time_to_live)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct rmem_stat stat = rmem_stat_init();
	rmem_lease *lease;

	open_with(0);
	params.ttl_ms = 3600000;
	ck_assert_int_eq(rmem_alloc(stage.client, &params, &lease), 0);
	ck_assert_int_eq(rmem_rename(lease, "mine", 0), 0);
	ck_assert_int_eq(rmem_stat(stage.client, "mine", &stat), 0);
	ck_assert_uint_gt(stat.ttl_ms, 3000000);
	ck_assert_uint_le(stat.ttl_ms, 3600000);
	ck_assert_int_eq(rmem_renew(lease, 7200000), 0);
	ck_assert_int_eq(rmem_renew(lease, RMEM_TTL_SAME), 0);
	ck_assert_int_eq(rmem_stat(stage.client, "mine", &stat), 0);
	ck_assert_uint_gt(stat.ttl_ms, 7000000);
}
END_TEST

/* The server ends a connection that sends such a frame. */
START_TEST(names__that_cannot_be_are_not_sent)
{
	struct rmem_stat stat = rmem_stat_init();

	open_with(0);
	ck_assert_int_eq(rmem_stat(stage.client, "thing\xff", &stat), -EINVAL);
	ck_assert_int_eq(rmem_remove(stage.client, "thing\xff"), -EINVAL);
	ck_assert_int_eq(rmem_list(stage.client, "thing\xff", count_to_5, NULL),
			 -EINVAL);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_stat] + proxy.seen[WIRE_TYPE_remove] +
				  proxy.seen[WIRE_TYPE_list],
			  0);
}
END_TEST

START_TEST(events__reach_the_lease)
{
	rmem *another = open_another("");
	rmem_lease *lease, *other, *theirs;

	open_with(0);
	lease = alloc(1000, "first");
	other = alloc(1000, "other");
	ck_assert_int_eq(rmem_detach(alloc(1000, "third")), 0);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	ck_assert_int_eq(rmem_remove(another, "first"), 0);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), -ESTALE);
	ck_assert_int_eq(rmem_grow(lease, 2000), -ESTALE);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_free], 0);
	/* also of a lease that was attached for reading */
	ck_assert_int_eq(rmem_attach(stage.client, "third", RMEM_READ, &lease), 0);
	ck_assert_int_eq(rmem_remove(another, "third"), 0);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq(rmem_grow(lease, 2000), -ESTALE);
	ck_assert_int_eq(rmem_destroy(lease), 0);
	/* events about unknown leases are ignored */
	proxy_event(WIRE_TYPE_revoked, 4711, WIRE_REASON_REVOKED);
	proxy_event(WIRE_TYPE_changed, 4711, WIRE_REASON_TRIMMED);
	/* another session grows the lease */
	ck_assert_int_eq(rmem_attach(another, "other", RMEM_READ | RMEM_WRITE, &theirs),
			 0);
	ck_assert_int_eq(rmem_grow(theirs, 3000), 0);
	AWAIT(rmem_lease_bytes(other) == 3000);
	ck_assert_int_eq(rmem_write(other, 2990, stage.buf, 10), 0);
	proxy_event(WIRE_TYPE_draining, 0, 0);
	AWAIT(info().draining);
	rmem_close(another);
}
END_TEST

/* Open the session and allocate two pages; the other session attaches them. */
static rmem_lease *alloc_shared(rmem *another, rmem_lease **ret_theirs)
{
	rmem_lease *lease;

	open_with(0);
	lease = alloc(8192, "shared");
	ck_assert_int_eq(
		rmem_attach(another, "shared", RMEM_READ | RMEM_WRITE, ret_theirs), 0);
	return lease;
}

/* End the lease "mine" in one of four ways. */
static void end_mine(rmem *another, rmem_lease *lease, enum rmem_reason reason)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *other;

	switch (reason) {
	case RMEM_REASON_FREED:
		ck_assert_int_eq(rmem_remove(another, "mine"), 0);
		break;
	case RMEM_REASON_EXPIRED:
		ck_assert_int_eq(rmem_renew(lease, 20), 0);
		break;
	case RMEM_REASON_REVOKED:
		proxy_event(WIRE_TYPE_revoked, rmem_lease_id(lease),
			    WIRE_REASON_REVOKED);
		break;
	default:
		params.bytes = 1;
		ck_assert_int_eq(rmem_alloc(another, &params, &other), 0);
		ck_assert_int_eq(rmem_rename(other, "mine", RMEM_RENAME_REPLACE), 0);
		break;
	}
}

static const struct {
	enum rmem_reason reason;
	const char *text;
} endings[] = {
	{ RMEM_REASON_FREED, "the lease was freed" },
	{ RMEM_REASON_EXPIRED, "the lease has expired" },
	{ RMEM_REASON_REVOKED, "the server has revoked the lease" },
	{ RMEM_REASON_REPLACED, "the lease was replaced" },
};

START_TEST(ended_lease__tells_its_name_and_why)
{
	rmem *another = open_another("");
	rmem_lease *lease;
	char label[64];

	open_with(0);
	lease = alloc(1000, "first");
	ck_assert_int_eq(rmem_rename(lease, "mine", 0), 0);
	ck_assert_int_eq((int)rmem_lease_reason(lease), RMEM_REASON_NONE);
	(void)snprintf(label, sizeof(label), "of lease %" PRIu64 " (\"mine\")",
		       rmem_lease_id(lease));
	ck_assert_int_eq(rmem_shrink(lease, 1001), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), label));
	end_mine(another, lease, endings[_i].reason);
	AWAIT(rmem_lease_status(lease) == -ESTALE);
	ck_assert_int_eq((int)rmem_lease_reason(lease), (int)endings[_i].reason);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), -ESTALE);
	ck_assert_ptr_nonnull(strstr(rmem_error(), endings[_i].text));
	ck_assert_ptr_nonnull(strstr(rmem_error(), label));
	ck_assert_int_eq(rmem_grow(lease, 2000), -ESTALE);
	ck_assert_ptr_nonnull(strstr(rmem_error(), endings[_i].text));
	ck_assert_ptr_nonnull(strstr(rmem_error(), label));
	rmem_close(another);
}
END_TEST

/* A name that another session has given shows once the lease is attached again. */
/* An attach request was refused before the event that tells why. */
START_TEST(ended_lease__learns_later_why)
{
	rmem_lease *lease = open_with_lease(0);
	static const struct {
		enum rmem_reason told, known;
	} ends[] = { { RMEM_REASON_UNKNOWN, RMEM_REASON_UNKNOWN },
		     { RMEM_REASON_REVOKED, RMEM_REASON_REVOKED },
		     { RMEM_REASON_EXPIRED, RMEM_REASON_REVOKED } };

	for (unsigned i = 0; i < 3; i++) {
		(void)pthread_mutex_lock(&stage.client->lock);
		lease_end(lease, ends[i].told);
		(void)pthread_mutex_unlock(&stage.client->lock);
		ck_assert_int_eq((int)rmem_lease_reason(lease), (int)ends[i].known);
	}
}
END_TEST

START_TEST(lease_name__follows_the_server)
{
	rmem *another = open_another("");
	rmem_lease *lease, *theirs;

	lease = alloc_shared(another, &theirs);
	ck_assert_int_eq(rmem_rename(theirs, "theirs", 0), 0);
	ck_assert_int_eq(rmem_grow(lease, 9000), 0);
	ck_assert_int_eq(rmem_shrink(lease, 9001), -EINVAL);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "(\"theirs\")"));
	rmem_close(another);
}
END_TEST

START_TEST(keys__that_are_stale_are_requested_again)
{
	rmem *another = open_another("");
	rmem_lease *lease, *theirs;
	uint64_t old;

	lease = alloc_shared(another, &theirs);
	old = proxy_rkey(rmem_lease_id(lease));
	/* the lease has other keys, and the event is held */
	proxy.hold = WIRE_TYPE_changed;
	ck_assert_int_eq(rmem_shrink(theirs, 4096), 0);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), 0);
	ck_assert_mem_eq(proxy_memory(rmem_lease_id(lease)), stage.buf, 100);
	ck_assert_uint_ne(proxy_rkey(rmem_lease_id(lease)), old);
	proxy_release();
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	/* the server grants the dead key again */
	fake_server_replace_key(proxy_rkey(rmem_lease_id(lease)));
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), -EACCES);
	/* the lease has ended, and the event is held */
	proxy.hold = WIRE_TYPE_revoked;
	ck_assert_int_eq(rmem_remove(another, "shared"), 0);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 100), -ESTALE);
	rmem_close(another);
}
END_TEST

/* A refused write waits for keys that were requested after the refusal. */
START_TEST(keys__requested_before_a_refusal_are_requested_again)
{
	struct rmem_completion completion;
	rmem *another = open_another("");
	rmem_lease *lease, *theirs;
	int status;

	set_heartbeat(5000, 20000);
	lease = alloc_shared(another, &theirs);
	queue_open(0);
	proxy.delay = WIRE_TYPE_attach;
	ck_assert_int_eq(rmem_shrink(theirs, 4096), 0);
	proxy_await(WIRE_TYPE_attach, 1);
	/* the proxy has the reply when the keys change once more */
	proxy_await_count(&proxy.delayed, 1);
	proxy.hold = WIRE_TYPE_changed;
	ck_assert_int_eq(rmem_shrink(theirs, 1000), 0);
	submit_write(lease);
	ck_assert_int_eq(rmem_poll(stage.queue, &completion, 1), 0);
	/* makes the proxy send the delayed reply */
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	status = wait_status();
	ck_assert_msg(status == 0, "%d: %s", status,
		      rmem_completion_error(stage.queue, NULL));
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_attach], 2);
	proxy_release();
	rmem_close(another);
}
END_TEST

/* The number of attachments of the lease that are older than the current one. */
static unsigned old_attachments(rmem_lease *lease)
{
	const struct attachment *attachment;
	unsigned n = 0;

	(void)pthread_mutex_lock(&stage.client->lock);
	attachment = atomic_load(&lease->attachment);
	while ((attachment = attachment->older))
		n++;
	(void)pthread_mutex_unlock(&stage.client->lock);
	return n;
}

START_TEST(attachments__are_freed_when_unused)
{
	const struct attachment *before;
	rmem_lease *lease = open_with_lease(0);

	queue_open(1);
	fake.automatic = false;
	submit_write(lease);
	/* no call reads the old attachment, whatever is outstanding */
	ck_assert_int_eq(rmem_grow(lease, 1001), 0);
	ck_assert_uint_eq(old_attachments(lease), 0);
	/* a call of the queue may */
	attachments_enter(&stage.queue->inflights);
	for (uint64_t bytes = 1002; bytes <= 1004; bytes++)
		ck_assert_int_eq(rmem_grow(lease, bytes), 0);
	ck_assert_uint_eq(old_attachments(lease), 3);
	attachments_leave(&stage.queue->inflights);
	AWAIT(old_attachments(lease) == 0);
	/* an equal reply makes no new attachment */
	before = atomic_load(&lease->attachment);
	proxy_event(WIRE_TYPE_changed, rmem_lease_id(lease), 0);
	proxy_await(WIRE_TYPE_attach, 1);
	ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	ck_assert_ptr_eq(atomic_load(&lease->attachment), before);
	/* the key of the posted operation is dead: it is posted again */
	fake.automatic = true;
	fake_complete_all();
	ck_assert_int_eq(wait_status(), 0);
	ck_assert_uint_eq(rmem_lease_bytes(lease), 1004);
}
END_TEST

/* Each answer to an attach has another key. */
static void key_edit(struct wire_msg *msg)
{
	static uint64_t key = 5000;

	if (msg->type == WIRE_TYPE_lease)
		msg->lease.keys[0].rkey = key++;
}

/* A server that changes a lease without end fills no memory while a call of a queue lasts. */
START_TEST(attachments__are_two_while_a_call_lasts)
{
	rmem_lease *lease = open_with_lease(0);

	queue_open(1);
	proxy.edit = key_edit;
	attachments_enter(&stage.queue->inflights);
	for (unsigned i = 0; i < 50; i++) {
		proxy_event(WIRE_TYPE_changed, rmem_lease_id(lease), 0);
		ck_assert_int_eq(rmem_ping(stage.client, NULL), 0);
	}
	ck_assert_uint_eq(old_attachments(lease), 1);
	ck_assert_uint_eq(proxy.seen[WIRE_TYPE_attach], 1);
	/* and the last change is not forgotten */
	attachments_leave(&stage.queue->inflights);
	proxy_await(WIRE_TYPE_attach, 2);
	AWAIT(old_attachments(lease) == 0);
	proxy.edit = NULL;
}
END_TEST

int main(void)
{
	TCase *tc = core_case("leases");

	tcase_add_test(tc, lease__passes_through_all_calls);
	tcase_add_loop_test(tc, name__that_is_refused_is_not_sent, 0, 3);
	tcase_add_test(tc, layout__has_the_placement_and_the_nodes);
	tcase_add_loop_test(tc, alloc__fails, 0,
			    sizeof(bad_params) / sizeof(bad_params[0]));
	tcase_add_test(tc, list__fetches_all_pages);
	tcase_add_test(tc, list__ends_in_time);
	tcase_add_test(tc, alloc__without_a_name_takes_a_time_to_live);
	tcase_add_test(tc, names__that_cannot_be_are_not_sent);
	tcase_add_test(tc, events__reach_the_lease);
	tcase_add_loop_test(tc, ended_lease__tells_its_name_and_why, 0,
			    sizeof(endings) / sizeof(endings[0]));
	tcase_add_test(tc, ended_lease__learns_later_why);
	tcase_add_test(tc, lease_name__follows_the_server);
	tcase_add_test(tc, keys__that_are_stale_are_requested_again);
	tcase_add_test(tc, attachments__are_freed_when_unused);
	tcase_add_test(tc, attachments__are_two_while_a_call_lasts);
	tcase_add_test(tc, keys__requested_before_a_refusal_are_requested_again);
	return unit_main();
}
