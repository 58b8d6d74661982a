/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/lease/attachment.h"

static unsigned fabric_rights(unsigned rights)
{
	unsigned result = 0;

	if (rights & WIRE_RIGHT_READ)
		result |= FABRIC_RIGHT_READ;
	if (rights & WIRE_RIGHT_WRITE)
		result |= FABRIC_RIGHT_WRITE;
	return result;
}

/* The key comes with the news, or is there at once. */
static int expose(struct mr *mr, struct fabric_session *session, unsigned rights)
{
	const struct fabric_server_ops *ops = mr->ops;
	void *addr = extent_addr(&mr->segment->extent);
	int err;

	if (!ops->reg_mr_now)
		return ops->reg_mr(session, addr, mr->bytes, rights, mr, &mr->fabric);
	err = ops->reg_mr_now(session, addr, mr->bytes, rights, mr, &mr->fabric,
			      &mr->key);
	if (!err)
		mr->state = MR_LIVE;
	return err;
}

int mr_register(struct attachment *attachment, struct segment *segment, unsigned port)
{
	const struct lease_client_port *at = &attachment->client->ports[port];
	struct mr *mr;
	int err;

	err = lease_client_charge_key(attachment->client);
	if (err)
		return err;
	mr = malloc(sizeof(*mr));
	if (!mr) {
		lease_client_uncharge_key(attachment->client);
		return err_set(-ENOMEM, "no memory for a key");
	}
	*mr = (struct mr){
		.lease = attachment->lease,
		.attachment = attachment,
		.client = attachment->client,
		.segment = segment,
		.ops = at->ops,
		.port = port,
		.bytes = segment->bytes,
	};
	err = expose(mr, at->session, fabric_rights(attachment->rights));
	if (err) {
		lease_client_uncharge_key(attachment->client);
		free(mr);
		return err;
	}
	segment_ref(segment);
	list_append(&attachment->mrs, &mr->link);
	attachment->pending += mr->state == MR_PENDING;
	return 0;
}

void mr_deregister(struct mr *mr, bool fenced)
{
	struct lease *lease = mr->lease;

	if (mr->state == MR_PENDING)
		mr->attachment->pending--;
	mr->state = MR_DYING;
	mr->attachment = NULL;
	list_remove(&mr->link);
	list_append(&lease->dying, &mr->link);
	if (fenced)
		return;
	if (!mr->ops->dereg_mr_now)
		mr->ops->dereg_mr(mr->fabric);
	else if (mr->ops->dereg_mr_now(mr->fabric))
		mr_free(mr);
}

void mr_free(struct mr *mr)
{
	if (mr->state == MR_PENDING)
		mr->attachment->pending--;
	list_remove(&mr->link);
	segment_unref(mr->segment);
	lease_client_uncharge_key(mr->client);
	free(mr);
}

void lease_mr_registered(void *mr_cookie, int err, const char *text,
			 const struct fabric_key *key)
{
	struct mr *mr = mr_cookie;
	struct attachment *attachment = mr->attachment;
	struct lease *lease = mr->lease;

	if (mr->state == MR_DYING) {
		/* It crossed the withdrawal; with an error there will be no other news.
		 */
		if (err)
			lease_mr_deregistered(mr);
		return;
	}
	if (err) {
		mr_free(mr);
		lease_fail_waiters(lease, attachment, err, text);
		lease_settle(lease);
		return;
	}
	mr->state = MR_LIVE;
	mr->key = *key;
	attachment->pending--;
	attachment_retire(attachment);
	lease_settle(lease);
}

void lease_mr_deregistered(void *mr_cookie)
{
	struct mr *mr = mr_cookie;
	struct lease *lease = mr->lease;

	mr_free(mr);
	lease_settle(lease);
}
