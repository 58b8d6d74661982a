/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/lease_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/lease/attachment.h"

/* Two quotes, three dots and the end of the string. */
#define KEPT_BYTES (QUOTE_BYTES - 6)

static struct lease *lease_at(const struct list *node)
{
	return container_of((struct list *)(uintptr_t)node, struct lease, all);
}

void lease_changed(struct lease *lease)
{
	if (list_empty(&lease->changed))
		list_append(&lease->leases->changed, &lease->changed);
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
	/* search the shorter of the two lists that hold it */
	if (lease->n_attachments > client->n_attachments) {
		list_for_each(node, &client->attachments) {
			struct attachment *attachment =
				container_of(node, struct attachment, in_client);

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

int leases_find_attached(const struct leases *leases, const struct lease_client *client,
			 uint64_t id, struct attachment **ret_attachment)
{
	struct attachment *attachment = leases_find(leases, client, id);

	if (!attachment)
		return err_set(-ESTALE,
			       "lease %" PRIu64
			       " has ended, or this session does not have it",
			       id);
	*ret_attachment = attachment;
	return 0;
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

const struct list *leases_behind(const struct leases *leases, uint64_t after)
{
	const struct lease *lease = leases_find_id(leases, after);
	const struct list *node = lease ? &lease->all : &leases->all;

	do {
		node = node->next;
	} while (node != &leases->all && lease_at(node)->id <= after);
	return node;
}

const char *quote_name(const char *name, char buf[QUOTE_BYTES])
{
	size_t bytes = strlen(name), kept = bytes;

	if (bytes > KEPT_BYTES) {
		kept = KEPT_BYTES;
		/* not in the middle of a character of UTF-8 */
		while (kept > KEPT_BYTES - 4 &&
		       ((unsigned char)name[kept] & 0xc0) == 0x80)
			kept--;
	}
	(void)snprintf(buf, QUOTE_BYTES, "\"%.*s\"%s", (int)kept, name,
		       kept < bytes ? "..." : "");
	return buf;
}
