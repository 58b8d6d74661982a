/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-holder ADDRESS CONTROL_PORT DATA_PORT SESSIONS LEASES BYTES NAMED: sessions that hold
 * leases, LEASES of all of them together, of BYTES each.  NAMED 1: the leases have names.  Each
 * session has a port for channels, so that each lease has a key.  Prints "ready" once it holds
 * them, with their number, and holds them until SIGTERM. */
#include <stdio.h>
#include <unistd.h>

#include "fairness-crowd.h"

#define WINDOW 64u /* requests of a session at a time */
#define TURN_MS 100

struct holder {
	struct crowd crowd;
	unsigned sessions, leases, bytes, named;
	unsigned asked, held;
};

static void lease_ask(struct holder *holder, unsigned member)
{
	if (holder->asked == holder->leases)
		return;
	message(WIRE_TYPE_allocate);
	msg.allocate.bytes = holder->bytes;
	msg.allocate.node = -1;
	if (holder->named)
		(void)snprintf(msg.allocate.name, sizeof(msg.allocate.name),
			       "held-%d-%u", (int)getpid(), holder->asked);
	holder->asked += crowd_post(&holder->crowd, member);
}

static void on_reply(void *ctx, unsigned member)
{
	struct holder *holder = ctx;

	holder->held += answer.type == WIRE_TYPE_lease;
	lease_ask(holder, member);
}

static void ports_open(struct holder *holder)
{
	for (unsigned i = 0; i < holder->sessions; i++) {
		message(WIRE_TYPE_open_channel);
		(void)crowd_post(&holder->crowd, i);
	}
	crowd_await_all(&holder->crowd, NULL, NULL);
}

static void leases_hold(struct holder *holder)
{
	for (unsigned k = 0; k < WINDOW; k++)
		for (unsigned i = 0; i < holder->sessions; i++)
			lease_ask(holder, i);
	crowd_await_all(&holder->crowd, on_reply, holder);
}

int main(int argc, char **argv)
{
	static struct holder holder;
	unsigned numbers[4];

	crowd_begin(argc, argv, "SESSIONS LEASES BYTES NAMED", 4, numbers);
	holder = (struct holder){ .sessions = numbers[0],
				  .leases = numbers[1],
				  .bytes = numbers[2],
				  .named = numbers[3] };
	crowd_open(&holder.crowd, holder.sessions);
	ports_open(&holder);
	leases_hold(&holder);
	crowd_report(holder.held, holder.crowd.refused);
	crowd_ready();
	while (crowd_goes_on())
		crowd_turn(&holder.crowd, TURN_MS, NULL, NULL);
	return 0;
}
