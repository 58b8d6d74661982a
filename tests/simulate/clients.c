/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/clients.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <rmem/rmem.h>

#include "simulate/daemon.h"
#include "simulate/fabric.h"
#include "simulate/fds.h"
#include "simulate/keys.h"
#include "simulate/mates.h"
#include "simulate/network.h"
#include "simulate/program.h"

#define STACK_BYTES (1u << 20)
#define FDS_MAX 4

/* Each client has two threads: those of the clients, and those of their mates behind them. */
#define THREADS (2 * SIM_CLIENTS)

struct client {
	ucontext_t context;
	char *stack;
	bool done;
	bool reached;
	struct pollfd fds[FDS_MAX]; /* it waits for these */
	unsigned n_fds;
	const void *cond;  /* or for this condition variable */
	uint64_t until_ns; /* at most until then */
	uint64_t paused_until_ns;
	const char *call; /* NULL: it is in none */
	uint64_t call_end_ns;
	uint64_t disturbed_ns; /* when something last was in its way */
};

enum phase clients_phase;

static struct client clients[THREADS];
static unsigned n_clients, running;
static ucontext_t scheduler;

#define threads_for_each(client)                                                    \
	for (struct client *client = clients; client < clients + THREADS; client++) \
		if (client->stack)

static unsigned client_of(const struct client *thread)
{
	return (unsigned)(thread - clients) % SIM_CLIENTS;
}

static void client_main(void)
{
	if (running < SIM_CLIENTS)
		program_run(running);
	else
		mate_run(client_running());
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
	fabric_begin();
	for (unsigned i = 0; i < n; i++) {
		client_init(&clients[i]);
		client_init(&clients[SIM_CLIENTS + i]);
	}
}

void clients_end(void)
{
	threads_for_each(client)
	{
		(void)munmap(client->stack, STACK_BYTES);
		client->stack = NULL;
	}
	n_clients = 0;
}

unsigned clients_count(void)
{
	return n_clients;
}

unsigned client_running(void)
{
	return running % SIM_CLIENTS;
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
	threads_for_each(client) if (is_ready(client)) return true;
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

	threads_for_each(client) if (due_ns(client) < due) due = due_ns(client);
	return due;
}

/* Is something in its way? */
static void look_at(struct client *client)
{
	unsigned i = client_of(client);
	bool cut = link_is_down(i, TO_DAEMON) || link_is_down(i, TO_CLIENT);
	bool away = !daemon_up || daemon_paused_until_ns > sim_now_ns;
	bool full = sim_faults.daemon_memory_ns > sim_now_ns ||
		    sim_faults.registration_ns > sim_now_ns ||
		    sim_faults.slow_device_ns > sim_now_ns;

	if ((cut || away || full || keys_disturb(i)) &&
	    client->disturbed_ns < sim_now_ns)
		client->disturbed_ns = sim_now_ns;
}

static void check_call(const struct client *client)
{
	if (client->call && sim_now_ns > client->call_end_ns)
		sim_fail("client %u still waits in %s", client_of(client),
			 client->call);
}

bool clients_step(void)
{
	unsigned n = 0, picked = 0;

	threads_for_each(client)
	{
		look_at(client);
		if (is_ready(client) && sim_chance(++n))
			picked = (unsigned)(client - clients);
		else if (!client->done && client->paused_until_ns <= sim_now_ns)
			check_call(client);
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
	unsigned timeout_ms = rmem_thread_timeout(0);

	client->n_fds = 0;
	for (unsigned i = 0; i < n; i++)
		if (fds[i].fd >= 0 && client->n_fds < FDS_MAX)
			client->fds[client->n_fds++] = fds[i];
	client->until_ns = until_ns;
	(void)swapcontext(&client->context, &scheduler);
	client->n_fds = 0;
	(void)rmem_thread_timeout(timeout_ms);
}

void client_wait_cond(const void *cond, uint64_t until_ns)
{
	struct client *client = &clients[running];

	client->cond = cond;
	client_wait(NULL, 0, until_ns);
	client->cond = NULL;
}

void clients_signal(const void *cond)
{
	threads_for_each(client) if (client->cond == cond) client->until_ns =
		sim_now_ns;
}

static void thread_pause(struct client *client, uint64_t until_ns)
{
	uint64_t from = client->paused_until_ns > sim_now_ns ? client->paused_until_ns
							     : sim_now_ns;

	if (client->done || until_ns <= from)
		return;
	client->paused_until_ns = client->disturbed_ns = until_ns;
	client->call_end_ns += until_ns - from;
}

void client_pause(unsigned i, uint64_t until_ns)
{
	thread_pause(&clients[i], until_ns);
	thread_pause(&clients[SIM_CLIENTS + i], until_ns);
}

void clients_heal(void)
{
	threads_for_each(client) client->paused_until_ns = 0;
}

void client_call_begin(const char *name, uint64_t limit_ms)
{
	clients[running].call = name;
	clients[running].call_end_ns = sim_now_ns + limit_ms * SIM_MS;
	sim_note("client %u%s: %s", client_running(),
		 running < SIM_CLIENTS ? "" : "'s mate", name);
}

void client_call_end(void)
{
	check_call(&clients[running]);
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
	threads_for_each(client) if (!client->reached) return false;
	threads_for_each(client) client->reached = client->done;
	return true;
}
