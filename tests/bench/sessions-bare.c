/* SPDX-License-Identifier: BSD-3-Clause */
#include "sessions.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TIMEOUT_MS 5000
#define BYTES 4096u
#define RETRIES 6
#define BACKLOG 128
#define ENTRIES 64

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		give_up("the address");
	return address;
}

/* What both sides make for each connection; the completion queue may be one for all. */
static void id_equip(struct rdma_cm_id *id, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 32,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	void *memory = aligned_alloc(BYTES, BYTES);

	if (!pd || !memory)
		give_up("ibv_alloc_pd");
	if (!ibv_reg_mr(pd, memory, BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ))
		give_up("ibv_reg_mr");
	if (rdma_create_qp(id, pd, &attr))
		give_up("rdma_create_qp");
}

static _Noreturn void serve(struct rdma_event_channel *events)
{
	struct rdma_conn_param param = { .responder_resources = 16,
					 .rnr_retry_count = RETRIES };
	struct rdma_cm_event *event;
	struct ibv_cq *cq = NULL;

	while (!rdma_get_cm_event(events, &event)) {
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type type = event->event;

		(void)rdma_ack_cm_event(event);
		if (type != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		if (!cq)
			cq = ibv_create_cq(id->verbs, ENTRIES, NULL, NULL, 0);
		if (!cq)
			give_up("ibv_create_cq");
		id_equip(id, cq);
		if (rdma_accept(id, &param))
			give_up("rdma_accept");
	}
	give_up("rdma_get_cm_event");
}

void bare_serve(const char *address, uint16_t port)
{
	struct sockaddr_in local = address_of(address, port);
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	pid_t pid = fork();

	if (pid < 0)
		give_up("fork");
	if (pid > 0)
		return;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		give_up("prctl");
	events = rdma_create_event_channel();
	if (!events || rdma_create_id(events, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&local) || rdma_listen(id, BACKLOG))
		give_up("rdma_listen");
	serve(events);
}

void bare_connect(const char *address, uint16_t port)
{
	struct sockaddr_in peer = address_of(address, port);
	struct rdma_conn_param param = { .initiator_depth = 16,
					 .retry_count = RETRIES,
					 .rnr_retry_count = RETRIES };
	struct rdma_cm_id *id;
	struct ibv_cq *cq;

	/* without an event channel each call waits for its event */
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, TIMEOUT_MS) ||
	    rdma_resolve_route(id, TIMEOUT_MS))
		give_up("no RDMA route");
	cq = ibv_create_cq(id->verbs, ENTRIES, NULL, NULL, 0);
	if (!cq)
		give_up("ibv_create_cq");
	id_equip(id, cq);
	if (rdma_connect(id, &param))
		give_up("rdma_connect");
}
