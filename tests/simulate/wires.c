/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/wires.h"

#include <stdlib.h>
#include <string.h>

#include "simulate/daemon.h"
#include "simulate/fabric.h"

/* How long an RDMA device repeats a packet, and how often. */
#define RETRY_NS (1500 * SIM_MS)
#define RETRY_EVERY_NS (100 * SIM_MS)

struct list wires = LIST_INIT(wires);

struct wire *wire_new(unsigned client, const struct fabric_endpoint *to)
{
	struct wire *wire = sim_alloc(sizeof(*wire));

	wire->client = client;
	wire->to = *to;
	list_init(&wire->packets[TO_DAEMON]);
	list_init(&wire->packets[TO_CLIENT]);
	list_append(&wires, &wire->link);
	return wire;
}

struct packet *wire_send(struct wire *wire, enum direction direction,
			 enum packet_kind kind, const void *from, uint32_t bytes)
{
	struct packet *packet = sim_alloc(sizeof(*packet) + bytes), *last;
	struct list *packets = &wire->packets[direction];

	packet->kind = kind;
	packet->sent_ns = sim_now_ns;
	packet->due_ns = link_arrival_ns();
	/* a switch that holds it back for long */
	if (sim_chance(300) && !sim_healed)
		packet->due_ns += sim_random(3000) * SIM_MS;
	if (!list_empty(packets)) {
		last = container_of(packets->prev, struct packet, link);
		if (last->due_ns > packet->due_ns)
			packet->due_ns = last->due_ns;
	}
	packet->bytes = bytes;
	if (from && bytes)
		memcpy(packet->data, from, bytes);
	list_append(packets, &packet->link);
	return packet;
}

static void packet_drop(struct packet *packet)
{
	list_remove(&packet->link);
	free(packet);
}

static struct packet *first(struct wire *wire, enum direction direction)
{
	return list_first(&wire->packets[direction], struct packet, link);
}

static void wire_free_unused(struct wire *wire)
{
	if (wire->channel || wire->server || first(wire, TO_DAEMON) ||
	    first(wire, TO_CLIENT))
		return;
	list_remove(&wire->link);
	free(wire);
}

/* The packet cannot arrive now. */
static void packet_meets_cut(struct wire *wire, struct packet *packet,
			     enum direction direction)
{
	if (!wire->channel && direction == TO_CLIENT) {
		packet_drop(packet);
	} else if (wire->to.kind == FABRIC_TCP) {
		packet->due_ns = link_again_ns(wire->client, direction);
		/* the client's host gives up, too */
		if (packet->due_ns == SIM_NEVER && !wire->channel)
			packet_drop(packet);
	} else if (!wire->channel) {
		packet_drop(packet);
	} else if (sim_now_ns - packet->sent_ns < RETRY_NS) {
		packet->due_ns = sim_now_ns + RETRY_EVERY_NS;
	} else {
		packet_drop(packet);
		client_give_up(wire);
	}
}

static void packet_arrives(struct wire *wire, enum direction direction)
{
	struct packet *packet = first(wire, direction);

	if (link_is_down(wire->client, direction)) {
		packet_meets_cut(wire, packet, direction);
	} else if (direction == TO_DAEMON && server_needs_daemon(wire) &&
		   daemon_paused_until_ns > sim_now_ns) {
		packet->due_ns = daemon_paused_until_ns;
	} else {
		list_remove(&packet->link);
		if (direction == TO_DAEMON)
			server_receive(wire, packet);
		else
			client_receive(wire, packet);
		free(packet);
	}
	wire_free_unused(wire);
}

uint64_t fabric_due_ns(void)
{
	uint64_t due = server_due_ns();

	list_for_each_entry(struct wire, wire, &wires, link) {
		for (int i = 0; i < 2; i++) {
			const struct packet *packet = first(wire, (enum direction)i);

			if (packet && packet->due_ns < due)
				due = packet->due_ns;
		}
	}
	return due;
}

bool fabric_step(void)
{
	struct wire *picked = NULL;
	enum direction direction = TO_DAEMON;
	unsigned n = 0;

	list_for_each_entry(struct wire, wire, &wires, link) {
		for (int i = 0; i < 2; i++) {
			const struct packet *packet = first(wire, (enum direction)i);

			if (!packet || packet->due_ns > sim_now_ns || !sim_chance(++n))
				continue;
			picked = wire;
			direction = (enum direction)i;
		}
	}
	if (!picked || sim_chance(n + 1))
		if (server_step())
			return true;
	if (picked)
		packet_arrives(picked, direction);
	return picked;
}

void fabric_end(void)
{
	list_for_each_entry_safe(struct wire, wire, &wires, link) {
		for (int i = 0; i < 2; i++)
			while (first(wire, (enum direction)i))
				packet_drop(first(wire, (enum direction)i));
		if (wire->channel)
			sim_fail("a channel of client %u is left", wire->client);
		wire_free_unused(wire);
	}
}
