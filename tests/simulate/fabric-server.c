/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's half of the simulated fabrics: the fake server of the unit tests, for packets, and
 * for keys that take time. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"
#include "rmemd/lease/mr.h"
#include "simulate/checks.h"
#include "simulate/daemon.h"
#include "simulate/fabric.h"
#include "simulate/wires.h"
#include "unit/librmem/fake-fabric-wire.h"

#define EACH_MR(mr) list_for_each_entry(struct fabric_mr, mr, &fake_mrs, link)

/* ---- what the daemon calls ---- */

static bool fails(void)
{
	return sim_now_ns < sim_faults.registration_ns && sim_chance(sim_faults.one_in);
}

static uint64_t device_ns(void)
{
	uint64_t ns = 50000 + sim_random(1000000);

	if (sim_now_ns < sim_faults.slow_device_ns)
		ns += sim_random(2500) * SIM_MS;
	return sim_now_ns + ns;
}

/* Two devices; or TCP. */
static void at_open(struct fabric_server *server)
{
	bool tcp = server->kind == FABRIC_TCP;

	server->endpoints += tcp ? 2 : 0;
	server->n_endpoints = tcp ? 1 : 2;
}

static int at_session_open(void)
{
	return fails() ? -ENOMEM : 0;
}

static int at_reg(struct fabric_mr *mr)
{
	const struct mr *of = mr->cookie;

	daemon_point();
	if (fails())
		return -ENOMEM;
	mr->lease = of->segment->lease->id;
	if (mr->session->server->kind == FABRIC_TCP)
		return 0;
	mr->due_ns = device_ns();
	mr->err = fails() ? -EIO : 0;
	return 1;
}

static bool at_dereg(struct fabric_mr *mr)
{
	daemon_point();
	if (mr->session->server->kind == FABRIC_TCP && !mr->n_notes && !sim_chance(4))
		return false;
	if (mr->state == FAKE_MR_PENDING) {
		mr->state = FAKE_MR_DEAD;
		mr->event = true;
		fake_server_wake(mr->session->server);
	}
	mr->due_ns = device_ns();
	mr->used = mr->bytes;
	return true;
}

/* ---- channels ---- */

static void admitted(void *client, int err)
{
	struct wire *wire = client;

	if (err)
		wire->server = NULL;
	wire_send(wire, TO_CLIENT, err ? PACKET_REFUSE : PACKET_ACCEPT, NULL, 0)
		->status = err;
}

static void gone(void *client)
{
	struct wire *wire = client;

	wire->server = NULL;
	(void)wire_send(wire, TO_CLIENT, PACKET_GONE, NULL, 0);
}

/* The end of a channel that the daemon does not know yet. */
static void channel_fail(struct wire *wire, const char *why)
{
	fake_server_leave(wire->server, why);
	gone(wire);
}

static void at_access(const struct server_channel *channel, const struct fabric_mr *mr,
		      char *addr, uint64_t bytes)
{
	const struct wire *wire = channel->client;

	check_access(wire->client, addr, bytes, mr->lease);
}

/* ---- requests ---- */

static uint32_t answer_bytes(const struct fake_wr *wr)
{
	if (wr->opcode == FABRIC_CRC)
		return sizeof(uint32_t);
	return wr->opcode == FABRIC_READ || wr->opcode == FABRIC_CAS ||
			       wr->opcode == FABRIC_FETCH_ADD
		       ? wr->bytes
		       : 0;
}

static void perform(struct wire *wire, struct packet *packet)
{
	static _Alignas(uint64_t) char data[WIRE_OP_BYTES];
	struct fake_wr wr = packet->wr;
	struct fabric_mr *mr = fake_mr_find(wr.rkey);

	wr.addr = wr.opcode == FABRIC_WRITE ? (void *)packet->data : data;
	wr.mr = NULL;
	wire_perform(&wr);
	if (wr.opcode == FABRIC_NOTIFY) {
		mr->n_notes++;
		mr->note = wr.request.value;
		fake_server_wake(wire->server->server);
	}
	wire_send(wire, TO_CLIENT, PACKET_ANSWER, data, answer_bytes(&wr))->wr =
		packet->wr;
}

static void refuse(struct wire *wire, const struct packet *packet)
{
	struct server_channel *channel = wire->server;
	struct packet *answer;

	sim_note("  client %u is refused: key %llu, %u bytes", wire->client,
		 (unsigned long long)packet->wr.rkey, packet->wr.bytes);
	answer = wire_send(wire, TO_CLIENT, PACKET_ANSWER, NULL, 0);
	answer->status = -EACCES;
	channel->session->refused++;
	fake_server_wake(channel->server);
	if (wire->to.kind == FABRIC_VERBS)
		channel_fail(wire, "an access was refused");
}

static bool is_open(const struct wire *wire)
{
	return wire->server && wire->server->session;
}

static void request(struct wire *wire, struct packet *packet)
{
	uint64_t until_ns = wire->server->session->until_ns;

	if (until_ns && until_ns <= sim_now_ns)
		channel_fail(wire, "its client was silent");
	else if (fake_server_allows(wire->server, &packet->wr))
		perform(wire, packet);
	else
		refuse(wire, packet);
}

