/* SPDX-License-Identifier: BSD-3-Clause */
#include "sessions.h"

#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TIMEOUT_MS 5000
#define RETRIES 6
#define BACKLOG 128
#define DEPTH 32
#define READS 16
#define BUFFER_BYTES 4096u

/* The server's memory, sent as private data when it accepts.  Both ends are one program, so the
 * struct needs no byte order. */
struct remote_memory {
	uint64_t addr;
	uint32_t rkey;
};

/* One end of a connection. */
struct bare {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	/* at the client only */
	struct ibv_cq *cq;
	void *memory;
	struct remote_memory remote;
};

/* What all connections of the client share. */
static struct {
	struct rdma_event_channel *events;
	struct ibv_comp_channel *completions;
} client;

static void end_make(struct bare *end, struct ibv_cq *cq, void *memory, size_t bytes,
		     unsigned access, uint32_t depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = depth,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	end->pd = ibv_alloc_pd(end->id->verbs);
	if (!end->pd)
		give_up("ibv_alloc_pd");
	end->mr = ibv_reg_mr(end->pd, memory, bytes, access);
	if (!end->mr)
		give_up("ibv_reg_mr");
	if (rdma_create_qp(end->id, end->pd, &attr))
		give_up("rdma_create_qp");
}

static void end_free(struct bare *end)
{
	rdma_destroy_qp(end->id);
	if (ibv_dereg_mr(end->mr) || ibv_dealloc_pd(end->pd) ||
	    rdma_destroy_id(end->id))
		give_up("cannot free a connection");
	free(end);
}

/* ---- the server ---- */

static uint32_t words[BENCH_BYTES / sizeof(uint32_t)];

static void request_accept(struct rdma_cm_id *id)
{
	static struct ibv_cq *cq;
	struct bare *end = calloc(1, sizeof(*end));
	struct remote_memory memory = { .addr = (uintptr_t)words };
	struct rdma_conn_param param = {
		.private_data = &memory,
		.private_data_len = sizeof(memory),
		.responder_resources = READS,
		.rnr_retry_count = RETRIES,
	};

	if (!cq)
		cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0);
	if (!cq || !end)
		give_up("ibv_create_cq");
	end->id = id;
	id->context = end;
	end_make(end, cq, words, sizeof(words),
		 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 1);
	memory.rkey = end->mr->rkey;
	if (rdma_accept(id, &param))
		give_up("rdma_accept");
}

static _Noreturn void serve(struct rdma_event_channel *events)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(events, &event)) {
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type type = event->event;

		(void)rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			request_accept(id);
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			(void)rdma_disconnect(id);
			end_free(id->context);
		}
	}
	give_up("rdma_get_cm_event");
}

void bare_serve(const char *address, uint16_t port)
{
	struct sockaddr_in local = address_of(address, port);
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	int ready[2];
	char byte = 0;
	pid_t pid;

	if (pipe(ready))
		give_up("pipe");
	pid = fork();
	if (pid < 0)
		give_up("fork");
	if (pid > 0) {
		(void)close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			give_up("the bare server");
		(void)close(ready[0]);
		return;
	}
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		give_up("prctl");
	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = bench_pattern(i);
	events = rdma_create_event_channel();
	if (!events || rdma_create_id(events, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&local) || rdma_listen(id, BACKLOG))
		give_up("rdma_listen");
	if (write(ready[1], &byte, 1) != 1)
		give_up("pipe");
	serve(events);
}

/* ---- the client ---- */

/* One connection is set up at a time, so the next event must be of this type. */
static void event_await(enum rdma_cm_event_type type, struct remote_memory *ret_memory)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(client.events, &event) || event->event != type)
		give_up(rdma_event_str(type));
	if (ret_memory) {
		if (event->param.conn.private_data_len < sizeof(*ret_memory))
			give_up("the server sent no memory address");
		memcpy(ret_memory, event->param.conn.private_data, sizeof(*ret_memory));
	}
	(void)rdma_ack_cm_event(event);
}

static struct rdma_cm_id *route_find(const char *address, uint16_t port)
{
	struct sockaddr_in peer = address_of(address, port);
	struct rdma_cm_id *id;

	if (!client.events)
		client.events = rdma_create_event_channel();
	if (!client.events || rdma_create_id(client.events, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, TIMEOUT_MS))
		give_up("rdma_resolve_addr");
	event_await(RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (rdma_resolve_route(id, TIMEOUT_MS))
		give_up("rdma_resolve_route");
	event_await(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	return id;
}

struct bare *bare_connect(const char *address, uint16_t port)
{
	struct rdma_conn_param param = { .initiator_depth = READS,
					 .retry_count = RETRIES,
					 .rnr_retry_count = RETRIES };
	struct bare *bare = calloc(1, sizeof(*bare));

	if (!bare)
		give_up("no memory for a connection");
	bare->id = route_find(address, port);
	if (!client.completions)
		client.completions = ibv_create_comp_channel(bare->id->verbs);
	bare->cq = client.completions ? ibv_create_cq(bare->id->verbs, DEPTH, NULL,
						      client.completions, 0)
				      : NULL;
	bare->memory = aligned_alloc(BUFFER_BYTES, BUFFER_BYTES);
	if (!bare->cq || !bare->memory)
		give_up("ibv_create_cq");
	end_make(bare, bare->cq, bare->memory, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE,
		 DEPTH);
	if (rdma_connect(bare->id, &param))
		give_up("rdma_connect");
	event_await(RDMA_CM_EVENT_ESTABLISHED, &bare->remote);
	return bare;
}

uint32_t bare_read(struct bare *bare, uint64_t offset)
{
	uint32_t *word = bare->memory;
	struct ibv_sge sge = {
		.addr = (uintptr_t)word,
		.length = sizeof(*word),
		.lkey = bare->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = bare->remote.addr + offset,
			     .rkey = bare->remote.rkey },
	};
	struct ibv_send_wr *bad;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_req_notify_cq(bare->cq, 0) || ibv_post_send(bare->id->qp, &wr, &bad) ||
	    ibv_get_cq_event(client.completions, &cq, &context))
		give_up("ibv_post_send");
	ibv_ack_cq_events(cq, 1);
	if (ibv_poll_cq(bare->cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		give_up("a read");
	return *word;
}

void bare_close(struct bare *bare)
{
	struct ibv_cq *cq = bare->cq;
	void *memory = bare->memory;

	if (rdma_disconnect(bare->id))
		give_up("rdma_disconnect");
	event_await(RDMA_CM_EVENT_DISCONNECTED, NULL);
	end_free(bare);
	if (ibv_destroy_cq(cq))
		give_up("ibv_destroy_cq");
	free(memory);
}
