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
static int expose(struct exposure *exposure, struct fabric_session *session,
		  unsigned rights)
{
	const struct fabric_server_ops *ops = exposure->ops;
	void *addr = extent_addr(&exposure->segment->extent);
	int err;

	if (!ops->reg_mr_now)
		return ops->reg_mr(session, addr, exposure->bytes, rights, exposure,
				   &exposure->fabric);
	err = ops->reg_mr_now(session, addr, exposure->bytes, rights, exposure,
			      &exposure->fabric, &exposure->key);
	if (!err)
		exposure->state = EXPOSURE_LIVE;
	return err;
}

int exposure_create(struct attachment *attachment, struct segment *segment,
		    unsigned port)
{
	const struct holder_port *at = &attachment->holder->ports[port];
	struct exposure *exposure;
	int err;

	err = holder_charge_key(attachment->holder);
	if (err)
		return err;
	exposure = malloc(sizeof(*exposure));
	if (!exposure) {
		holder_uncharge_key(attachment->holder);
		return err_set(-ENOMEM, "no memory for a key");
	}
	*exposure = (struct exposure){
		.lease = attachment->lease,
		.attachment = attachment,
		.holder = attachment->holder,
		.segment = segment,
		.ops = at->ops,
		.port = port,
		.bytes = segment->bytes,
	};
	err = expose(exposure, at->session, fabric_rights(attachment->rights));
	if (err) {
		holder_uncharge_key(attachment->holder);
		free(exposure);
		return err;
	}
	segment_ref(segment);
	list_append(&attachment->exposures, &exposure->link);
	attachment->pending += exposure->state == EXPOSURE_PENDING;
	return 0;
}

void exposure_end(struct exposure *exposure, bool fenced)
{
	struct lease *lease = exposure->lease;

	if (exposure->state == EXPOSURE_PENDING)
		exposure->attachment->pending--;
	exposure->state = EXPOSURE_DYING;
	exposure->attachment = NULL;
	list_remove(&exposure->link);
	list_append(&lease->dying, &exposure->link);
	if (fenced)
		return;
	if (!exposure->ops->dereg_mr_now)
		exposure->ops->dereg_mr(exposure->fabric);
	else if (exposure->ops->dereg_mr_now(exposure->fabric))
		exposure_free(exposure);
}

void exposure_free(struct exposure *exposure)
{
	if (exposure->state == EXPOSURE_PENDING)
		exposure->attachment->pending--;
	list_remove(&exposure->link);
	segment_unref(exposure->segment);
	holder_uncharge_key(exposure->holder);
	free(exposure);
}

void lease_exposed(void *mr_cookie, int err, const char *text,
		   const struct fabric_key *key)
{
	struct exposure *exposure = mr_cookie;
	struct attachment *attachment = exposure->attachment;
	struct lease *lease = exposure->lease;

	if (exposure->state == EXPOSURE_DYING) {
		/* It crossed the withdrawal; with an error there will be no other news.
		 */
		if (err)
			lease_withdrawn(exposure);
		return;
	}
	if (err) {
		exposure_free(exposure);
		lease_fail_waiters(lease, attachment, err, text);
		lease_settle(lease);
		return;
	}
	exposure->state = EXPOSURE_LIVE;
	exposure->key = *key;
	attachment->pending--;
	attachment_retire(attachment);
	lease_settle(lease);
}

void lease_withdrawn(void *mr_cookie)
{
	struct exposure *exposure = mr_cookie;
	struct lease *lease = exposure->lease;

	exposure_free(exposure);
	lease_settle(lease);
}
