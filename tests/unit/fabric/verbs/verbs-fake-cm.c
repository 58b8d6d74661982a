/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake librdmacm: ids, their events, and connections. */
#include "unit/fabric/verbs/verbs-fake-state.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct event {
	struct rdma_cm_event public;
	struct channel *channel;
	uint8_t private_data[56];
	struct event *next;
};

struct channel {
	struct rdma_event_channel public;
	struct event *first, **last;
	unsigned ids;
};

static struct id *listeners[FAKE_DEVICES];
static struct rdma_conn_param last_param;
static uint8_t last_private[56];
static int last_tos = -1;
static struct sockaddr_storage last_source;
static unsigned disconnects, disconnects_before_destroy;
static bool accepted_destroyed;

/* Ids and their events: the server destroys ids in a thread of its own. */
static pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acked = PTHREAD_COND_INITIALIZER;

#define DESTROYED_MAX 64

/* The ids destroyed last, for fake_request_state(). */
static struct {
	const struct rdma_cm_id *id;
	enum fake_request_state state;
} destroyed[DESTROYED_MAX];
static unsigned n_destroyed;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel;

	if (verbs_fake.no_devices) {
		errno = ENODEV;
		return NULL;
	}
	if (fake_fails("rdma_create_event_channel"))
		return NULL;
	channel = calloc(1, sizeof(*channel));
	ck_assert_ptr_nonnull(channel);
	channel->last = &channel->first;
	channel->public.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	fake_live_add(1);
	return &channel->public;
}

static struct event *event_pop(struct channel *channel)
{
	struct event *event = channel->first;

	if (event) {
		channel->first = event->next;
		if (!channel->first)
			channel->last = &channel->first;
	}
	return event;
}

void rdma_destroy_event_channel(struct rdma_event_channel *public)
{
	struct channel *channel = (struct channel *)public;
	struct event *event;

	ck_assert_uint_eq(channel->ids, 0);
	while ((event = event_pop(channel)))
		free(event);
	(void)close(public->fd);
	free(channel);
	fake_live_add(-1);
}

static struct event *event_new(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct event *event = calloc(1, sizeof(*event));

	ck_assert_ptr_nonnull(event);
	event->public.id = &id->public;
	event->public.event = type;
	event->public.status = status;
	event->channel = id->channel;
	return event;
}

/* Once it is complete, as other threads read it. */
static void event_send(struct event *event)
{
	struct channel *channel = event->channel;

	(void)pthread_mutex_lock(&cm_lock);
	*channel->last = event;
	channel->last = &event->next;
	(void)pthread_mutex_unlock(&cm_lock);
	(void)eventfd_write(channel->public.fd, 1);
}

static void event_put(struct id *id, enum rdma_cm_event_type type, int status)
{
	event_send(event_new(id, type, status));
}

/* Private data is padded with zeros. */
static void event_set_data(struct event *event, const void *data, size_t bytes)
{
	memcpy(event->private_data, data, bytes);
	event->public.param.conn.private_data = event->private_data;
	event->public.param.conn.private_data_len = sizeof(event->private_data);
}

int rdma_get_cm_event(struct rdma_event_channel *public, struct rdma_cm_event **ret)
{
	struct event *event;
	eventfd_t count;

	if (verbs_fake.cm_error) {
		errno = verbs_fake.cm_error;
		return -1;
	}
	if (eventfd_read(public->fd, &count))
		return -1;
	(void)pthread_mutex_lock(&cm_lock);
	event = event_pop((struct channel *)public);
	if (event)
		((struct id *)event->public.id)->unacked++;
	(void)pthread_mutex_unlock(&cm_lock);
	if (!event) {
		errno = EAGAIN;
		return -1;
	}
	*ret = &event->public;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *public)
{
	(void)pthread_mutex_lock(&cm_lock);
	((struct id *)public->id)->unacked--;
	(void)pthread_cond_broadcast(&acked);
	(void)pthread_mutex_unlock(&cm_lock);
	free(public);
	return 0;
}

static struct id *id_new(struct channel *channel, void *context)
{
	struct id *id = calloc(1, sizeof(*id));

