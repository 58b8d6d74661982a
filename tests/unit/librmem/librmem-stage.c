/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/librmem-stage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/unit.h"

struct stage stage;

static uint64_t stage_now(void)
{
	return stage.now_ns;
}

static void answered(void *ctx, uint64_t sent_ns)
{
	(void)ctx;
	(void)sent_ns;
}

static int event(void *ctx, const struct wire_msg *msg)
{
	(void)ctx;
	(void)msg;
	return 0;
}

static const struct connection_events events = { answered, event };

/* Keys are those of an attachment that is not freed meanwhile. */
static void keys_are_read(const void *owner)
{
	const struct send_side *side = owner;

	ck_assert_uint_gt(atomic_load(&side->channel->queue->inflights.reading), 0);
}

void stage_open(const struct fabric_client_ops *ops, unsigned endpoints)
{
	struct domain_candidates candidates;
	struct rmem *session = &stage.session;
	struct wire_welcome *welcome = &session->welcome;

	fake_reset();
	fake.at_prepare = keys_are_read;
	memset(&stage, 0, sizeof(stage));
	stage.through[0] = stage.through[1] = UINT8_MAX;
	stage.now_ns = 1000000000;
	clock_set_source(stage_now);
	(void)pthread_mutex_init(&session->lock, NULL);
	(void)pthread_cond_init(&session->changed, NULL);
	session->domains = &stage.domains;
	session->channels = &stage.channels;
	session->leases = &stage.leases;
	list_init(&stage.channels.all);
	lease_table_init(&stage.leases);
	list_init(&session->queues);
	list_init(&session->calls);
	list_init(&session->gather_node);
	session->buffers = &stage.buffers;
	session->server = "stage:1";
	session->peer.ss_family = AF_INET;
	session->uri.channels = endpoints;
	session->timeout_ms = STAGE_TIMEOUT_MS;
	ck_assert_int_eq(session_fds_open(session), 0);
	session->observers = session_layers;
	session->state = SESSION_UP;
	atomic_store(&session->until_ns, UINT64_MAX);
	welcome->heartbeat_ms = 500;
	welcome->fence_ms = 2000;
	welcome->stream_bytes_max = UINT32_MAX;
	welcome->inband_bytes_max = UINT32_MAX;
	welcome->inband_requests_max = UINT32_MAX;
	welcome->n_endpoints = (uint16_t)endpoints;
	for (unsigned i = 0; i < endpoints; i++) {
		welcome->endpoints[i].fabric = (uint8_t)ops->kind;
		welcome->endpoints[i].version = FABRIC_VERSION;
		welcome->endpoints[i].family = 4;
		welcome->endpoints[i].address[0] = 127;
	}
	endpoint_map_follow(&session->endpoint_map, welcome, welcome);
	ck_assert_int_eq(connection_create(session->wake.epfd, &events, session,
					   &session->connection),
			 0);
	ck_assert_int_eq(domain_candidates_find(session, ops, &candidates), 0);
	ck_assert_int_eq(domain_set_open(session, ops, &candidates,
					 session_end_ns(session), session->domains),
			 0);
}

void stage_close(void)
{
	struct rmem *session = &stage.session;
	struct rmem_queue *queue;

	while ((queue = list_first(&session->queues, struct rmem_queue, node)))
		queue_drop(queue);
	list_for_each_entry(struct rmem_lease, lease, &session->leases->all, node)
		ck_assert_uint_eq(lease_inflight(lease), 0);
	leases_destroy(session);
	buffers_destroy(session);
	domain_set_close(session->domains);
	connection_free(session->connection);
	session_fds_close(session);
	(void)pthread_mutex_destroy(&session->lock);
	(void)pthread_cond_destroy(&session->changed);
	clock_set_source(NULL);
	fake_drop_late(NULL);
	ck_assert_int_eq(fake.live, 0);
}

/* What the server answers to an attach. */
static struct wire_lease *answer_new(unsigned n, unsigned char *const *segments,
				     const uint64_t *bytes, const uint64_t *keys)
{
	const unsigned endpoints = stage.session.welcome.n_endpoints;
	struct wire_lease *answer = calloc(1, sizeof(*answer));

	answer->n_segments = (uint16_t)n;
	for (unsigned i = 0; i < n; i++) {
		answer->segments[i].bytes = bytes[i];
		answer->bytes += bytes[i];
		answer->segments[i].endpoints = stage.through[i];
		for (unsigned k = 0; k < endpoints && keys[i]; k++)
			if (stage.through[i] & (1u << k))
				answer->keys[answer->n_keys++] = (struct wire_key){
					.segment = (uint8_t)i,
					.endpoint = (uint8_t)k,
					.addr = (uintptr_t)segments[i],
					.rkey = keys[i],
				};
	}
	return answer;
}

