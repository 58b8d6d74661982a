/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric-conformance-state.h"

#include <check.h>
#include <errno.h>
#include <poll.h>

#include "base/err.h"
#include "base/random.h"

MODULAR struct wr op_make(enum fabric_opcode opcode, const struct local *local,
			  size_t from, const struct remote *remote, int64_t offset,
			  uint32_t bytes)
{
	return (struct wr){
		.opcode = opcode,
		.bytes = bytes,
		.addr = local->addr + from,
		.region = CLIENT->needs_local_mr ? local->region : NULL,
		.remote_addr = remote->key.addr + (uint64_t)offset,
		.rkey = remote->key.rkey,
	};
}

void op_post(struct fabric_channel *channel, const struct wr *wrs, unsigned n)
{
	unsigned done = 0;

	while (done < n) {
		int taken = wr_post(CLIENT, channel, wrs + done, n - done);

		ck_assert_msg(taken > 0, "post: %d: %s", taken, err_text());
		done += (unsigned)taken;
	}
}

/* Wait for a completion.  alive() makes a channel notice that the server has closed it. */
static void party_sleep(const struct party *party)
{
	struct pollfd pfds[1 + PARTY_CHANNELS_MAX] = {
		{ .fd = CLIENT->cq_fd(party->cq), .events = POLLIN },
	};

	for (unsigned i = 0; i < PARTY_CHANNELS_MAX; i++)
		pfds[1 + i] = (struct pollfd){
			.fd = party->channels[i] ? CLIENT->alive_fd(party->channels[i])
						 : -1,
			.events = POLLIN,
		};
	ck_assert_msg(poll(pfds, 1 + PARTY_CHANNELS_MAX, STAGE_WAIT_MS) > 0,
		      "no completion came");
	for (unsigned i = 0; i < PARTY_CHANNELS_MAX; i++)
		if (pfds[1 + i].revents)
			(void)CLIENT->alive(party->channels[i]);
}

struct wc op_await(struct party *party)
{
	struct wc wc;

	for (;;) {
		int got = wr_poll(CLIENT, party->cq, &wc, 1);

		if (got == 0) {
			ck_assert_int_eq(CLIENT->cq_arm(party->cq), 0);
			got = wr_poll(CLIENT, party->cq, &wc, 1);
		}
		ck_assert_int_ge(got, 0);
		if (got == 1)
			return wc;
		party_sleep(party);
	}
}

int op_run(struct party *party, struct fabric_channel *channel, struct wr wr)
{
	struct wc wc;

	wr.cookie = random_u64();
	op_post(channel, &wr, 1);
	wc = op_await(party);
	ck_assert_uint_eq(wc.cookie, wr.cookie);
	ck_assert_ptr_eq(wc.channel, channel);
	ck_assert(wc.status == 0 || wc.text != NULL);
	return wc.status;
}

struct fabric_channel *op_run_refused(struct party *party,
				      struct fabric_channel *channel, struct wr wr)
{
	int status = op_run(party, channel, wr);

	/* iWARP breaks the connection, with any error */
	if (stage_confirms())
		ck_assert_int_ne(status, 0);
	else
		ck_assert_int_eq(status, -EACCES);
	if (SERVER->kind == FABRIC_TCP)
		return channel;
	channel_free(channel);
	return party_connect(party, STAGE_DEPTH);
}

struct scene scene_open(size_t remote_bytes, unsigned rights, size_t local_bytes)
{
	struct scene scene = { .party = party_new() };

	scene.channel = party_connect(scene.party, STAGE_DEPTH);
	scene.remote = remote_new(scene.party, remote_bytes, rights);
	scene.local = local_new(scene.party, local_bytes);
	return scene;
}

void scene_close(struct scene *scene)
{
	local_free(scene->local);
	channel_free(scene->channel);
	remote_free(scene->remote);
	party_free(scene->party);
}

struct wr scene_op(const struct scene *scene, enum fabric_opcode opcode, size_t from,
		   int64_t offset, uint32_t bytes)
{
	return op_make(opcode, scene->local, from, scene->remote, offset, bytes);
}

int scene_run(struct scene *scene, struct wr wr)
{
	return op_run(scene->party, scene->channel, wr);
}

void scene_run_refused(struct scene *scene, struct wr wr)
{
	scene->channel = op_run_refused(scene->party, scene->channel, wr);
}
