/* SPDX-License-Identifier: BSD-3-Clause */
#include "requests.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "fabric/address.h"
#include "peer.h"

/* Half of the daemon's backlog, [limits] connections: siw 6.12 frees twice what exceeds it. */
#define UNDER_WAY 32
/* of the queue pair that serves a port's management, and what its messages name */
#define GSI_QPN 1
#define GSI_QKEY 0x80010000u
#define GIDS_MAX 64

/* The private data of rdma_cm over IP. */
struct ip_wire {
	uint8_t version, ip_version;
	uint16_t port;
	uint8_t from_pad[12], from[4], to_pad[12], to[4];
} __attribute__((packed));

/* A request to connect a reliable queue pair: InfiniBand architecture, 12.6.5. */
struct request_wire {
	uint8_t base_version, class, class_version, method;
	uint16_t status, class_data;
	uint64_t transaction;
	uint16_t attribute, pad;
	uint32_t modifier;

	uint32_t id, pad2;
	uint64_t service, guid;
	uint32_t pad3, qkey;
	uint32_t qpn_responder, eecn_initiator, remote_timeout, psn_timeout;
	uint16_t pkey;
	uint8_t mtu_rnr, retries;
	uint16_t lid, remote_lid;
	uint8_t gid[16], remote_gid[16];
	uint32_t flow_rate;
	uint8_t traffic_class, hops, subnet, ack_timeout;
	uint8_t alternate[44];
	struct ip_wire ip;
	uint8_t data[REQUEST_DATA_BYTES];
} __attribute__((packed));

_Static_assert(sizeof(struct request_wire) == 256, "a management datagram");

/* The same over iWARP: RFC 5044, 7.1. */
struct mpa_wire {
	char key[16];
	uint16_t flags, data_bytes;
	uint8_t data[REQUEST_DATA_BYTES];
} __attribute__((packed));

struct requests {
	bool iwarp;
	uint16_t port;
	uint64_t n;
	/* number of a request: it has an id and a queue pair of its own */
	uint32_t first;
	/* iWARP: a ring; 0: none */
	int fds[UNDER_WAY];
	/* RoCE */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	uint64_t n_sent;
	struct request_wire ring[UNDER_WAY];
};

static struct fabric_address own_address(void)
{
	struct fabric_address address;

	must(!fabric_address_parse(attack_options.address, &address), "an address");
	return address;
}

struct request request_new(void)
{
	return (struct request){ .from = own_address(), .route = own_address() };
}

/* ---- RoCE ---- */

static void device_open(struct requests *requests, const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	for (unsigned i = 0; devices && devices[i] && !requests->verbs; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			requests->verbs = ibv_open_device(devices[i]);
	must(requests->verbs, "opening the RDMA device");
	ibv_free_device_list(devices);
}

static void qp_step(struct requests *requests, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = state,
				    .port_num = 1,
				    .qkey = GSI_QKEY };

	must(!ibv_modify_qp(requests->qp, &attr, IBV_QP_STATE | mask),
	     "the queue pair of datagrams");
}

