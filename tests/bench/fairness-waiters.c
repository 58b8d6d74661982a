/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-waiters ADDRESS CONTROL_PORT DATA_PORT SESSIONS REQUESTS BYTES: sessions that keep
 * REQUESTS requests for BYTES each under way, for more memory than there is.  What is granted is
 * freed at once, so there is always memory that is being zeroed, for which the requests wait. */
#include "fairness-crowd.h"

#define TURN_MS 100

struct waiters {
	struct crowd crowd;
	unsigned each; /* requests of a session */
	unsigned bytes;
	uint64_t granted;
};

static void memory_ask(struct waiters *waiters, unsigned member)
{
	message(WIRE_TYPE_allocate);
	msg.allocate.bytes = waiters->bytes;
	msg.allocate.node = -1;
	(void)crowd_post(&waiters->crowd, member);
}

static void on_reply(void *ctx, unsigned member)
{
	struct waiters *waiters = ctx;

	if (answer.type != WIRE_TYPE_lease) {
		memory_ask(waiters, member);
		return;
	}
	waiters->granted++;
	message(WIRE_TYPE_free);
	msg.free.lease = answer.lease.lease;
	(void)crowd_post(&waiters->crowd, member);
}

int main(int argc, char **argv)
{
	static struct waiters waiters;
	unsigned numbers[3];

	crowd_begin(argc, argv, "SESSIONS REQUESTS BYTES", 3, numbers);
	must(numbers[0] > 0, "SESSIONS is 0");
	waiters = (struct waiters){ .each = numbers[1] / numbers[0],
				    .bytes = numbers[2] };
	crowd_open(&waiters.crowd, numbers[0]);
	crowd_ready();
	while (crowd_goes_on()) {
		/* at first, and after a session was lost */
		for (unsigned i = 0; i < waiters.crowd.n; i++)
			while (waiters.crowd.polls[i].fd >= 0 &&
			       waiters.crowd.members[i].waiting < waiters.each)
				memory_ask(&waiters, i);
		crowd_turn(&waiters.crowd, TURN_MS, on_reply, &waiters);
	}
	crowd_report(waiters.granted, waiters.crowd.refused);
	return 0;
}
