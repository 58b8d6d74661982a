/* SPDX-License-Identifier: BSD-3-Clause */
#include "null-verbs.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

_Thread_local struct null_counts null_counts;

/* A completion queue: a ring of completions. */
struct null_cq {
	struct ibv_cq cq;
	unsigned size, first, n;
	uint64_t *wr_ids;
	uint32_t *qp_nums;
};

/* An id and the event that it delivers next. */
struct null_id {
	struct rdma_cm_id id;
	struct sockaddr_storage local;
	bool due;
	enum rdma_cm_event_type event;
};

static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IB };
static int null_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad);
static int null_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs);
static int null_notify(struct ibv_cq *cq, int solicited_only);
static struct ibv_context context = {
	.device = &device,
	.ops = { .post_send = null_post_send,
		 .poll_cq = null_poll_cq,
		 .req_notify_cq = null_notify },
};
static struct ibv_device *devices[] = { &device, NULL };

void null_iwarp(void)
{
	device.transport_type = IBV_TRANSPORT_IWARP;
}

/* ---- the data path ---- */

static int null_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	struct null_cq *cq = (struct null_cq *)qp->send_cq;

	(void)bad;
	null_counts.doorbells++;
	for (; wr; wr = wr->next) {
		unsigned at;

		null_counts.requests++;
		if (!(wr->send_flags & IBV_SEND_SIGNALED))
			continue;
		if (cq->n == cq->size)
			abort(); /* an overrun */
		at = cq->first + cq->n++;
		cq->wr_ids[at < cq->size ? at : at - cq->size] = wr->wr_id;
		cq->qp_nums[at < cq->size ? at : at - cq->size] = qp->qp_num;
		null_counts.signaled++;
	}
	return 0;
}

static int null_poll_cq(struct ibv_cq *of, int n, struct ibv_wc *wcs)
{
	struct null_cq *cq = (struct null_cq *)of;
	int i;

	for (i = 0; i < n && cq->n; i++) {
		wcs[i].wr_id = cq->wr_ids[cq->first];
		wcs[i].status = IBV_WC_SUCCESS;
		wcs[i].vendor_err = 0;
		wcs[i].qp_num = cq->qp_nums[cq->first];
		cq->first = cq->first + 1 < cq->size ? cq->first + 1 : 0;
		cq->n--;
	}
	return i;
}

static int null_notify(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return 0;
}

/* ---- objects of the device ---- */

struct ibv_device **ibv_get_device_list(int *n)
{
	if (n)
		*n = 1;
	(void)strcpy(device.name, NULL_DEVICE);
	return devices;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	(void)of;
	return NULL_DEVICE;
}

struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	context.device = of;
	return &context;
}

int ibv_close_device(struct ibv_context *of)
{
	(void)of;
	return 0;
}

int ibv_query_device(struct ibv_context *of, struct ibv_device_attr *attr)
{
	(void)of;
	*attr = (struct ibv_device_attr){
		.max_mr_size = UINT64_MAX,
		.max_qp_wr = 1 << 15,
		.max_cqe = 1 << 20,
		.max_sge = 32,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.phys_port_cnt = 1,
	};
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *of, uint8_t port,
		   struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *full = (struct ibv_port_attr *)attr;

	(void)of;
	(void)port;
	full->state = IBV_PORT_ACTIVE;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *of)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->context = of;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)access;
	if (!mr)
		return NULL;
	*mr = (struct ibv_mr){ .context = pd->context,
			       .pd = pd,
			       .addr = addr,
			       .length = bytes,
			       .lkey = 7 };
	return mr;
}

/* The header turns ibv_reg_mr() into this call when the access flags are not constant. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes,
				uint64_t iova, unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, bytes, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *of)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->context = of;
	channel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	(void)close(channel->fd);
	free(channel);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **of)
{
	(void)channel;
	(void)cq;
	(void)of;
	errno = EAGAIN;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	(void)cq;
	(void)n;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *of, int entries, void *cookie,
			     struct ibv_comp_channel *channel, int vector)
{
	struct null_cq *cq = calloc(1, sizeof(*cq));

	(void)vector;
	if (!cq)
		return NULL;
	cq->size = (unsigned)entries;
	cq->wr_ids = calloc(cq->size, sizeof(*cq->wr_ids));
	cq->qp_nums = calloc(cq->size, sizeof(*cq->qp_nums));
	if (!cq->wr_ids || !cq->qp_nums)
		abort();
	cq->cq.context = of;
	cq->cq.cq_context = cookie;
	cq->cq.channel = channel;
	cq->cq.cqe = entries;
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *of)
{
	struct null_cq *cq = (struct null_cq *)of;

	free(cq->wr_ids);
	free(cq->qp_nums);
	free(cq);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success" : "failure";
}

struct ibv_cq *null_cq_create(int entries)
{
	return ibv_create_cq(&context, entries, NULL, NULL, 0);
}

struct ibv_qp *null_qp_create(struct ibv_cq *cq)
{
	static uint32_t number;
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->context = &context;
	qp->send_cq = qp->recv_cq = cq;
	qp->qp_num = ++number;
	qp->state = IBV_QPS_RTS;
	return qp;
}

/* ---- connections ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = calloc(1, sizeof(*channel));

	if (channel)
		channel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	(void)close(channel->fd);
	free(channel);
}

/* An event channel has one id, so an id holds the event; the eventfd makes the channel readable. */
static _Thread_local struct null_id *last;

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret_id,
		   void *cookie, enum rdma_port_space space)
{
	struct null_id *id = calloc(1, sizeof(*id));

	(void)space;
	if (!id)
		return -1;
	id->id.channel = channel;
	id->id.context = cookie;
	*ret_id = &id->id;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

static int event_set(struct rdma_cm_id *of, enum rdma_cm_event_type event)
{
	struct null_id *id = (struct null_id *)of;

	id->due = true;
	id->event = event;
	last = id;
	return eventfd_write(of->channel->fd, 1);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source,
		      struct sockaddr *destination, int timeout_ms)
{
	struct null_id *of = (struct null_id *)id;

	(void)source;
	(void)timeout_ms;
	id->verbs = &context;
	id->port_num = 1;
	of->local.ss_family = destination->sa_family;
	id->route.addr.src_addr.sa_family = destination->sa_family;
	return event_set(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	return event_set(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	(void)pd;
	id->qp = null_qp_create(attr->send_cq);
	return id->qp ? 0 : -1;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	free(id->qp);
	id->qp = NULL;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)param;
	return event_set(id, id->qp ? RDMA_CM_EVENT_ESTABLISHED
				    : RDMA_CM_EVENT_CONNECT_RESPONSE);
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value,
		    size_t bytes)
{
	(void)id;
	(void)level;
	(void)name;
	(void)value;
	(void)bytes;
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	attr->path_mtu = IBV_MTU_4096;
	*mask = IBV_QP_STATE;
	return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	(void)ece;
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel,
		      struct rdma_cm_event **ret_event)
{
	struct rdma_cm_event *event;
	eventfd_t count;

	if (!last || last->id.channel != channel || !last->due) {
		errno = EAGAIN;
		return -1;
	}
	event = calloc(1, sizeof(*event));
	if (!event)
		return -1;
	last->due = false;
	(void)eventfd_read(channel->fd, &count);
	event->id = &last->id;
	event->event = last->event;
	*ret_event = event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	return event == RDMA_CM_EVENT_ESTABLISHED ? "established" : "another event";
}