	ck_assert_ptr_nonnull(id);
	id->public.channel = &channel->public;
	id->public.context = context;
	id->public.route.addr.src_addr.sa_family = AF_INET;
	id->channel = channel;
	id->device = -1;
	(void)pthread_mutex_lock(&cm_lock);
	channel->ids++;
	(void)pthread_mutex_unlock(&cm_lock);
	fake_live_add(1);
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret,
		   void *context, enum rdma_port_space ps)
{
	ck_assert_int_eq(ps, RDMA_PS_TCP);
	if (fake_fails("rdma_create_id"))
		return -1;
	*ret = &id_new((struct channel *)channel, context)->public;
	return 0;
}

/* Drop the unread events of an id, as the kernel does. */
static void events_drop(const struct id *id)
{
	struct channel *channel = id->channel;

	for (struct event **at = &channel->first; *at;) {
		struct event *event = *at;

		if (event->public.id != &id->public) {
			at = &event->next;
			continue;
		}
		*at = event->next;
		free(event);
	}
	channel->last = &channel->first;
	while (*channel->last)
		channel->last = &(*channel->last)->next;
}

/* Called with the lock held. */
static int id_destroy(struct id *id)
{
	struct rdma_cm_id *public = &id->public;

	ck_assert_ptr_null(public->qp);
	while (id->unacked)
		(void)pthread_cond_wait(&acked, &cm_lock);
	if (id->state == FAKE_ACCEPTED && !accepted_destroyed) {
		accepted_destroyed = true;
		disconnects_before_destroy = disconnects;
	}
	destroyed[n_destroyed % DESTROYED_MAX].id = public;
	destroyed[n_destroyed++ % DESTROYED_MAX].state = id->state;
	id->channel->ids--;
	fake_live_add(-1);
	if (verbs_fake.destroy_id_error) {
		errno = verbs_fake.destroy_id_error;
		return -1;
	}
	events_drop(id);
	for (int i = 0; i < FAKE_DEVICES; i++)
		if (listeners[i] == id)
			listeners[i] = NULL;
	if (fake_state.last == id)
		fake_state.last = NULL;
	free(id);
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *public)
{
	int result;

	(void)pthread_mutex_lock(&cm_lock);
	result = id_destroy((struct id *)public);
	(void)pthread_mutex_unlock(&cm_lock);
	return result;
}

static int device_at(const struct sockaddr *addr)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	memcpy(&in, addr, sizeof(in));
	if (addr->sa_family == AF_INET6) {
		memcpy(&in6, addr, sizeof(in6));
		(void)inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof(text));
	} else {
		(void)inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
	}
	if (!strcmp(text, verbs_fake.address_changed ? "10.1.0.9" : "10.1.0.1") ||
	    !strcmp(text, "fd00::1"))
		return verbs_fake.absent[0] ? -1 : 0;
	return strcmp(text, "10.2.0.1") || verbs_fake.absent[1] ? -1 : 1;
}

static void id_set_device(struct id *id, int device)
{
	id->device = device;
	id->public.verbs = fake_context(device);
	id->public.port_num = 1;
}

int rdma_bind_addr(struct rdma_cm_id *public, struct sockaddr *addr)
{
	struct id *id = (struct id *)public;
	int device = device_at(addr);
	struct sockaddr_in in;

	memcpy(&in, addr, sizeof(in));
	if (device < 0) {
		errno = ENODEV;
		return -1;
	}
	if (in.sin_port && ntohs(in.sin_port) == verbs_fake.port_in_use) {
		errno = EADDRINUSE;
		return -1;
	}
	if (fake_fails("rdma_bind_addr"))
		return -1;
	id->port = in.sin_port ? in.sin_port : htons(40000);
	id_set_device(id, device);
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *public)
{
	return ((struct id *)public)->port;
}

int rdma_listen(struct rdma_cm_id *public, int backlog)
{
	struct id *id = (struct id *)public;

	ck_assert_int_gt(backlog, 0);
	if (fake_fails("rdma_listen"))
		return -1;
	id->listens = true;
	listeners[id->device] = id;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *public, struct sockaddr *src,
		      struct sockaddr *dst, int ms)
{
	struct id *id = (struct id *)public;
	int device = device_at(dst);

