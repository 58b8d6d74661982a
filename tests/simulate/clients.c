/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/clients.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "simulate/daemon.h"
#include "simulate/fds.h"
#include "simulate/network.h"
#include "simulate/program.h"

#define STACK_BYTES (256u << 10)
#define FDS_MAX 4

struct client {
	ucontext_t context;
	char *stack;
	bool done;
	bool reached;
	struct pollfd fds[FDS_MAX]; /* it waits for these */
	unsigned n_fds;
	uint64_t until_ns; /* at most until then */
	uint64_t paused_until_ns;
	const char *call; /* NULL: it is in none */
	uint64_t call_end_ns;
	uint64_t disturbed_ns; /* when something last was in its way */
};

enum phase clients_phase;

static struct client clients[SIM_CLIENTS];
static unsigned n_clients, running;
static ucontext_t scheduler;

static void client_main(void)
{
	program_run(running);
	clients[running].done = clients[running].reached = true;
	/* not run again */
	(void)swapcontext(&clients[running].context, &scheduler);
}

static void client_init(struct client *client)
{
	*client = (struct client){ .until_ns = sim_now_ns };
	client->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (client->stack == MAP_FAILED || getcontext(&client->context))
		sim_fail("no stack for a client");
	client->context.uc_stack.ss_sp = client->stack;
	client->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&client->context, client_main, 0);
}

void clients_init(unsigned n)
{
	n_clients = n;
	for (unsigned i = 0; i < n; i++)
		client_init(&clients[i]);
}

void clients_end(void)
{
	for (unsigned i = 0; i < n_clients; i++)
		(void)munmap(clients[i].stack, STACK_BYTES);
	n_clients = 0;
}

unsigned clients_count(void)
{
	return n_clients;
}

unsigned client_running(void)
{
	return running;
}

static bool is_ready(const struct client *client)
{
	if (client->done || client->paused_until_ns > sim_now_ns)
		return false;
	if (client->until_ns <= sim_now_ns)
		return true;
	for (unsigned i = 0; i < client->n_fds; i++)
		if (fds_events(client->fds[i].fd) &
		    (short)(client->fds[i].events | POLLERR | POLLHUP))
			return true;
	return false;
}

bool clients_ready(void)
{
	for (unsigned i = 0; i < n_clients; i++)
		if (is_ready(&clients[i]))
			return true;
	return false;
}

static uint64_t due_ns(const struct client *client)
{
	uint64_t due = client->until_ns;

	if (client->done)
		return SIM_NEVER;
	if (client->paused_until_ns > sim_now_ns)
		return client->paused_until_ns;
	for (unsigned i = 0; i < client->n_fds; i++) {
		uint64_t next = fds_due_ns(client->fds[i].fd);

		if (next < due)
			due = next;
	}
	return due;
}

uint64_t clients_due_ns(void)
{
	uint64_t due = SIM_NEVER;

	for (unsigned i = 0; i < n_clients; i++)
		if (due_ns(&clients[i]) < due)
			due = due_ns(&clients[i]);
	return due;
}

/* Is something in its way? */
static void look_at(unsigned i)
{
	bool cut = link_is_down(i, TO_DAEMON) || link_is_down(i, TO_CLIENT);
	bool away = !daemon_up || daemon_paused_until_ns > sim_now_ns;
	bool full = sim_faults.daemon_memory_ns > sim_now_ns ||
		    sim_faults.registration_ns > sim_now_ns ||
		    sim_faults.slow_device_ns > sim_now_ns;

	if ((cut || away || full) && clients[i].disturbed_ns < sim_now_ns)
		clients[i].disturbed_ns = sim_now_ns;
}

static void check_call(unsigned i)
{
	const struct client *client = &clients[i];

	if (client->call && sim_now_ns > client->call_end_ns)
		sim_fail("client %u still waits in %s", i, client->call);
}

bool clients_step(void)
{
	unsigned n = 0, picked = 0;

	for (unsigned i = 0; i < n_clients; i++) {
		look_at(i);
		if (is_ready(&clients[i]) && sim_chance(++n))
			picked = i;
		else if (!clients[i].done && clients[i].paused_until_ns <= sim_now_ns)
			check_call(i);
	}
	if (!n)
		return false;
	running = picked;
	sim_actor = SIM_CLIENT;
	(void)swapcontext(&scheduler, &clients[picked].context);
	sim_actor = SIM_NOBODY;
	return true;
}

void client_wait(const struct pollfd *fds, unsigned n, uint64_t until_ns)
{
	struct client *client = &clients[running];

	client->n_fds = 0;
	for (unsigned i = 0; i < n; i++)
		if (fds[i].fd >= 0 && client->n_fds < FDS_MAX)
			client->fds[client->n_fds++] = fds[i];
	client->until_ns = until_ns;
	(void)swapcontext(&client->context, &scheduler);
	client->n_fds = 0;
}

void client_pause(unsigned i, uint64_t until_ns)
{
	struct client *client = &clients[i];
	uint64_t from = client->paused_until_ns > sim_now_ns ? client->paused_until_ns
							     : sim_now_ns;

	if (client->done || until_ns <= from)
		return;
	client->paused_until_ns = client->disturbed_ns = until_ns;
	client->call_end_ns += until_ns - from;
}

void clients_heal(void)
{
	for (unsigned i = 0; i < n_clients; i++)
		clients[i].paused_until_ns = 0;
}

void client_call_begin(const char *name, uint64_t limit_ms)
{
	clients[running].call = name;
	clients[running].call_end_ns = sim_now_ns + limit_ms * SIM_MS;
	sim_note("client %u: %s", running, name);
}

void client_call_end(void)
{
	check_call(running);
	clients[running].call = NULL;
}

bool client_is_calm(uint64_t ms)
{
	uint64_t disturbed = clients[running].disturbed_ns;

	return sim_now_ns > disturbed && sim_now_ns - disturbed > ms * SIM_MS;
}

void client_reached(enum phase phase)
{
	clients[running].reached = phase == clients_phase;
}

bool clients_reached(void)
{
	for (unsigned i = 0; i < n_clients; i++)
		if (!clients[i].reached)
			return false;
	for (unsigned i = 0; i < n_clients; i++)
		clients[i].reached = clients[i].done;
	return true;
}