void server_receive(struct wire *wire, struct packet *packet)
{
	switch (packet->kind) {
	case PACKET_CONNECT:
		wire->server = fake_server_ask(&wire->to, &wire->hello, wire);
		if (!wire->server)
			admitted(wire, -ECONNREFUSED);
		break;
	case PACKET_REQUEST:
		if (wire->server)
			request(wire, packet);
		break;
	default:
		if (wire->server)
			fake_server_leave(wire->server, "");
		wire->server = NULL;
		break;
	}
}

bool server_needs_daemon(const struct wire *wire)
{
	return wire->to.kind == FABRIC_TCP;
}

/* ---- devices ---- */

static bool mr_busy(const struct fabric_mr *mr)
{
	return (mr->state == FAKE_MR_PENDING && !mr->event) ||
	       mr->state == FAKE_MR_DYING;
}

uint64_t server_due_ns(void)
{
	uint64_t due = SIM_NEVER;

	EACH_MR(mr)
	if (mr_busy(mr) && mr->due_ns < due)
		due = mr->due_ns;
	return due;
}

bool server_step(void)
{
	struct fabric_mr *picked = NULL;
	unsigned n = 0;

	EACH_MR(mr)
	if (mr_busy(mr) && mr->due_ns <= sim_now_ns && sim_chance(++n))
		picked = mr;
	if (!picked)
		return false;
	if (picked->state == FAKE_MR_DYING)
		picked->state = FAKE_MR_DEAD;
	else if (!picked->err)
		picked->state = FAKE_MR_LIVE;
	picked->event = true;
	fake_server_wake(picked->session->server);
	return true;
}

bool fabric_reaches_lease(uint64_t lease)
{
	EACH_MR(mr)
	if (mr->lease == lease && fake_mr_works(mr))
		return true;
	return false;
}

void fabric_each_guest(void (*each)(uint64_t lease, const char *owner,
				    const char *tenant))
{
	EACH_MR(mr)
	if (fake_mr_works(mr)) {
		const struct mr *of = mr->cookie;

		each(mr->lease, of->segment->lease->tenant->name,
		     of->client->tenant->name);
	}
}

unsigned fabric_keys(void)
{
	unsigned n = 0;

	EACH_MR(mr)
	n++;
	return n;
}

void fabric_each_mr(void (*each)(const char *addr, uint64_t bytes, uint64_t lease))
{
	EACH_MR(mr)
	if (mr->state != FAKE_MR_DEAD)
		each(mr->addr, mr->bytes, mr->lease);
}

void fabric_check_growth(void)
{
	EACH_MR(mr)
	{
		const struct mr *of = mr->cookie;
		uint64_t now = of->segment->bytes;

		if (mr->state != FAKE_MR_DYING)
			continue;
		if (mr->bytes > mr->used && now > mr->used)
			sim_fail("lease %llu grows where a dying key reaches",
				 (unsigned long long)mr->lease);
		if (now < mr->used)
			mr->used = now;
	}
}

void fabric_each_channel(void (*each)(unsigned client))
{
	list_for_each_entry(const struct wire, wire, &wires, link) {
		if (is_open(wire) && !wire->server->session->closing)
			each(wire->client);
	}
}

void fabric_key_told(uint64_t rkey)
{
	EACH_MR(mr)
	mr->known |= mr->rkey == rkey;
}

void fabric_attack(void)
{
	struct fabric_mr *picked = NULL;
	unsigned n = 0;
	uint64_t from, bytes;

	EACH_MR(mr)
	if (mr->state == FAKE_MR_DYING && mr->known && fake_mr_works(mr) &&
	    (mr->rights & FABRIC_RIGHT_WRITE) && sim_chance(++n))
		picked = mr;
	if (!picked)
		return;
	from = sim_random(picked->bytes);
	bytes = 1 + sim_random(picked->bytes - from);
	if (bytes > 64)
		bytes = 64;
	check_late_write(picked->addr + from, bytes, picked->lease);
}

void fabric_cut(unsigned client)
{
	list_for_each_entry(struct wire, wire, &wires, link) {
		if (wire->client == client && is_open(wire))
			channel_fail(wire, "the simulation cut it");
	}
}

void server_begin(void)
{
	static const char *const devices[] = { "sim0", "sim1", "" };

	n_fake_endpoints = sizeof(devices) / sizeof(devices[0]);
	for (unsigned i = 0; i < n_fake_endpoints; i++) {
		struct fabric_endpoint *endpoint = &fake_endpoints[i];

		*endpoint = (struct fabric_endpoint){
			.kind = *devices[i] ? FABRIC_VERBS : FABRIC_TCP,
			.address = { .family = 4,
				     .bytes = { 192, 0, 2, 200 },
				     .port = 7461 },
			.flags = FABRIC_ENDPOINT_ATOMICS | FABRIC_ENDPOINT_INBAND,
			.node = -1,
		};
		(void)strcpy(endpoint->device, devices[i]);
	}
	fake_server_hooks = (struct fake_server_hooks){
		.at_open = at_open,
		.at_session_open = at_session_open,
		.at_session_close = daemon_point,
		.at_reg = at_reg,
		.at_dereg = at_dereg,
		.at_access = at_access,
		.admitted = admitted,
		.gone = gone,
	};
}
