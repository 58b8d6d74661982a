/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/address.h"

#define DEPTH 64u

static struct fabric_address control_address(uint16_t port)
{
	struct fabric_address address = { .family = 4, .port = port };
	unsigned bytes[4];

	must(sscanf(attack_options.address, "%u.%u.%u.%u", &bytes[0], &bytes[1],
		    &bytes[2], &bytes[3]) == 4,
	     "an IPv4 address");
	for (unsigned i = 0; i < 4; i++)
		address.bytes[i] = (uint8_t)bytes[i];
	return address;
}

struct fabric_endpoint link_endpoint(const struct peer *peer)
{
	const struct wire_endpoint *from =
		&peer->welcome.endpoints[peer_endpoint(peer)];
	struct fabric_endpoint endpoint = { .kind = attack_options.fabric,
					    .node = from->node,
					    .flags = from->flags };

	endpoint.address =
		(struct fabric_address){ .family = from->family, .port = from->port };
	memcpy(endpoint.address.bytes, from->address, sizeof(from->address));
	if (!endpoint.address.family || fabric_address_is_any(&endpoint.address))
		endpoint.address = control_address(from->port);
	(void)snprintf(endpoint.device, sizeof(endpoint.device), "%s", from->device);
	return endpoint;
}

struct link *link_open(struct peer *peer)
{
	const struct fabric_endpoint endpoint = link_endpoint(peer);
	struct link *link = calloc(1, sizeof(*link));

	must(link, "memory");
	link->peer = peer;
	link->ops = attack_options.fabric == FABRIC_TCP ? &fabric_tcp_client
							: &fabric_verbs_client;
	must(!link->ops->domain_open(&endpoint, NULL, ATTACK_WAIT_MS, &link->domain),
	     "a domain");
	must(!link->ops->cq_create(link->domain, DEPTH, &link->cq), "a cq");
	link->memory = aligned_alloc(4096, LINK_BYTES);
	must(link->memory, "memory");
	memset(link->memory, 0, LINK_BYTES);
	if (link->ops->needs_local_mr)
		must(!link->ops->reg_mr(link->domain, link->memory, LINK_BYTES,
					&link->region),
		     "local memory");
	link->can_atomics =
		!link->ops->domain_supports(link->domain, FABRIC_CAN_ATOMICS);
	link->iwarp = endpoint.flags & WIRE_ENDPOINT_CONFIRM;
	return link;
}

int link_admit(struct link *link, const struct fabric_hello *hello)
{
	struct fabric_channel_params params = { .hello = *hello,
						.depth = DEPTH,
						.timeout_ms = ATTACK_WAIT_MS,
						.owner = link };

	must(!link->channel, "a second channel");
	return link->ops->connect(link->cq, &params, &link->channel);
}

static void link_reconnect(struct link *link)
{
	struct fabric_hello hello = peer_grant(link->peer);

	must(!link_admit(link, &hello), "a granted channel is refused");
	link->reconnects++;
}

struct link *link_connect(struct peer *peer)
{
	struct link *link = link_open(peer);

	link_reconnect(link);
	return link;
}

static void link_hang_up(struct link *link)
{
	if (link->channel)
		link->ops->channel_free(link->channel);
	link->channel = NULL;
}

void link_close(struct link *link)
{
	link_hang_up(link);
	if (link->region)
		link->ops->dereg_mr(link->region);
	link->ops->cq_free(link->cq);
	link->ops->domain_close(link->domain);
	free(link->memory);
	free(link);
}

/* The next completions; *ret_n operations ended with the status. */
static int await(struct link *link, unsigned *ret_n)
{
	uint64_t until_ms = clock_now_ms() + ATTACK_WAIT_MS;
	struct fabric_wc wc;

	for (;;) {
		struct pollfd fds[2] = {
			{ .fd = link->ops->cq_fd(link->cq), .events = POLLIN },
			{ .fd = link->ops->alive_fd(link->channel), .events = POLLIN },
		};
		int n = link->ops->poll(link->cq, &wc, 1);

		must(!link->ops->cq_arm(link->cq), "arming a cq");
		if (n == 0)
			n = link->ops->poll(link->cq, &wc, 1);
		must(n >= 0 && clock_now_ms() < until_ms, "no completion");
		if (n > 0)
			break;
		must(poll(fds, 2, ATTACK_WAIT_MS) > 0, "no completion in time");
		if (fds[1].revents)
			(void)link->ops->alive(link->channel);
	}
	*ret_n = wc.n;
	return wc.status;
}

static int prepare(struct link *link, enum fabric_opcode opcode, struct fabric_key key,
		   uint64_t bytes, const struct fabric_inband_request *request)
{
	static const struct fabric_atomic atomic = { .compare = 0, .operand = 1 };
	const struct fabric_batch batch = fabric_batch_of(opcode, link->region, &key);
	const struct fabric_op op = { .addr = link->memory, .bytes = bytes };

	switch (opcode) {
	case FABRIC_READ:
	case FABRIC_WRITE:
		return (int)link->ops->prepare(link->channel, &batch, &op, sizeof(op),
					       1);
	case FABRIC_CAS:
	case FABRIC_FETCH_ADD:
		return link->ops->prepare_atomic(link->channel, &batch, &op, &atomic);
	default:
		return link->ops->prepare_inband(link->channel, &batch, &op, request);
	}
}

static int run(struct link *link, enum fabric_opcode opcode, struct fabric_key key,
	       uint64_t bytes, const struct fabric_inband_request *request)
{
	unsigned n;
	int posted, status;

	must(prepare(link, opcode, key, bytes, request) == 1,
	     "an operation cannot be prepared");
	posted = link->ops->post(link->channel);
	status = posted == 1 ? await(link, &n) : -ECONNRESET;
	if (status && (status != -EACCES || attack_options.fabric != FABRIC_TCP))
		link_hang_up(link);
	return status;
}

int link_run(struct link *link, enum fabric_opcode opcode, struct fabric_key key,
	     uint64_t bytes)
{
	static const struct fabric_inband_request request = { .pattern = 0x41414141,
							      .value = 1 };

	if (!link->channel)
		link_reconnect(link);
	return run(link, opcode, key, bytes, &request);
}

int link_run_once(struct link *link, enum fabric_opcode opcode, struct fabric_key key,
		  uint64_t bytes)
{
	return link->channel ? run(link, opcode, key, bytes, NULL) : -ECONNRESET;
}

int link_copy(struct link *link, struct fabric_key to, struct fabric_key from,
	      uint64_t bytes)
{
	const struct fabric_inband_request request = { .source = from };

	if (!link->channel)
		link_reconnect(link);
	return run(link, FABRIC_COPY, to, bytes, &request);
}

unsigned link_guess(struct link *link, struct fabric_key key, unsigned from,
		    unsigned to)
{
	const struct fabric_op op = { .addr = link->memory, .bytes = 8 };
	unsigned refused = 0, posted = from, done = from, n;

	if (!link->channel)
		link_reconnect(link);
	while (done < to) {
		peers_keep();
		while (posted < to && posted - done < DEPTH) {
			const struct fabric_key guess = { key.addr, key.rkey ^ posted };
			const struct fabric_batch batch =
				fabric_batch_of(FABRIC_READ, link->region, &guess);

			must(link->ops->prepare(link->channel, &batch, &op, sizeof(op),
						1) == 1,
			     "an operation cannot be prepared");
			posted++;
		}
		must(posted == done || link->ops->post(link->channel) >= 0,
		     "guesses are not posted");
		if (await(link, &n) == -EACCES)
			refused += n;
		done += n;
	}
	return refused;
}
