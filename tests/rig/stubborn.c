/* SPDX-License-Identifier: BSD-3-Clause */
/* A client that goes on with its keys as long as they work: stubborn ADDRESS PORT MARK
 *
 * Two processes.  The keeper holds the control connection and sends heartbeats; it borrows a page.
 * The writer has nothing but the hello of a channel and the page's key: it writes MARK, 16 hex
 * digits, to the page's begin, and a number that rises to byte 64, as fast as it can, past librmem
 * and its rules.  When its queue pair fails it tries to connect another one with the same hello,
 * again and again.
 *
 * Prints "ready KEEPER WRITER PORT", the pids and the port of the control connection, after the
 * first write; both processes run until they are killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "control-peer.h"
#include "fabric/client.h"
#include "fabric/verbs/client/connection.h"
#include "wire/codec.h"

#define CLIENT (&fabric_verbs_client)
#define PAGE 4096
#define NUMBER_AT 64  /* of the page */
#define OUTSTANDING 2 /* of the writes, unless none completes for a while */
#define DEPTH 16
#define IDLE_POLLS 50
#define CONNECT_MS 10000
#define AGAIN_MS 800

static struct fabric_hello hello;
static struct fabric_endpoint endpoint;
static struct fabric_key key;
static uint64_t mark;
static uint64_t *numbers; /* one for each write that is posted */
static unsigned control_port;

static void sleep_us(long us)
{
	struct timespec time = { .tv_nsec = us * 1000 };

	(void)nanosleep(&time, NULL);
}

/* ---- the keeper ---- */

static void session_open(struct wire_welcome *ret_welcome)
{
	wire_msg_init(&msg, WIRE_TYPE_hello);
	msg.hello.magic = WIRE_MAGIC;
	msg.hello.version_min = WIRE_VERSION_MIN;
	msg.hello.version_max = WIRE_VERSION_MAX;
	msg.hello.channel = WIRE_FABRIC_VERBS;
	(void)strcpy(msg.hello.tenant, "default");
	(void)strcpy(msg.hello.client, "stubborn");
	control_ask(WIRE_TYPE_welcome);
	must(reply.welcome.channel, "no channel over RDMA");
	*ret_welcome = reply.welcome;
}

static void channel_know(const struct wire_welcome *welcome)
{
	const struct wire_endpoint *at = &welcome->endpoints[welcome->endpoint];

	endpoint.kind = FABRIC_VERBS;
	endpoint.address.family = at->family;
	memcpy(endpoint.address.bytes, at->address, sizeof(at->address));
	endpoint.address.port = at->port;
	endpoint.node = at->node;
	endpoint.flags = at->flags;
	(void)strcpy(endpoint.device, at->device);
	hello.session = welcome->session;
	hello.channel = welcome->channel;
	control_token(welcome, hello.channel, hello.token);
}

static void lease_get(unsigned at)
{
	wire_msg_init(&msg, WIRE_TYPE_allocate);
	msg.allocate.bytes = PAGE;
	msg.allocate.node = -1;
	msg.allocate.reach = 1u << at;
	control_ask(WIRE_TYPE_lease);
	must(reply.lease.n_keys == 1 && reply.lease.keys[0].endpoint == at, "no key");
	key.addr = reply.lease.keys[0].addr;
	key.rkey = reply.lease.keys[0].rkey;
}

/* ---- the writer ---- */

static void write_post(struct ibv_qp *qp, const struct ibv_mr *mr, uint64_t *from,
		       uint64_t offset)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from,
			       .length = sizeof(*from),
			       .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = VERBS_WAKEUP_WR_ID, /* nothing to librmem's code */
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = key.addr + offset,
			     .rkey = (uint32_t)key.rkey },
	};

	/* of a queue pair that has failed: the completions tell */
	(void)ibv_post_send(qp, &wr, &bad);
}

/* Write until a write fails; its status. */
static enum ibv_wc_status write_on(struct fabric_channel *channel,
				   const struct ibv_mr *mr)
{
	unsigned outstanding = 1, limit = OUTSTANDING, idle = 0;
	static uint64_t number;
	struct ibv_wc wc;

	numbers[DEPTH] = mark;
	write_post(channel->qp, mr, &numbers[DEPTH], 0);
	for (;;) {
		int n;

		while (outstanding < limit) {
			uint64_t *from = &numbers[++number % DEPTH];

			*from = number;
			write_post(channel->qp, mr, from, NUMBER_AT);
			outstanding++;
		}
		n = ibv_poll_cq(channel->cq->cq, 1, &wc);
		if (n < 1) {
			sleep_us(1000);
			/* soft-RoCE at times forgets to repeat a lost request until there is
			 * another one */
			if (++idle % IDLE_POLLS == 0 && limit < DEPTH)
				limit++;
			continue;
		}
		if (wc.status != IBV_WC_SUCCESS)
			return wc.status;
		outstanding--;
		limit = OUTSTANDING;
		idle = 0;
		if (number == OUTSTANDING - 1) {
			(void)printf("ready %d %d %u\n", getppid(), getpid(),
				     control_port);
			(void)fflush(stdout);
		}
	}
}

/* Connect with the hello, and write. */
static void writer_try(void)
{
	struct fabric_channel_params params = { .hello = hello,
						.depth = 2 * DEPTH,
						.timeout_ms = CONNECT_MS };
	struct fabric_domain *domain;
	struct fabric_local_mr *region;
	struct fabric_cq *cq;
	struct fabric_channel *channel;
	enum ibv_wc_status status;

	if (CLIENT->domain_open(&endpoint, NULL, CONNECT_MS, &domain)) {
		(void)fprintf(stderr, "stubborn: %s\n", err_text());
		return;
	}
	must(!CLIENT->reg_mr(domain, numbers, PAGE, &region), "reg_mr");
	must(!CLIENT->cq_create(domain, 2 * DEPTH, &cq), "cq_create");
	if (CLIENT->connect(cq, &params, &channel)) {
		(void)fprintf(stderr, "stubborn: %s\n", err_text());
	} else {
		status = write_on(channel, region->mr);
		(void)fprintf(stderr, "stubborn: a write: %s\n",
			      ibv_wc_status_str(status));
		CLIENT->channel_free(channel);
	}
	CLIENT->cq_free(cq);
	CLIENT->dereg_mr(region);
	CLIENT->domain_close(domain);
}

_Noreturn static void writer_run(void)
{
	/* or it would stay open when the keeper is killed */
	(void)close(control.fd);
	for (;;) {
		writer_try();
		sleep_us(AGAIN_MS * 1000L);
	}
}

int main(int argc, char **argv)
{
	struct wire_welcome welcome;
	pid_t writer;

	if (argc != 4) {
		(void)fprintf(stderr, "usage: stubborn ADDRESS PORT MARK\n");
		return 2;
	}
	mark = strtoull(argv[3], NULL, 16);
	(void)signal(SIGPIPE, SIG_IGN);
	control_connect(argv[1], argv[2]);
	control_port = control_local_port();
	session_open(&welcome);
	channel_know(&welcome);
	lease_get(welcome.endpoint);
	numbers = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	must(numbers != MAP_FAILED, "mmap");
	writer = fork();
	must(writer >= 0, "fork");
	if (!writer)
		writer_run();
	while (control_beat(welcome.heartbeat_ms))
		;
	/* the writer is to have no other sign of its end than those of RDMA */
	for (;;)
		(void)pause();
}
