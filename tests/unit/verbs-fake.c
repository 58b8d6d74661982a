/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs-fake.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEVICES 2
#define ENTRIES 256

struct fake_settings fake = {
	.max_cqe = 1000,
	.max_qp_wr = 128,
	.max_inline = 64,
	.answer = RDMA_CM_EVENT_ESTABLISHED,
};

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

struct id {
	struct rdma_cm_id public;
	struct channel *channel;
	uint16_t port;
	int device; /* -1: none */
	bool listens;
	enum fake_fate fate;
	unsigned unacked;
};

struct comp {
	struct ibv_comp_channel public;
	struct cq *cq;
	unsigned cqs;
};

struct cq {
	struct ibv_cq public;
	struct ibv_wc wcs[ENTRIES];
	unsigned first, n, size;
	bool armed;
	unsigned got, acked, qps;
};

struct pd {
	struct ibv_pd public;
	unsigned children;
};

struct qp {
	struct ibv_qp public;
	struct fake_send sends[FAKE_SENDS];
	unsigned n_sends;
	uint64_t receive;
	bool has_receive;
};

static struct {
	unsigned calls, fail_at;
	const char *failed;
	unsigned live, qps, mrs;
	struct id *listeners[DEVICES];
	struct id *last;
	struct rdma_conn_param param;
	unsigned access, disconnects, posts;
	int post_limit;
	struct ibv_device devices[DEVICES];
	struct ibv_context contexts[DEVICES];
	struct ibv_async_event asyncs[8];
	unsigned n_asyncs, unacked_asyncs;
} state = { .post_limit = -1 };

/* The dead's addresses, to say what became of a request whose id is gone. */
static struct {
	const struct rdma_cm_id *id;
	enum fake_fate fate;
} graves[64];
static unsigned n_graves;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define LOCKED(statement)                          \
	do {                                       \
		(void)pthread_mutex_lock(&lock);   \
		statement;                         \
		(void)pthread_mutex_unlock(&lock); \
	} while (0)

/* Whether this call is the one to fail; sets errno. */
static bool fails(const char *call)
{
	bool hit;

	LOCKED(hit = ++state.calls == state.fail_at; if (hit) state.failed = call);
	if (hit)
		errno = ENOMEM;
	return hit;
}

static void live_add(int n)
{
	LOCKED(state.live += (unsigned)n);
}

void fake_fail_at(unsigned n)
{
	LOCKED(state.calls = 0; state.fail_at = n; state.failed = NULL);
}

bool fake_failed(void)
{
	return state.failed != NULL;
}

const char *fake_failed_call(void)
{
	return state.failed;
}

unsigned fake_live(void)
{
	unsigned n;

	LOCKED(n = state.live);
	return n;
}

unsigned fake_live_qps(void)
{
	return state.qps;
}

unsigned fake_live_mrs(void)
{
	unsigned n;

	LOCKED(n = state.mrs);
	return n;
}

/* ---- devices ---- */

static int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs);
static int fake_req_notify_cq(struct ibv_cq *cq, int solicited);
static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad);
static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad);

static struct ibv_context *context_of(int n)
{
	struct ibv_context *context = &state.contexts[n];

