/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications: values that sessions send to those who watch a lease. */
#include "base/notices.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/ledger_record.h"
#include "rmemd/lease/lease_table.h"

int lease_watch(struct leases *leases, struct lease_client *client, uint64_t id)
{
	struct attachment *attachment = NULL;
	int err;

	/* whatever its rights, it may read */
	err = leases_find_attached(leases, client, id, &attachment);
	if (err)
		return err;
	if (!list_empty(&attachment->watching))
		return 0;
	err = lease_record_reserve(attachment->lease);
	if (!err && client->n_watches == 0)
		err = notices_open(&client->notices, LEASE_CLIENT_NOTICES_MAX);
	if (err)
		return err;
	client->n_watches++;
	list_append(&attachment->lease->watchers, &attachment->watching);
	(void)attachment_record(attachment);
	return 0;
}

void attachment_unwatch(struct attachment *attachment)
{
	struct lease_client *client = attachment->client;

	if (list_empty(&attachment->watching))
		return;
	list_remove(&attachment->watching);
	notices_drop(&client->notices, &attachment->notices);
	if (--client->n_watches == 0)
		notices_close(&client->notices);
}

int lease_unwatch(struct leases *leases, struct lease_client *client, uint64_t id)
{
	struct attachment *attachment = NULL;
	int err;

	err = leases_find_attached(leases, client, id, &attachment);
	if (err)
		return err;
	err = lease_record_reserve(attachment->lease);
	if (err)
		return err;
	attachment_unwatch(attachment);
	(void)attachment_record(attachment);
	return 0;
}

void lease_notified(void *mr_cookie, uint32_t value, uint32_t lost)
{
	const struct mr *mr = mr_cookie;
	struct lease *lease = mr->lease;
	const struct leases *leases = lease->leases;

	/* the key may be dying, but what came through it before did come; of a lease that
	 * has ended there are no watchers */
	list_for_each(node, &lease->watchers) {
		struct attachment *watcher =
			container_of(node, struct attachment, watching);

		notices_put(&watcher->client->notices,
			    &(struct notice){ .source = &watcher->notices,
					      .value = value,
					      .lost = lost });
		leases->events->noticed(leases->ctx, watcher->client);
	}
}

bool lease_next_notices(struct lease_client *client, struct wire_notified *ret_msg)
{
	struct notice taken[WIRE_NOTICES_MAX];
	unsigned n = notices_take(&client->notices, taken, WIRE_NOTICES_MAX);

	for (unsigned i = 0; i < n; i++)
		ret_msg->notices[i] = (struct wire_notice){
			.lease = container_of(taken[i].source, struct attachment,
					      notices)
					 ->lease->id,
			.value = taken[i].value,
			.lost = taken[i].lost,
		};
	ret_msg->n_notices = (uint16_t)n;
	return n > 0;
}
