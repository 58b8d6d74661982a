/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/channel/qp_exchange.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "librmem/session/session.h"

static int qp_info_take(void *ctx, int err, const struct wire_msg *reply)
{
	struct fabric_qp_info *end = ctx;

	if (err)
		return err;
	*end = (struct fabric_qp_info){ .qpn = 0 };
	WIRE_END_COPY(end, &reply->joined);
	return 0;
}

int qp_exchange(void *ctx, const struct fabric_qp_info *ours, unsigned timeout_ms,
		struct fabric_qp_info *ret_theirs)
{
	const struct qp_exchange *join = ctx;
	struct wire_msg request;

	request.type = WIRE_TYPE_join_channel;
	request.id = 0;
	request.join_channel.channel = join->channel;
	WIRE_END_COPY(&request.join_channel, ours);
	return session_call_while_up(join->session, &request, qp_info_take, ret_theirs,
				     clock_now_ns() + timeout_ms * UINT64_C(1000000));
}