struct rmem_lease *stage_lease(uint64_t id, unsigned rights, unsigned n,
			       unsigned char *const *segments, const uint64_t *bytes,
			       const uint64_t *keys)
{
	struct wire_lease *answer = answer_new(n, segments, bytes, keys);
	struct rmem_lease *lease = calloc(1, sizeof(*lease));

	lease->session = &stage.session;
	lease->id = id;
	lease->rights = rights;
	list_init(&lease->rekey_node);
	call_line_init(&lease->line);
	notice_source_init(&lease->notices);
	ck_assert_int_eq(lease_publish(lease, answer), 0);
	ck_assert_int_eq(lease_enter(lease), 0);
	free(answer);
	return lease;
}

void stage_rekey(struct rmem_lease *lease, unsigned n, unsigned char *const *segments,
		 const uint64_t *bytes, const uint64_t *keys)
{
	struct wire_lease *answer = answer_new(n, segments, bytes, keys);

	(void)pthread_mutex_lock(&stage.session.lock);
	ck_assert_int_eq(lease_publish(lease, answer), 0);
	free(answer);
	atomic_store(&lease->verified, atomic_load(&lease->asked));
	queues_wake(&stage.session);
	(void)pthread_mutex_unlock(&stage.session.lock);
}

void stage_lease_end(struct rmem_lease *lease)
{
	(void)pthread_mutex_lock(&stage.session.lock);
	lease_end(lease, RMEM_REASON_FREED);
	(void)pthread_mutex_unlock(&stage.session.lock);
}

static struct fabric_channel *connect_channel(struct rmem_queue *queue,
					      struct channel *channel)
{
	struct fabric_channel_params params = { .depth = queue->channels.depth,
						.owner = channel->owner };
	struct fabric_channel *fabric = NULL;

	ck_assert_int_eq(
		queue->ops->connect(queue->cqs[channel->domain], &params, &fabric), 0);
	return fabric;
}

struct rmem_queue *stage_queue(unsigned depth, unsigned channels)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	struct rmem_queue *queue = NULL;

	params.depth = depth;
	params.channels = channels;
	params.bounce_bytes = 64 << 10;
	ck_assert_int_eq(queue_new(&stage.session, &params, 0, &queue), 0);
	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct channel *channel = &queue->channels.all[i];

		channel->fabric = connect_channel(queue, channel);
		channel_set_connected(&queue->channels, &queue->channels.sides[i],
				      channel->fabric);
	}
	list_append(&stage.session.queues, &queue->node);
	return queue;
}

static void peer_end_set(struct rmem_queue *queue, struct channel *channel,
			 enum peer_end end)
{
	fake_drop_late(channel->owner);
	atomic_store(&channel->peer_end, end);
	queue_wake(queue);
}

void stage_peer_end(struct rmem_queue *queue, unsigned channel, enum peer_end end)
{
	(void)pthread_mutex_lock(&stage.session.lock);
	peer_end_set(queue, &queue->channels.all[channel], end);
	(void)pthread_mutex_unlock(&stage.session.lock);
}

void stage_abort(struct rmem_queue *queue, unsigned channel)
{
	(void)pthread_mutex_lock(&stage.session.lock);
	queue->channels.all[channel].doomed = true;
	queue_wake(queue);
	(void)pthread_mutex_unlock(&stage.session.lock);
}

unsigned stage_reconnect(struct rmem_queue *queue)
{
	unsigned n = 0;

	(void)pthread_mutex_lock(&stage.session.lock);
	for (unsigned i = 0; i < queue->channels.n; i++) {
		struct channel *channel = &queue->channels.all[i];

		if (channel->state != CHANNEL_WANTED)
			continue;
		if (atomic_load(&channel->peer_end) == PEER_END_OPEN)
			peer_end_set(queue, channel, PEER_END_CLOSED);
		channel->fresh = connect_channel(queue, channel);
		channel->state = CHANNEL_FRESH;
		queue_wake(queue);
		n++;
	}
	(void)pthread_mutex_unlock(&stage.session.lock);
	return n;
}

struct fabric_channel *stage_channel(const struct rmem_queue *queue, unsigned channel)
{
	return queue->channels.all[channel].fabric;
}

unsigned stage_posted(const struct rmem_queue *queue)
{
	unsigned n = 0;

	for (unsigned i = 0; i < queue->channels.n; i++)
		n += stage_channel(queue, i) ? stage_channel(queue, i)->n : 0;
	return n;
}

void stage_advance_ms(uint64_t ms)
{
	stage.now_ns += ms * 1000000;
}

void stage_status(int status)
{
	atomic_store(&stage.session.status, status);
	atomic_store(&stage.session.until_ns, status ? 0 : UINT64_MAX);
}
