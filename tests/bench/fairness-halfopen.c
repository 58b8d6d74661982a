/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-halfopen ADDRESS CONTROL_PORT DATA_PORT CHANNELS ROUND_MS: a session that connects
 * CHANNELS channels by rdma_cm and never answers the server's reply.  After ROUND_MS it gives them
 * up, and connects others. */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/hello.h"
#include "fairness-crowd.h"
#include "tls/admission.h"

#define RESOLVE_MS 2000
#define DEPTH 4

/* One connection; its events are not read after rdma_connect(). */
struct half {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
};

struct halfopen {
	struct crowd crowd;
	unsigned channels, round_ms;
	struct sockaddr_in to;
	unsigned endpoint;
	struct half *half;
	uint64_t connected;
};

static void half_resolved(struct half *half, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	bool resolved;

	must(rdma_get_cm_event(half->events, &event) == 0, "rdma_get_cm_event");
	resolved = event->event == wanted;
	(void)rdma_ack_cm_event(event);
	must(resolved, "there is no RDMA route to the address");
}

static void half_resolve(const struct halfopen *halfopen, struct half *half)
{
	struct sockaddr_in to = halfopen->to;

	half->events = rdma_create_event_channel();
	must(half->events &&
		     !rdma_create_id(half->events, &half->id, NULL, RDMA_PS_TCP),
	     "rdma_create_id");
	must(rdma_resolve_addr(half->id, NULL, (struct sockaddr *)&to, RESOLVE_MS) == 0,
	     "rdma_resolve_addr");
	half_resolved(half, RDMA_CM_EVENT_ADDR_RESOLVED);
	must(rdma_resolve_route(half->id, RESOLVE_MS) == 0, "rdma_resolve_route");
	half_resolved(half, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void half_qp_make(struct half *half)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	half->cq = ibv_create_cq(half->id->verbs, DEPTH, NULL, NULL, 0);
	must(half->cq != NULL, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = half->cq;
	must(rdma_create_qp(half->id, NULL, &attr) == 0, "rdma_create_qp");
}

static void half_connect(struct halfopen *halfopen, struct half *half, uint32_t number)
{
	const struct crowd_member *member = &halfopen->crowd.members[0];
	struct fabric_hello hello = { .session = member->session, .channel = number };
	uint8_t bytes[FABRIC_HELLO_BYTES];
	struct rdma_conn_param param = {
		.private_data = bytes,
		.private_data_len = sizeof(bytes),
		.initiator_depth = 1,
		.retry_count = 1,
		.rnr_retry_count = 1,
	};

	(void)admission_token(member->secret, hello.session, hello.channel,
			      hello.token);
	fabric_hello_encode(&hello, bytes);
	half_resolve(halfopen, half);
	half_qp_make(half);
	halfopen->connected += rdma_connect(half->id, &param) == 0;
}

static void half_free(struct half *half)
{
	if (!half->id)
		return;
	rdma_destroy_qp(half->id);
	(void)ibv_destroy_cq(half->cq);
	(void)rdma_destroy_id(half->id);
	rdma_destroy_event_channel(half->events);
	*half = (struct half){ .id = NULL };
}

static bool channel_ask(struct halfopen *halfopen)
{
	message(WIRE_TYPE_open_channel);
	msg.open_channel.endpoint = (uint8_t)halfopen->endpoint;
	return crowd_ask(&halfopen->crowd, 0);
}

/* The first endpoint over RDMA, from a welcome. */
static void endpoint_find(struct halfopen *halfopen)
{
	int fd = session_open();
	const struct wire_welcome *welcome = &answer.welcome;
	unsigned i = 0;

	while (i < welcome->n_endpoints &&
	       welcome->endpoints[i].fabric != WIRE_FABRIC_VERBS)
		i++;
	must(i < welcome->n_endpoints && welcome->endpoints[i].family == 4,
	     "the daemon has no RDMA endpoint with an IPv4 address");
	halfopen->endpoint = i;
	halfopen->to = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htobe16(welcome->endpoints[i].port),
	};
	memcpy(&halfopen->to.sin_addr, welcome->endpoints[i].address,
	       sizeof(halfopen->to.sin_addr));
	session_bye(fd);
}

static void round_run(struct halfopen *halfopen)
{
	uint64_t until_ms = crowd_now_ms() + halfopen->round_ms;

	for (unsigned i = 0; i < halfopen->channels && crowd_goes_on(); i++)
		if (channel_ask(halfopen))
			half_connect(halfopen, &halfopen->half[i],
				     answer.channel.channel);
	while (crowd_goes_on() && crowd_now_ms() < until_ms)
		crowd_turn(&halfopen->crowd, 100, NULL, NULL);
	for (unsigned i = 0; i < halfopen->channels; i++)
		half_free(&halfopen->half[i]);
}

int main(int argc, char **argv)
{
	static struct halfopen halfopen;
	unsigned numbers[2];

	crowd_begin(argc, argv, "CHANNELS ROUND_MS", 2, numbers);
	halfopen.channels = numbers[0];
	halfopen.round_ms = numbers[1];
	halfopen.half = calloc(halfopen.channels, sizeof(*halfopen.half));
	must(halfopen.half != NULL, "calloc");
	endpoint_find(&halfopen);
	crowd_open(&halfopen.crowd, 1);
	crowd_ready();
	while (crowd_goes_on())
		round_run(&halfopen);
	crowd_report(halfopen.connected, halfopen.crowd.refused);
	return 0;
}
