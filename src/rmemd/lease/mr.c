/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/lease/attachment.h"

static int fabric_register(struct mr *mr, struct fabric_session *session)
{
	void *addr = extent_addr(&mr->segment->extent);
	unsigned rights =
		mr->attachment->rights & WIRE_RIGHT_READ ? FABRIC_RIGHT_READ : 0;
	int done;

	if (mr->attachment->rights & WIRE_RIGHT_WRITE)
		rights |= FABRIC_RIGHT_WRITE;
	done = mr->ops->reg_mr(session, addr, mr->bytes, rights, mr, &mr->fabric,
			       &mr->key);
	if (done == 1)
		mr_set_live(mr);
	return done < 0 ? done : 0;
}

void mr_set_live(struct mr *mr)
{
	struct leases *leases = mr->segment->lease->leases;

	mr->state = MR_LIVE;
	durations_add(&leases->counters.registrations, clock_now_ns() - mr->begun_ns);
}

int mr_register(struct attachment *attachment, struct segment *segment, unsigned port)
{
	struct lease_client *client = attachment->client;
	struct mr *mr;
	/* each key costs a registration and memory of the daemon */
	int err = tenant_check_keys(client->tenant, client->n_keys);

	if (err)
		return err;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return err_set(-ENOMEM, "no memory for a key");
	*mr = (struct mr){
		.attachment = attachment,
		.client = client,
		.segment = segment,
		.ops = client->ports[port].ops,
		.port = port,
		.bytes = segment->bytes,
		.begun_ns = clock_now_ns(),
	};
	err = fabric_register(mr, client->ports[port].session);
	if (err) {
		free(mr);
		return err;
	}
	client->n_keys++;
	client->tenant->n_keys++;
	segment->refs++;
	list_append(&attachment->mrs, &mr->link);
	attachment->pending += mr->state == MR_PENDING;
	return 0;
}

void mr_add_traffic(const struct mr *mr, struct fabric_mr_traffic *sum)
{
	if (mr->state == MR_LIVE && mr->ops->mr_traffic)
		mr->ops->mr_traffic(mr->fabric, sum);
}

void mr_deregister(struct mr *mr)
{
	struct lease *lease = mr->segment->lease;

	/* what is under way now is not counted */
	if (!lease->leases->closing) {
		mr_add_traffic(mr, &lease->traffic);
		mr_add_traffic(mr, &mr->client->traffic);
	}

	if (mr->state == MR_PENDING)
		mr->attachment->pending--;
	mr->state = MR_DYING;
	mr->attachment = NULL;
	list_move(&lease->dying, &mr->link);
	/* the fabrics are closed, and every key is dead */
	if (lease->leases->closing)
		return;
	if (mr->ops->dereg_mr(mr->fabric))
		mr_free(mr);
}

void mr_free(struct mr *mr)
{
	if (mr->state == MR_PENDING)
		mr->attachment->pending--;
	list_remove(&mr->link);
	segment_unref(mr->segment);
	mr->client->n_keys--;
	mr->client->tenant->n_keys--;
	free(mr);
}