	if (!context->device) {
		(void)snprintf(state.devices[n].name, sizeof(state.devices[n].name),
			       "fake%d", n);
		context->device = &state.devices[n];
		context->ops.poll_cq = fake_poll_cq;
		context->ops.req_notify_cq = fake_req_notify_cq;
		context->ops.post_send = fake_post_send;
		context->ops.post_recv = fake_post_recv;
		context->async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
		context->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	state.devices[n].transport_type =
		fake.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	return context;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list = calloc(DEVICES + 1, sizeof(*list));

	ck_assert_ptr_nonnull(list);
	for (int i = 0; i < DEVICES && !fake.no_devices; i++)
		list[i] = context_of(i)->device;
	if (num)
		*num = fake.no_devices ? 0 : DEVICES;
	live_add(1);
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	live_add(-1);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (fails("ibv_open_device"))
		return NULL;
	live_add(1);
	return context_of(device == &state.devices[1]);
}

int ibv_close_device(struct ibv_context *context)
{
	(void)context;
	live_add(-1);
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	if (fails("ibv_query_device"))
		return ENOMEM;
	*attr = (struct ibv_device_attr){
		.max_cqe = fake.max_cqe,
		.max_qp_wr = fake.max_qp_wr,
		.max_qp_rd_atom = 8,
		.max_qp_init_rd_atom = 128,
		.max_mr_size = 1u << 30,
		.phys_port_cnt = 1,
	};
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port,
		   struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *full = (struct ibv_port_attr *)(void *)attr;

	(void)port;
	if (fails("ibv_query_port"))
		return ENOMEM;
	full->state = fake.port_down[context - state.contexts] ? IBV_PORT_DOWN
							       : IBV_PORT_ACTIVE;
	return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_WR_FLUSH_ERR ? "flushed" : "failed";
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ERR ? "port error" : "some event";
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
	(void)type;
	return "some event";
}

/* ---- asynchronous events ---- */

void fake_async(unsigned device, enum ibv_event_type type, int port)
{
	struct ibv_async_event event = { .event_type = type };

	if (type == IBV_EVENT_QP_ACCESS_ERR)
		event.element.qp = state.last->public.qp;
	else
		event.element.port_num = port;
	LOCKED(state.asyncs[state.n_asyncs++] = event);
	(void)eventfd_write(context_of((int)device)->async_fd, 1);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	eventfd_t count;

	if (eventfd_read(context->async_fd, &count))
		return -1;
	LOCKED(*event = state.asyncs[0]; state.n_asyncs--; state.unacked_asyncs++;
	       memmove(state.asyncs, state.asyncs + 1,
		       state.n_asyncs * sizeof(state.asyncs[0])));
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	LOCKED(state.unacked_asyncs--);
}

/* ---- objects ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct comp *comp;

	if (fails("ibv_create_comp_channel"))
		return NULL;
	comp = calloc(1, sizeof(*comp));
	ck_assert_ptr_nonnull(comp);
	comp->public.context = context;
	comp->public.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	live_add(1);
	return &comp->public;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *public)
{
	struct comp *comp = (struct comp *)public;

	ck_assert_uint_eq(comp->cqs, 0);
	(void)close(public->fd);
	free(comp);
	live_add(-1);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct comp *comp = (struct comp *)channel;
	struct cq *cq;

	(void)vector;
	ck_assert_int_le(cqe, fake.max_cqe);
	if (fails("ibv_create_cq"))
		return NULL;
	cq = calloc(1, sizeof(*cq));
	ck_assert_ptr_nonnull(cq);
	cq->public.context = context;
	cq->public.channel = channel;
	cq->public.cq_context = cq_context;
	cq->size = cqe < ENTRIES ? (unsigned)cqe : ENTRIES;
	comp->cq = cq;
	comp->cqs++;
	live_add(1);
	return &cq->public;
}

int ibv_destroy_cq(struct ibv_cq *public)
{
	struct cq *cq = (struct cq *)public;

	ck_assert_uint_eq(cq->qps, 0);
	ck_assert_uint_eq(cq->got, cq->acked);
	((struct comp *)public->channel)->cqs--;
	free(cq);
	live_add(-1);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		     void **context)
{
	struct comp *comp = (struct comp *)channel;
	eventfd_t count;

	if (eventfd_read(channel->fd, &count))
		return -1;
	*cq = &comp->cq->public;
	*context = comp->cq->public.cq_context;
	comp->cq->got++;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	((struct cq *)cq)->acked += n;
}

/* Under the lock. */
static void cq_put(struct ibv_cq *public, struct ibv_wc wc)
{
	struct cq *cq = (struct cq *)public;

	ck_assert_msg(cq->n < cq->size, "the completion queue overruns");
	cq->wcs[(cq->first + cq->n++) % ENTRIES] = wc;
	if (cq->armed)
		(void)eventfd_write(public->channel->fd, 1);
	cq->armed = false;
}

static int fake_poll_cq(struct ibv_cq *public, int n, struct ibv_wc *wcs)
{
	struct cq *cq = (struct cq *)public;
	int i;

	(void)pthread_mutex_lock(&lock);
	for (i = 0; i < n && cq->n; i++, cq->n--) {
		wcs[i] = cq->wcs[cq->first];
		cq->first = (cq->first + 1) % ENTRIES;
	}
	(void)pthread_mutex_unlock(&lock);
	return i;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct pd *pd;

	if (fails("ibv_alloc_pd"))
		return NULL;
	pd = calloc(1, sizeof(*pd));
	ck_assert_ptr_nonnull(pd);
	pd->public.context = context;
	live_add(1);
	return &pd->public;
}

int ibv_dealloc_pd(struct ibv_pd *public)
{
	struct pd *pd = (struct pd *)public;

	ck_assert_uint_eq(pd->children, 0);
	free(pd);
	live_add(-1);
	return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes,
				uint64_t iova, unsigned int access)
{
	static uint32_t keys = 100;
	struct ibv_mr *mr;

	(void)iova;
	if (fails("ibv_reg_mr"))
		return NULL;
	if (fake.reg_error && access) {
		errno = fake.reg_error;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	ck_assert_ptr_nonnull(mr);
	mr->pd = pd;
	mr->addr = addr;
	mr->length = bytes;
	LOCKED(mr->rkey = mr->lkey = keys++; state.access = access; state.live++;
	       state.mrs++; ((struct pd *)pd)->children++);
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	return ibv_reg_mr_iova2(pd, addr, bytes, (uintptr_t)addr, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int err = fake.dereg_error;

	/* one that cannot be undone holds its domain for ever; the test lets it go */
	LOCKED(state.live--; state.mrs--; ((struct pd *)mr->pd)->children--);
	free(mr);
	return err;
}

/* ---- queue pairs ---- */

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	struct qp *qp;

	ck_assert_ptr_null(id->qp);
	ck_assert_ptr_eq(pd->context, id->verbs);
	ck_assert_int_eq(attr->qp_type, IBV_QPT_RC);
	if (fails("rdma_create_qp"))
		return -1;
	if (attr->cap.max_inline_data > fake.max_inline) {
		errno = EINVAL;
		return -1;
	}
	qp = calloc(1, sizeof(*qp));
	ck_assert_ptr_nonnull(qp);
	qp->public.context = id->verbs;
	qp->public.qp_context = attr->qp_context;
	qp->public.pd = pd;
	qp->public.send_cq = attr->send_cq;
	qp->public.recv_cq = attr->recv_cq;
	qp->public.state = IBV_QPS_INIT;
	id->qp = &qp->public;
	LOCKED(state.live++; state.qps++; ((struct pd *)pd)->children++;
	       ((struct cq *)attr->send_cq)->qps++);
	return 0;
}

/* Under the lock. */
static void qp_break(struct qp *qp)
{
	struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR,
			     .opcode = (enum ibv_wc_opcode)77 };

	qp->public.state = IBV_QPS_ERR;
	for (unsigned i = 0; i < qp->n_sends; i++) {
		wc.wr_id = qp->sends[i].wr_id;
		cq_put(qp->public.send_cq, wc);
	}
	qp->n_sends = 0;
	if (qp->has_receive) {
		wc.wr_id = qp->receive;
		cq_put(qp->public.recv_cq, wc);
	}
	qp->has_receive = false;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct qp *qp = (struct qp *)id->qp;

	ck_assert_ptr_nonnull(qp);
	ck_assert_uint_eq(state.unacked_asyncs, 0);
	/* what is under way is flushed; its entries outlive the queue pair */
	LOCKED(qp_break(qp); state.live--; state.qps--;
	       ((struct pd *)qp->public.pd)->children--;
	       ((struct cq *)qp->public.send_cq)->qps--);
	id->qp = NULL;
	free(qp);
}

static int fake_req_notify_cq(struct ibv_cq *public, int solicited)
{
	struct rdma_cm_id *id;

	(void)solicited;
	if (fails("ibv_req_notify_cq"))
		return ENOMEM;
	(void)pthread_mutex_lock(&lock);
	id = fake.break_at_arm;
	fake.break_at_arm = NULL;
	if (id)
		qp_break((struct qp *)id->qp);
	((struct cq *)public)->armed = true;
	(void)pthread_mutex_unlock(&lock);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *public, struct ibv_qp_attr *attr, int mask)
{
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR) {
		LOCKED(qp_break((struct qp *)public));
		return 0;
	}
	ck_assert_int_eq(mask, IBV_QP_ACCESS_FLAGS);
	ck_assert_uint_eq(attr->qp_access_flags,
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	return fails("ibv_modify_qp") ? ENOMEM : 0;
}

static int fake_post_recv(struct ibv_qp *public, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad)
{
	struct qp *qp = (struct qp *)public;

	*bad = wr;
	if (fails("ibv_post_recv"))
		return ENOMEM;
	qp->receive = wr->wr_id;
	qp->has_receive = true;
	return 0;
}

static int fake_post_send(struct ibv_qp *public, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	struct qp *qp = (struct qp *)public;

	state.posts++;
	for (; wr; wr = wr->next) {
		if (state.post_limit == 0) {
			*bad = wr;
			state.post_limit = -1;
			return ENOMEM;
		}
		if (state.post_limit > 0)
			state.post_limit--;
		ck_assert_uint_lt(qp->n_sends, FAKE_SENDS);
		qp->sends[qp->n_sends++] = (struct fake_send){
			.wr_id = wr->wr_id,
			.opcode = wr->opcode,
			.flags = wr->send_flags,
			.remote_addr = wr->wr.rdma.remote_addr,
			.bytes = wr->sg_list->length,
		};
	}
	return 0;
}

static struct qp *last_qp(void)
{
	ck_assert_ptr_nonnull(state.last);
	return (struct qp *)state.last->public.qp;
}

unsigned fake_sends(struct fake_send sends[FAKE_SENDS])
{
	struct qp *qp = last_qp();

	memcpy(sends, qp->sends, sizeof(qp->sends));
	return qp->n_sends;
}

void fake_complete(unsigned n)
{
	struct qp *qp = last_qp();

	ck_assert_uint_le(n, qp->n_sends);
	for (unsigned i = 0; i < n; i++) {
		struct ibv_wc wc = { .wr_id = qp->sends[i].wr_id };

		if (qp->sends[i].flags & IBV_SEND_SIGNALED)
			LOCKED(cq_put(qp->public.send_cq, wc));
	}
	qp->n_sends -= n;
	memmove(qp->sends, qp->sends + n, qp->n_sends * sizeof(qp->sends[0]));
}

void fake_fail(enum ibv_wc_status status)
{
	struct qp *qp = last_qp();
	struct ibv_wc wc = {
		.wr_id = qp->sends[0].wr_id,
		.status = status,
		.opcode = (enum ibv_wc_opcode)77,
		.vendor_err = 5,
	};

	LOCKED(cq_put(qp->public.send_cq, wc));
	qp->n_sends--;
	memmove(qp->sends, qp->sends + 1, qp->n_sends * sizeof(qp->sends[0]));
	LOCKED(qp_break(qp));
}

void fake_forget(void)
{
	last_qp()->n_sends = 0;
}

void fake_post_limit(int n)
{
	state.post_limit = n;
}

unsigned fake_posts(void)
{
	return state.posts;
}

unsigned fake_access(void)
{
	unsigned access;

	LOCKED(access = state.access);
	return access;
}

/* ---- rdma_cm ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel;

	if (fake.no_devices) {
		errno = ENODEV;
		return NULL;
	}
	if (fails("rdma_create_event_channel"))
		return NULL;
	channel = calloc(1, sizeof(*channel));
	ck_assert_ptr_nonnull(channel);
	channel->last = &channel->first;
	channel->public.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	live_add(1);
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
	live_add(-1);
}

static struct event *event_put(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct event *event = calloc(1, sizeof(*event));

	ck_assert_ptr_nonnull(event);
	event->public.id = &id->public;
	event->public.event = type;
	event->public.status = status;
	event->channel = id->channel;
	*id->channel->last = event;
	id->channel->last = &event->next;
	(void)eventfd_write(id->channel->public.fd, 1);
	return event;
}

int rdma_get_cm_event(struct rdma_event_channel *public, struct rdma_cm_event **ret)
{
	struct event *event;
	eventfd_t count;

	if (eventfd_read(public->fd, &count))
		return -1;
	event = event_pop((struct channel *)public);
	if (!event) {
		errno = EAGAIN;
		return -1;
	}
	((struct id *)event->public.id)->unacked++;
	*ret = &event->public;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *public)
{
	((struct id *)public->id)->unacked--;
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
	channel->ids++;
	live_add(1);
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret,
		   void *context, enum rdma_port_space ps)
{
	ck_assert_int_eq(ps, RDMA_PS_TCP);
	if (fails("rdma_create_id"))
		return -1;
	*ret = &id_new((struct channel *)channel, context)->public;
	return 0;
}

/* The kernel drops what an id had still to tell. */
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

int rdma_destroy_id(struct rdma_cm_id *public)
{
	struct id *id = (struct id *)public;

	ck_assert_ptr_null(public->qp);
	ck_assert_uint_eq(id->unacked, 0);
	events_drop(id);
	for (int i = 0; i < DEVICES; i++)
		if (state.listeners[i] == id)
			state.listeners[i] = NULL;
	if (state.last == id)
		state.last = NULL;
	graves[n_graves % 64].id = public;
	graves[n_graves++ % 64].fate = id->fate;
	id->channel->ids--;
	free(id);
	live_add(-1);
	return 0;
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
	if (!strcmp(text, "10.1.0.1") || !strcmp(text, "fd00::1"))
		return 0;
	return strcmp(text, "10.2.0.1") ? -1 : 1;
}

static void id_on(struct id *id, int device)
{
	id->device = device;
	id->public.verbs = context_of(device);
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
	if (in.sin_port && ntohs(in.sin_port) == fake.taken_port) {
		errno = EADDRINUSE;
		return -1;
	}
	if (fails("rdma_bind_addr"))
		return -1;
	id->port = in.sin_port ? in.sin_port : htons(40000);
	id_on(id, device);
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
	if (fails("rdma_listen"))
		return -1;
	id->listens = true;
	state.listeners[id->device] = id;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *public, struct sockaddr *src,
		      struct sockaddr *dst, int ms)
{
	struct id *id = (struct id *)public;
	int device = device_at(dst);