static void qp_open(struct requests *requests)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .cap = { .max_send_wr = UNDER_WAY,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	requests->pd = ibv_alloc_pd(requests->verbs);
	requests->cq = ibv_create_cq(requests->verbs, UNDER_WAY, NULL, NULL, 0);
	must(requests->pd && requests->cq, "the device's objects");
	requests->mr =
		ibv_reg_mr(requests->pd, requests->ring, sizeof(requests->ring), 0);
	init.send_cq = init.recv_cq = requests->cq;
	requests->qp = ibv_create_qp(requests->pd, &init);
	must(requests->mr && requests->qp, "the queue pair of datagrams");
	qp_step(requests, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	qp_step(requests, IBV_QPS_RTR, 0);
	qp_step(requests, IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

/* To the daemon's device, from itself. */
static void ah_open(struct requests *requests)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .hop_limit = 64 } };
	const struct fabric_address own = own_address();
	struct ibv_gid_entry gids[GIDS_MAX];
	ssize_t n = ibv_query_gid_table(requests->verbs, gids, GIDS_MAX, 0);

	fabric_address_to_gid(&own, attr.grh.dgid.raw);
	for (ssize_t i = 0; i < n && !requests->ah; i++) {
		if (gids[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(gids[i].gid.raw, attr.grh.dgid.raw, 16) != 0)
			continue;
		attr.grh.sgid_index = (uint8_t)gids[i].gid_index;
		requests->ah = ibv_create_ah(requests->pd, &attr);
	}
	must(requests->ah, "the way to the daemon's GID");
}

static void request_encode(struct request_wire *wire, const struct requests *requests,
			   const struct request *request)
{
	const struct fabric_address own = own_address();
	uint32_t number = requests->first + (uint32_t)requests->n;

	*wire = (struct request_wire){
		.base_version = 1,
		.class = 7,
		.class_version = 2,
		.method = 3,
		.transaction = htobe64(UINT64_C(0xa77ac) << 40 | number),
		.attribute = htobe16(16),
		.id = htobe32(number),
		.service = htobe64(UINT64_C(0x1060000) | requests->port),
		.guid = htobe64(UINT64_C(0xa77ac)),
		.qpn_responder = htobe32(((number & 0x7fffff) + 256) << 8),
		.remote_timeout = htobe32(20 << 3),
		.psn_timeout = htobe32(20 << 3 | 6),
		.pkey = htobe16(0xffff),
		.mtu_rnr = IBV_MTU_1024 << 4 | 6,
		.retries = 15 << 4,
		.lid = 0xffff,
		.remote_lid = 0xffff,
		.flow_rate = htobe32(IBV_RATE_10_GBPS),
		.hops = 64,
		.subnet = 8,
		.ack_timeout = 17 << 3,
		.ip = { .ip_version = 4 << 4, .port = htobe16(4711) },
	};
	fabric_address_to_gid(&request->route, wire->gid);
	fabric_address_to_gid(&own, wire->remote_gid);
	memcpy(wire->ip.from, request->from.bytes, sizeof(wire->ip.from));
	memcpy(wire->ip.to, own.bytes, sizeof(wire->ip.to));
	memcpy(wire->data, request->data, sizeof(wire->data));
}

/* Wait until no more than `left` are under way. */
static void sends_await(struct requests *requests, uint64_t left)
{
	uint64_t until_ms = clock_now_ms() + ATTACK_WAIT_MS;
	struct ibv_wc wc;
	int n;

	while (requests->n - requests->n_sent > left) {
		n = ibv_poll_cq(requests->cq, 1, &wc);
		must(n >= 0 && (n == 0 || wc.status == IBV_WC_SUCCESS),
		     "sending a request");
		must(clock_now_ms() < until_ms, "a request is not sent");
		requests->n_sent += (uint64_t)n;
	}
}

static void datagram_send(struct requests *requests, const struct request *request)
{
	struct request_wire *wire = &requests->ring[requests->n % UNDER_WAY];
	struct ibv_sge sge = { .addr = (uintptr_t)wire,
			       .length = sizeof(*wire),
			       .lkey = requests->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { .ah = requests->ah,
					     .remote_qpn = GSI_QPN,
					     .remote_qkey = GSI_QKEY } };
	struct ibv_send_wr *bad;

	sends_await(requests, UNDER_WAY - 1);
	request_encode(wire, requests, request);
	must(!ibv_post_send(requests->qp, &wr, &bad), "sending a request");
}

static void device_close(struct requests *requests)
{
	sends_await(requests, 0);
	must(!ibv_destroy_ah(requests->ah) && !ibv_destroy_qp(requests->qp) &&
		     !ibv_dereg_mr(requests->mr) && !ibv_destroy_cq(requests->cq) &&
		     !ibv_dealloc_pd(requests->pd) &&
		     !ibv_close_device(requests->verbs),
	     "closing the RDMA device");
}

/* ---- iWARP ---- */

/* The daemon ends each of them. */
static void socket_end(int *fd)
{
	if (!*fd)
		return;
	must(socket_await_end(*fd, ATTACK_WAIT_MS), "a request is not refused");
	(void)close(*fd);
	*fd = 0;
}

static void stream_send_request(struct requests *requests,
				const struct request *request)
{
	int *fd = &requests->fds[requests->n % UNDER_WAY];
	struct mpa_wire wire = { .flags = htobe16(1),
				 .data_bytes = htobe16(REQUEST_DATA_BYTES) };

	memcpy(wire.key, "MPA ID Req Frame", sizeof(wire.key));
	memcpy(wire.data, request->data, sizeof(wire.data));
	socket_end(fd);
	*fd = socket_open(attack_options.address, requests->port, NULL);
	must(*fd > 0, "connecting");
	must(send(*fd, &wire, sizeof(wire), MSG_NOSIGNAL) == sizeof(wire),
	     "sending a request");
}

/* ---- both ---- */

struct requests *requests_open(const struct fabric_endpoint *endpoint)
{
	struct requests *requests = calloc(1, sizeof(*requests));

	must(requests, "memory");
	requests->iwarp = endpoint->flags & WIRE_ENDPOINT_CONFIRM;
	requests->port = endpoint->address.port;
	if (requests->iwarp)
		return requests;
	random_bytes(&requests->first, sizeof(requests->first));
	device_open(requests, endpoint->device);
	qp_open(requests);
	ah_open(requests);
	return requests;
}

void requests_send(struct requests *requests, const struct request *request)
{
	if (requests->iwarp)
		stream_send_request(requests, request);
	else
		datagram_send(requests, request);
	requests->n++;
}

void requests_close(struct requests *requests)
{
	if (requests->iwarp)
		for (unsigned i = 0; i < UNDER_WAY; i++)
			socket_end(&requests->fds[i]);
	else
		device_close(requests);
	free(requests);
}
