/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients' half of the simulated fabrics: the fake fabric of the unit tests, whose operations
 * are packets. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd_wait.h"
#include "simulate/clients.h"
#include "simulate/fabric.h"
#include "simulate/wires.h"
#include "unit/librmem/fake-fabric-wire.h"

#define INLINE_MAX 64u

unsigned fabric_client_objects(void)
{
	return (unsigned)fake.live;
}

static int fail_registration(void)
{
	return sim_now_ns < sim_faults.registration_ns && sim_chance(sim_faults.one_in)
		       ? -ENOMEM
		       : 0;
}

/* The client's end leaves the wire; packets on their way arrive all the same. */
static void leave(struct fabric_channel *channel)
{
	struct wire *wire = channel->peer;

	if (wire)
		wire->channel = NULL;
	channel->peer = NULL;
}

static void disconnect(struct fabric_channel *channel)
{
	if (channel->peer)
		(void)wire_send(channel->peer, TO_DAEMON, PACKET_DISCONNECT, NULL, 0);
	leave(channel);
}

static int connect_result(const struct fabric_channel *channel, int waited)
{
	if (channel->connect_err != -EINPROGRESS && channel->connect_err)
		return err_set(channel->connect_err, "the simulated server refuses it");
	if (!channel->connect_err && !channel->peer_gone)
		return 0;
	if (waited == -ECANCELED)
		return err_set(waited, "cancelled");
	if (waited)
		return err_set(-ETIMEDOUT, "the simulated server does not answer");
	return err_set(-ECONNRESET, "the simulated server ended it");
}

static int channel_connect(struct fabric_channel *channel,
			   const struct fabric_channel_params *params)
{
	struct wire *wire = wire_new(client_running(), &channel->cq->domain->endpoint);
	eventfd_t count;
	int err;

	channel->peer = wire;
	channel->connect_err = -EINPROGRESS;
	wire->channel = channel;
	wire->hello = channel->hello;
	wire->hello.peer = (struct fabric_address){
		.family = 4, .bytes = { 192, 0, 2, (uint8_t)client_running() }
	};
	(void)wire_send(wire, TO_DAEMON, PACKET_CONNECT, NULL, 0);
	err = fd_wait(channel->alive_fd, POLLIN, clock_now_ms() + params->timeout_ms,
		      params->cancelled);
	err = connect_result(channel, err);
	if (err)
		disconnect(channel);
	else
		(void)eventfd_read(channel->alive_fd, &count);
	return err;
}

static void request_send(struct fabric_channel *channel, const struct fake_wr *wr)
{
	bool writes = wr->opcode == FABRIC_WRITE;
	struct packet *packet =
		wire_send(channel->peer, TO_DAEMON, PACKET_REQUEST,
			  writes ? wr->addr : NULL, writes ? wr->bytes : 0);

	packet->wr = *wr;
}

void fabric_begin(void)
{
	static const struct fake_server_side side = {
		.connect = channel_connect,
		.disconnect = disconnect,
		.post = request_send,
		.abort = leave,
	};

	fake_reset();
	server_begin();
	fake.inline_max = INLINE_MAX;
	fake.at_reg_mr = fail_registration;
	fake.server = &side;
}

/* ---- packets ---- */

static void end(struct fabric_channel *channel)
{
	leave(channel);
	channel->aborted = true;
	wire_flush(channel);
	wire_peer_gone(channel);
}

void client_give_up(struct wire *wire)
{
	struct fabric_channel *channel = wire->channel;

	if (channel->n)
		wire_complete(channel, -ETIMEDOUT);
	end(channel);
}

static void answer(struct fabric_channel *channel, const struct packet *packet)
{
	if (packet->bytes)
		memcpy(packet->wr.addr, packet->data, packet->bytes);
	wire_complete(channel, packet->status);
}

void client_receive(struct wire *wire, struct packet *packet)
{
	struct fabric_channel *channel = wire->channel;

	if (!channel)
		return;
	switch (packet->kind) {
	case PACKET_ANSWER:
		answer(channel, packet);
		break;
	case PACKET_ACCEPT:
	case PACKET_REFUSE:
		channel->connect_err = packet->status;
		if (packet->status)
			leave(channel);
		(void)eventfd_write(channel->alive_fd, 1);
		break;
	default:
		end(channel);
		break;
	}
}