	(void)src;
	ck_assert_int_gt(ms, 0);
	if (fails("rdma_resolve_addr"))
		return -1;
	if (fake.never_resolves)
		return 0;
	if (device < 0) {
		(void)event_put(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
		return 0;
	}
	id_on(id, device);
	(void)event_put(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *public, int ms)
{
	(void)ms;
	if (fails("rdma_resolve_route"))
		return -1;
	(void)event_put((struct id *)public, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

int rdma_connect(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
	struct id *id = (struct id *)public;
	struct event *event;

	if (fails("rdma_connect"))
		return -1;
	state.param = *param;
	state.last = id;
	if (fake.by_hand)
		return 0;
	event = event_put(id, fake.answer, fake.answer_status);
	if (fake.answer_word) {
		memcpy(event->private_data, &fake.answer_word,
		       sizeof(fake.answer_word));
		event->public.param.conn.private_data = event->private_data;
		event->public.param.conn.private_data_len = sizeof(event->private_data);
	}
	return 0;
}

int rdma_accept(struct rdma_cm_id *public, struct rdma_conn_param *param)
{
	struct id *id = (struct id *)public;

	ck_assert_ptr_nonnull(public->qp);
	if (fails("rdma_accept"))
		return -1;
	state.param = *param;
	state.last = id;
	id->fate = FAKE_ACCEPTED;
	return 0;
}

int rdma_reject(struct rdma_cm_id *public, const void *data, uint8_t bytes)
{
	uint32_t word;

	ck_assert_uint_eq(bytes, sizeof(word));
	memcpy(&word, data, sizeof(word));
	ck_assert_uint_ne(word, 0);
	((struct id *)public)->fate = FAKE_REJECTED;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *public)
{
	(void)public;
	state.disconnects++;
	return 0;
}

unsigned fake_disconnects(void)
{
	return state.disconnects;
}

struct rdma_conn_param fake_param(void)
{
	return state.param;
}

struct rdma_cm_id *fake_last_id(void)
{
	return state.last ? &state.last->public : NULL;
}

struct rdma_cm_id *fake_request(unsigned device, const void *private_data,
				uint8_t bytes)
{
	struct id *listener = state.listeners[device], *id;
	struct event *event;

	ck_assert_ptr_nonnull(listener);
	id = id_new(listener->channel, listener->public.context);
	id_on(id, (int)device);
	for (unsigned i = 0; i < 64; i++)
		if (graves[i].id == &id->public)
			graves[i].id = NULL;
	event = event_put(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	event->public.listen_id = &listener->public;
	memcpy(event->private_data, private_data, bytes);
	event->public.param.conn.private_data = event->private_data;
	event->public.param.conn.private_data_len = sizeof(event->private_data);
	event->public.param.conn.responder_resources = 16;
	event->public.param.conn.initiator_depth = 0;
	return &id->public;
}

void fake_event(struct rdma_cm_id *public, enum rdma_cm_event_type type)
{
	struct id *id = public ? (struct id *)public : state.listeners[0];

	(void)event_put(id, type, 0);
}

enum fake_fate fake_fate(const struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < 64; i++)
		if (graves[i].id == id)
			return graves[i].fate;
	return ((const struct id *)id)->fate;
}

void fake_break(struct rdma_cm_id *id)
{
	LOCKED(qp_break((struct qp *)id->qp));
}

/* ---- this host's addresses ---- */

static const struct {
	const char *name, *address;
	unsigned flags;
} interfaces[] = {
	{ "lo", "127.0.0.1", IFF_UP | IFF_LOOPBACK },
	{ "eth0", "192.168.7.7", IFF_UP },
	{ "r0", "fe80::1", IFF_UP },
	{ "r0", "fd00::1", IFF_UP },
	{ "r0", "10.1.0.1", IFF_UP },
	{ "r1", "10.2.0.1", IFF_UP },
	{ "r2", "10.3.0.1", 0 },
};
#define INTERFACES (sizeof(interfaces) / sizeof(interfaces[0]))

int getifaddrs(struct ifaddrs **ret)
{
	static struct ifaddrs list[INTERFACES];
	static struct sockaddr_storage addrs[INTERFACES];
	static char names[INTERFACES][8];

	if (fails("getifaddrs"))
		return -1;
	for (size_t i = 0; i < INTERFACES; i++) {
		struct sockaddr_in in = { .sin_family = AF_INET };
		struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

		if (inet_pton(AF_INET, interfaces[i].address, &in.sin_addr) == 1)
			memcpy(&addrs[i], &in, sizeof(in));
		else if (inet_pton(AF_INET6, interfaces[i].address, &in6.sin6_addr) ==
			 1)
			memcpy(&addrs[i], &in6, sizeof(in6));
		(void)snprintf(names[i], sizeof(names[i]), "%s", interfaces[i].name);
		list[i] = (struct ifaddrs){
			.ifa_next = i + 1 < INTERFACES ? &list[i + 1] : NULL,
			.ifa_name = names[i],
			.ifa_flags = interfaces[i].flags,
			.ifa_addr = (struct sockaddr *)(void *)&addrs[i],
		};
	}
	*ret = list;
	live_add(1);
	return 0;
}

void freeifaddrs(struct ifaddrs *ifa)
{
	(void)ifa;
	live_add(-1);
}