	memset(&last_source, 0, sizeof(last_source));
	if (src && src->sa_family == AF_INET6)
		memcpy(&last_source, src, sizeof(struct sockaddr_in6));
	else if (src)
		memcpy(&last_source, src, sizeof(struct sockaddr_in));
	ck_assert_int_gt(ms, 0);
	if (fake_fails("rdma_resolve_addr"))
		return -1;
	if (verbs_fake.never_resolves)
		return 0;
	if (device < 0) {
		event_put(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
		return 0;
	}
	id_set_device(id, device);
	if (verbs_fake.resolves_late)
		(void)usleep((useconds_t)ms * 1000);
	event_put(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *public, int ms)
{
	if (fake_fails("rdma_resolve_route"))
		return -1;
	if (ms == 0) {
		errno = EINVAL;
		return -1;
	}
	event_put((struct id *)public, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

/* Copy the parameters with their private data, which the caller owns. */
static void param_copy(const struct rdma_conn_param *param)
{
	last_param = *param;
	ck_assert_uint_le(param->private_data_len, sizeof(last_private));
	if (param->private_data_len)
		memcpy(last_private, param->private_data, param->private_data_len);
	last_param.private_data = last_private;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value,
		    size_t bytes)
{
	uint8_t tos;

	(void)id;
	ck_assert_int_eq(level, RDMA_OPTION_ID);
	ck_assert_int_eq(name, RDMA_OPTION_ID_TOS);
	ck_assert_uint_eq(bytes, sizeof(tos));
	if (fake_fails("rdma_set_option"))
		return -1;
	memcpy(&tos, value, sizeof(tos));
	last_tos = tos;
	return 0;
}

struct sockaddr_storage fake_source(void)
{
	return last_source;
}

int fake_tos(void)
{
	return last_tos;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	if (fake_fails("rdma_init_qp_attr"))
		return -1;
	*mask = IBV_QP_STATE;
	if (attr->qp_state == IBV_QPS_RTR) {
		attr->path_mtu = IBV_MTU_2048;
		attr->max_dest_rd_atomic = 99;
		*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MAX_DEST_RD_ATOMIC;
	} else if (attr->qp_state == IBV_QPS_RTS) {
		attr->timeout = 18;
		attr->retry_cnt = 7;
		attr->rnr_retry = 7;
		attr->max_rd_atomic = 99;
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
	ck_assert_ptr_null(id->qp);
	return fake_fails("rdma_establish") ? -1 : 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	ck_assert_ptr_null(id->qp);
	ece->vendor_id = verbs_fake.ece_vendor;
	return 0;
}

int rdma_connect(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
	struct id *id = (struct id *)public;
	struct event *event;

	if (fake_fails("rdma_connect"))
		return -1;
	if (verbs_fake.ports_in_use > 0) {
		verbs_fake.ports_in_use--;
		errno = EADDRINUSE;
		return -1;
	}
	param_copy(param);
	fake_state.last = id;
	if (verbs_fake.no_answer)
		return 0;
	event = event_new(id, verbs_fake.answer, verbs_fake.answer_status);
	/* without a queue pair of the id, the caller modifies its own */
	if (verbs_fake.answer == RDMA_CM_EVENT_ESTABLISHED && !public->qp) {
		event->public.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
		event_set_data(event, verbs_fake.answer_limits,
			       sizeof(verbs_fake.answer_limits));
	}
	if (verbs_fake.answer_word)
		event_set_data(event, &verbs_fake.answer_word,
			       sizeof(verbs_fake.answer_word));
	event_send(event);
	return 0;
}

int rdma_accept(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
	struct id *id = (struct id *)public;

	ck_assert(public->qp || param->qp_num);
	if (fake_fails("rdma_accept"))
		return -1;
	(void)pthread_mutex_lock(&cm_lock);
	param_copy(param);
	fake_state.last = id;
	id->state = FAKE_ACCEPTED;
	(void)pthread_mutex_unlock(&cm_lock);
	return 0;
}

int rdma_reject(struct rdma_cm_id *public, const void *data, uint8_t bytes)
{
	uint32_t word;

	ck_assert_uint_eq(bytes, sizeof(word));
	memcpy(&word, data, sizeof(word));
	ck_assert_uint_ne(word, 0);
	if (verbs_fake.before_reject)
		verbs_fake.before_reject();
	(void)pthread_mutex_lock(&cm_lock);
	/* the kernel would then make rdma_destroy_id() wait */
	ck_assert_int_ne(((struct id *)public)->state, FAKE_ACCEPTED);
	((struct id *)public)->state = FAKE_REJECTED;
	(void)pthread_mutex_unlock(&cm_lock);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *public)
{
	(void)public;
	(void)pthread_mutex_lock(&cm_lock);
	disconnects++;
	(void)pthread_mutex_unlock(&cm_lock);
	return 0;
}

unsigned fake_disconnects(void)
{
	return disconnects;
}

unsigned fake_disconnects_before_destroy(void)
{
	return disconnects_before_destroy;
}

struct rdma_conn_param fake_param(void)
{
	return last_param;
}

struct rdma_cm_id *fake_last_id(void)
{
	return fake_state.last ? &fake_state.last->public : NULL;
}

/* The peer's end of a request: its address, path and queue pair. */
static void request_set_peer(struct event *event)
{
	static uint32_t qpn = 0x1000;
	struct id *id = (struct id *)event->public.id;
	struct sockaddr_in peer = { .sin_family = AF_INET };

	ck_assert_int_eq(inet_pton(AF_INET, "10.1.0.9", &peer.sin_addr), 1);
	memcpy(&id->public.route.addr.dst_sin, &peer, sizeof(peer));
	ck_assert_int_eq(
		inet_pton(AF_INET6,
			  verbs_fake.peer_gid ? verbs_fake.peer_gid : "::ffff:10.1.0.9",
			  id->path.dgid.raw),
		1);
	id->public.route.path_rec = &id->path;
	id->public.route.num_paths = 1;
	event->public.param.conn.qp_num =
		verbs_fake.peer_qpn ? verbs_fake.peer_qpn : qpn++;
}

struct rdma_cm_id *fake_request(unsigned device, const void *private_data,
				uint8_t bytes)
{
	struct id *listener = listeners[device], *id;
	struct event *event;

	ck_assert_ptr_nonnull(listener);
	id = id_new(listener->channel, listener->public.context);
	id_set_device(id, (int)device);
	(void)pthread_mutex_lock(&cm_lock);
	for (unsigned i = 0; i < DESTROYED_MAX; i++)
		if (destroyed[i].id == &id->public)
			destroyed[i].id = NULL;
	(void)pthread_mutex_unlock(&cm_lock);
	event = event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	request_set_peer(event);
	event->public.listen_id = &listener->public;
	event_set_data(event, private_data, bytes);
	event->public.param.conn.responder_resources = 16;
	event->public.param.conn.initiator_depth = 0;
	event_send(event);
	return &id->public;
}

/* Index of the id in destroyed[], or DESTROYED_MAX; called with the lock held. */
static unsigned destroyed_find(const struct rdma_cm_id *id)
{
	unsigned i = 0;

	while (i < DESTROYED_MAX && destroyed[i].id != id)
		i++;
	return i;
}

bool fake_id_lives(const struct rdma_cm_id *id)
{
	bool lives;

	(void)pthread_mutex_lock(&cm_lock);
	lives = destroyed_find(id) == DESTROYED_MAX;
	(void)pthread_mutex_unlock(&cm_lock);
	return lives;
}

void fake_event(struct rdma_cm_id *public, enum rdma_cm_event_type type)
{
	struct id *id = public ? (struct id *)public : listeners[0];

	event_put(id, type, 0);
}

enum fake_request_state fake_request_state(const struct rdma_cm_id *id)
{
	enum fake_request_state state;
	unsigned i;

	(void)pthread_mutex_lock(&cm_lock);
	i = destroyed_find(id);
	state = i < DESTROYED_MAX ? destroyed[i].state : ((const struct id *)id)->state;
	(void)pthread_mutex_unlock(&cm_lock);
	return state;
}
