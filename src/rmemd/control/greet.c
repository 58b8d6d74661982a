/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about the session itself and its channels. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/handler.h"
#include "rmemd/control/peer.h"
#include "rmemd/control/session.h"

static int check_hello(const struct control *control, const struct wire_hello *hello)
{
	if (hello->magic != WIRE_MAGIC)
		return err_set(-EPROTO, "a hello without rmem's magic");
	if (hello->version_min > WIRE_VERSION_MAX ||
	    hello->version_max < WIRE_VERSION_MIN)
		return err_set(
			-ENOTSUP,
			"the client speaks versions %u to %u, this server %d to %d",
			hello->version_min, hello->version_max, WIRE_VERSION_MIN,
			WIRE_VERSION_MAX);
	if (strcmp(hello->tenant, control->tenant->name) != 0)
		return err_set(-EACCES, "there is no tenant \"%s\"", hello->tenant);
	return 0;
}

static int greet(struct peer *peer, const struct wire_hello *hello, uint64_t id)
{
	struct sessions *sessions = peer->control->sessions;
	unsigned endpoint = 0;
	uint32_t channel;
	int err;

	err = check_hello(peer->control, hello);
	if (err)
		return err;
	peer->version = hello->version_max < WIRE_VERSION_MAX ? hello->version_max
							      : WIRE_VERSION_MAX;
	if (hello->resume)
		return session_resume(sessions, peer, hello->resume, hello->token, id);
	err = session_open(sessions, peer, hello->client);
	if (err)
		return err;
	channel = session_open_first(peer->session, (enum wire_fabric)hello->channel,
				     &endpoint);
	session_welcome(peer->session, id, false, channel, endpoint);
	peer->ops->greeted(peer);
	return 0;
}

int handle_hello(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	int err = greet(peer, &msg->hello, msg->id);

	(void)out;
	if (err)
		peer_refuse(peer, msg->id, err, err_text());
	return HANDLER_LATER;
}

int handle_ping(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	(void)peer;
	(void)msg;
	out->type = WIRE_TYPE_ok;
	return HANDLER_ANSWER;
}

int handle_bye(struct peer *peer, const struct wire_msg *msg, struct wire_msg *out)
{
	(void)out;
	session_bye(peer->session, msg->id);
	return HANDLER_LATER;
}

int handle_open_channel(struct peer *peer, const struct wire_msg *msg,
			struct wire_msg *out)
{
	const struct fabric_endpoint *facts;
	uint32_t channel;
	int err;

	err = session_open_channel(peer->session, msg->open_channel.endpoint, &channel);
	if (err)
		return err;
	out->type = WIRE_TYPE_channel;
	out->channel.channel = channel;
	facts = peer->control->endpoints->at[msg->open_channel.endpoint].facts;
	out->channel.family = facts->address.family;
	memcpy(out->channel.address, facts->address.bytes,
	       sizeof(out->channel.address));
	out->channel.port = facts->address.port;
	return HANDLER_ANSWER;
}

int handle_close_channel(struct peer *peer, const struct wire_msg *msg,
			 struct wire_msg *out)
{
	int err = session_close_channel(peer->session, msg->close_channel.channel);

	if (err)
		return err;
	out->type = WIRE_TYPE_ok;
	return HANDLER_ANSWER;
}

int handle_join_channel(struct peer *peer, const struct wire_msg *msg,
			struct wire_msg *out)
{
	const struct wire_join_channel *theirs = &msg->join_channel;
	struct fabric_end end = {
		.qpn = theirs->qpn,
		.psn = theirs->psn,
		.lid = theirs->lid,
		.pkey = theirs->pkey,
		.mtu = theirs->mtu,
		.rd_atomic = theirs->rd_atomic,
		.retry_count = theirs->retry_count,
		.rnr_retry_count = theirs->rnr_retry_count,
	};
	int err;

	memcpy(end.gid, theirs->gid, sizeof(end.gid));
	err = session_join_channel(peer->session, theirs->channel, &end, &end);
	if (err)
		return err;
	out->type = WIRE_TYPE_joined;
	out->joined = (struct wire_joined){
		.qpn = end.qpn,
		.psn = end.psn,
		.lid = end.lid,
		.pkey = end.pkey,
		.mtu = end.mtu,
		.rd_atomic = end.rd_atomic,
		.retry_count = end.retry_count,
		.rnr_retry_count = end.rnr_retry_count,
	};
	memcpy(out->joined.gid, end.gid, sizeof(end.gid));
	return HANDLER_ANSWER;
}
