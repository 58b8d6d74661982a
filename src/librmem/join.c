/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/join.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "librmem/session.h"

static int joined_take(void *ctx, int err, const struct wire_msg *reply)
{
	struct fabric_end *end = ctx;

	if (err)
		return err;
	*end = (struct fabric_end){
		.qpn = reply->joined.qpn,
		.psn = reply->joined.psn,
		.lid = reply->joined.lid,
		.pkey = reply->joined.pkey,
		.mtu = reply->joined.mtu,
		.rd_atomic = reply->joined.rd_atomic,
		.retry_count = reply->joined.retry_count,
		.rnr_retry_count = reply->joined.rnr_retry_count,
	};
	memcpy(end->gid, reply->joined.gid, sizeof(end->gid));
	return 0;
}

int join_exchange(void *ctx, const struct fabric_end *ours, unsigned timeout_ms,
		  struct fabric_end *ret_theirs)
{
	const struct join *join = ctx;
	struct wire_msg request;

	request.type = WIRE_TYPE_join_channel;
	request.id = 0;
	request.join_channel = (struct wire_join_channel){
		.channel = join->channel,
		.qpn = ours->qpn,
		.psn = ours->psn,
		.lid = ours->lid,
		.pkey = ours->pkey,
		.mtu = ours->mtu,
		.rd_atomic = ours->rd_atomic,
		.retry_count = ours->retry_count,
		.rnr_retry_count = ours->rnr_retry_count,
	};
	memcpy(request.join_channel.gid, ours->gid, sizeof(ours->gid));
	if (join->alone)
		return session_call_alone(join->session, &request, joined_take,
					  ret_theirs, timeout_ms);
	return session_call(join->session, &request, joined_take, ret_theirs);
}
