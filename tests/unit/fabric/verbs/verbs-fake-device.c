/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices of the fake, their attributes and asynchronous events. */
#include "unit/fabric/verbs/verbs-fake-state.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct ibv_device devices[FAKE_DEVICES];
static struct ibv_context contexts[FAKE_DEVICES];

static struct ibv_async_event async_events[8];
static unsigned n_async_events;

struct ibv_context *fake_context(int n)
{
	struct ibv_context *context = &contexts[n];

	if (!context->device) {
		(void)snprintf(devices[n].name, sizeof(devices[n].name), "fake%d", n);
		context->device = &devices[n];
		context->ops.poll_cq = fake_poll_cq;
		context->ops.req_notify_cq = fake_req_notify_cq;
		context->ops.post_send = fake_post_send;
		context->ops.post_recv = fake_post_recv;
		context->async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
		context->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	devices[n].transport_type =
		verbs_fake.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	return context;
}

void fake_device_return(unsigned device)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	ck_assert_int_ge(fd, 0);
	(void)dup3(fd, fake_context((int)device)->async_fd, O_CLOEXEC);
	(void)close(fd);
	verbs_fake.absent[device] = false;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list = calloc(FAKE_DEVICES + 1, sizeof(*list));

	ck_assert_ptr_nonnull(list);
	for (int i = 0; i < FAKE_DEVICES && !verbs_fake.no_devices; i++)
		list[i] = fake_context(i)->device;
	if (num)
		*num = verbs_fake.no_devices ? 0 : FAKE_DEVICES;
	fake_live_add(1);
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	fake_live_add(-1);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (fake_fails("ibv_open_device"))
		return NULL;
	fake_live_add(1);
	return fake_context(device == &devices[1]);
}

int ibv_close_device(struct ibv_context *context)
{
	(void)context;
	fake_live_add(-1);
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	if (fake_fails("ibv_query_device"))
		return fake_error();
	*attr = (struct ibv_device_attr){
		.max_cqe = verbs_fake.max_cqe,
		.max_qp_wr = verbs_fake.max_qp_wr,
		.max_qp_rd_atom = 8,
		.max_qp_init_rd_atom = 128,
		.max_mr_size = verbs_fake.max_mr_bytes,
		.max_qp = 11,
		.vendor_id = verbs_fake.vendor,
		.max_sge = 12,
		.max_sge_rd = verbs_fake.iwarp ? 1 : 3,
		.max_cq = 13,
		.max_mr = 14,
		.atomic_cap = verbs_fake.atomics,
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
	if (fake_fails("ibv_query_port"))
		return fake_error();
	full->state = verbs_fake.port_down[context - contexts] ? IBV_PORT_DOWN
							       : IBV_PORT_ACTIVE;
	full->active_mtu = IBV_MTU_1024;
	full->max_mtu = IBV_MTU_4096;
	full->link_layer = verbs_fake.infiniband ? IBV_LINK_LAYER_INFINIBAND
						 : IBV_LINK_LAYER_ETHERNET;
	full->lid = 7;
	full->pkey_tbl_len = verbs_fake.infiniband ? 3 : 1;
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	(void)port;
	ck_assert_int_lt(index, verbs_fake.infiniband ? 3 : 1);
	if (fake_fails("ibv_query_pkey"))
		return -1;
	*pkey = htons(verbs_fake.infiniband ? verbs_fake.pkeys[index] : 0xffff);
	return 0;
}

/* The GIDs of fake0; the GID of port 2 must not be used. */
static const struct {
	const char *gid;
	uint32_t index, port, type;
} gids[] = {
	{ "fe80::1", 0, 1, IBV_GID_TYPE_ROCE_V2 },
	{ "::ffff:10.1.0.1", 1, 1, IBV_GID_TYPE_ROCE_V1 },
	{ "::ffff:10.1.0.1", 2, 1, IBV_GID_TYPE_ROCE_V2 },
	{ "fd00::1", 3, 1, IBV_GID_TYPE_ROCE_V2 },
	{ "::ffff:10.1.0.1", 0, 2, IBV_GID_TYPE_ROCE_V2 },
};

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max, uint32_t flags, size_t bytes)
{
	const size_t n = sizeof(gids) / sizeof(gids[0]);

	(void)context;
	ck_assert_uint_eq(flags, 0);
	ck_assert_uint_eq(bytes, sizeof(*entries));
	if (fake_fails("ibv_query_gid_table"))
		return -fake_error();
	if (n + verbs_fake.extra_gids > max)
		return -EINVAL;
	for (size_t i = 0; i < n + verbs_fake.extra_gids; i++) {
		size_t at = i < n ? i : 0;

		entries[i].gid_index = (i < n ? gids[i].index : (uint32_t)i) +
				       verbs_fake.gid_index_shift;
		entries[i].port_num = gids[at].port;
		entries[i].gid_type =
			verbs_fake.infiniband ? IBV_GID_TYPE_IB : gids[at].type;
		ck_assert_int_eq(inet_pton(AF_INET6, gids[at].gid, entries[i].gid.raw),
				 1);
	}
	return (ssize_t)(n + verbs_fake.extra_gids);
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

static void async_event_put(unsigned device, struct ibv_async_event event)
{
	LOCKED(async_events[n_async_events++] = event);
	(void)eventfd_write(fake_context((int)device)->async_fd, 1);
}

void fake_async_event(unsigned device, enum ibv_event_type type, int port)
{
	struct ibv_async_event event = { .event_type = type };

	if (type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_QP_REQ_ERR)
		event.element.qp = fake_state.last->public.qp;
	else
		event.element.port_num = port;
	async_event_put(device, event);
}

void fake_async_event_lost(unsigned device, enum ibv_event_type type)
{
	struct ibv_async_event event = { .event_type = type };

	ck_assert_ptr_nonnull(fake_state.lost);
	event.element.qp = &fake_state.lost->public;
	async_event_put(device, event);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	eventfd_t count;

	if (verbs_fake.async_error) {
		errno = verbs_fake.async_error;
		return -1;
	}
	if (eventfd_read(context->async_fd, &count))
		return -1;
	LOCKED(*event = async_events[0]; n_async_events--;
	       fake_state.unacked_async_events++;
	       memmove(async_events, async_events + 1,
		       n_async_events * sizeof(async_events[0])));
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	LOCKED(fake_state.unacked_async_events--);
}
