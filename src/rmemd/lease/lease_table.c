/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/lease_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"

/* Others get their turn before more leases end; the rest stays due. */
#define ENDS_PER_TICK 64

int leases_open(struct pools *pools, struct ledger *ledger,
		const struct leases_events *events, void *ctx, uint64_t first_id,
		struct leases **ret_leases)
{
	struct leases *leases = calloc(1, sizeof(*leases));

	if (!leases)
		return err_set(-ENOMEM, "no memory for the leases");
	leases->pools = pools;
	leases->ledger = ledger;
	leases->events = events;
	leases->ctx = ctx;
	leases->next_id = first_id;
	map_init(&leases->by_id);
	list_init(&leases->all);
	list_init(&leases->ended);
	list_init(&leases->waiting);
	list_init(&leases->releasing);
	deadlines_init(&leases->deadlines);
	*ret_leases = leases;
	return 0;
}

/* The lease has ended and its keys will not be heard of again. */
static void drop_keys(struct lease *lease)
{
	struct mr *mr;

	while ((mr = list_first(&lease->dying, struct mr, link)))
		mr_free(mr);
}

void leases_close(struct leases *leases)
{
	struct lease *lease;

	if (!leases)
		return;
	leases->closing = true;
	while ((lease = list_first(&leases->all, struct lease, all))) {
		list_for_each(node, &lease->attachments)
			attachment_fence(
				container_of(node, struct attachment, in_lease));
		drop_keys(lease);
		lease_end(lease, WIRE_REASON_SHUTDOWN, NULL);
		lease_settle(lease);
	}
	while ((lease = list_first(&leases->ended, struct lease, all))) {
		drop_keys(lease);
		lease_settle(lease);
	}
	deadlines_destroy(&leases->deadlines);
	map_destroy(&leases->by_id);
	free(leases);
}

void leases_tick(struct leases *leases)
{
	uint64_t now_ms = clock_now_ms();
	struct deadline *first;

	for (unsigned i = 0; i < ENDS_PER_TICK; i++) {
		struct lease *lease;

		first = deadlines_first(&leases->deadlines);
		if (!first || first->due_ms > now_ms)
			break;
		lease = container_of(first, struct lease, deadline);
		leases->expired_ever++;
		lease_end(lease, WIRE_REASON_EXPIRED, NULL);
		lease_settle(lease);
	}
	leases_give_up(leases, now_ms);
	if (leases->reclaim_all)
		leases_reclaim_some(leases, now_ms);
}

uint64_t leases_next_ms(const struct leases *leases)
{
	const struct deadline *first = deadlines_first(&leases->deadlines);
	const struct lease *waiting =
		list_first(&leases->waiting, struct lease, waiting);
	uint64_t next_ms = first ? first->due_ms : UINT64_MAX;

	/* every request waits equally long, so the first gives up first */
	if (waiting && waiting->give_up_ms < next_ms)
		next_ms = waiting->give_up_ms;
	return leases->reclaim_all ? 0 : next_ms;
}

struct lease *leases_find_id(const struct leases *leases, uint64_t id)
{
	struct map_node *node = map_find(&leases->by_id, map_hash_u64(id));

	for (; node; node = map_find_next(node)) {
		struct lease *lease = container_of(node, struct lease, by_id);

		if (lease->id == id)
			return lease;
	}
	return NULL;
}

struct attachment *leases_find(const struct leases *leases,
			       const struct lease_client *client, uint64_t id)
{
	struct lease *lease = leases_find_id(leases, id);

	if (!lease || lease->state != LEASE_READY)
		return NULL;
	/* the shorter of the two lists that hold it */
	if (lease->n_attachments > client->n_attachments) {
		list_for_each(node, &client->attachments) {
			struct attachment *attachment =
				container_of(node, struct attachment, in_holder);

			if (attachment->lease == lease)
				return attachment;
		}
		return NULL;
	}
	list_for_each(node, &lease->attachments) {
		struct attachment *attachment =
			container_of(node, struct attachment, in_lease);

		if (attachment->client == client)
			return attachment;
	}
	return NULL;
}

struct lease *leases_find_name(const struct tenant *tenant, const char *name)
{
	struct map_node *node = map_find(&tenant->names, map_hash_string(name));

	for (; node; node = map_find_next(node)) {
		struct lease *lease = container_of(node, struct lease, by_name);

		if (strcmp(lease->name, name) == 0)
			return lease;
	}
	return NULL;
}

int leases_each(const struct leases *leases,
		int (*each)(const struct lease_status *status, void *arg), void *arg)
{
	struct lease_status status;
	int result;

	list_for_each(node, &leases->all) {
		lease_fill_status(container_of(node, struct lease, all), &status);
		result = each(&status, arg);
		if (result)
			return result;
	}
	return 0;
}

const struct list *leases_behind(const struct leases *leases, uint64_t after)
{
	const struct lease *lease = leases_find_id(leases, after);
	const struct list *node = lease ? &lease->all : &leases->all;

	do {
		node = node->next;
	} while (node != &leases->all &&
		 container_of((struct list *)(uintptr_t)node, struct lease, all)->id <=
			 after);
	return node;
}

int leases_each_named(const struct leases *leases, const struct tenant *tenant,
		      uint64_t after, const char *prefix,
		      int (*each)(const struct lease_status *status, void *arg),
		      void *arg)
{
	const struct list *node = leases_behind(leases, after);
	size_t prefix_len = strlen(prefix);
	struct lease_status status;
	int result;

	for (; node != &leases->all; node = node->next) {
		struct lease *lease =
			container_of((struct list *)(uintptr_t)node, struct lease, all);

		if (!lease->name || lease->tenant != tenant ||
		    lease->state != LEASE_READY ||
		    strncmp(lease->name, prefix, prefix_len) != 0)
			continue;
		lease_fill_status(lease, &status);
		result = each(&status, arg);
		if (result)
			return result;
	}
	return 0;
}

unsigned leases_count(const struct leases *leases)
{
	return (unsigned)leases->by_id.n_nodes;
}

uint64_t leases_granted_ever(const struct leases *leases)
{
	return leases->granted_ever;
}

uint64_t leases_expired_ever(const struct leases *leases)
{
	return leases->expired_ever;
}

uint64_t leases_waited_ever(const struct leases *leases)
{
	return leases->waited_ever;
}

uint64_t leases_waited_ms(const struct leases *leases)
{
	return leases->waited_ms;
}
