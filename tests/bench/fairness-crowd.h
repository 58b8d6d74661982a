/* SPDX-License-Identifier: BSD-3-Clause */
/* The sessions of an attacker: they speak the control protocol directly, and stay alive by pings.
 * A session that the daemon has ended is opened again.  Built on tests/fault/hostile-peer.h, whose
 * `msg` is the request to send and whose `answer` is the reply.
 * Threads: one. */
#ifndef TESTS_BENCH_FAIRNESS_CROWD_H
#define TESTS_BENCH_FAIRNESS_CROWD_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "fault/hostile-peer.h"

/* One session. */
struct crowd_member {
	uint64_t session;
	uint8_t secret[WIRE_SECRET_BYTES];
	uint64_t ping_id; /* of the ping without a reply; 0: none */
	unsigned waiting; /* number of requests without a reply, pings not counted */
};

struct crowd {
	unsigned n;
	/* sockets; fd -1: the daemon refused the session or has ended it */
	struct pollfd *polls;
	struct crowd_member *members;
	uint64_t beat_ms; /* time of the next pings */
	unsigned waiting; /* sum over the members */
	uint64_t replies, refused, lost;
};

/* The reply to a request of this member. */
typedef void crowd_on_reply(void *ctx, unsigned member);

/* Read ADDRESS, CONTROL_PORT and DATA_PORT from the arguments, and let SIGTERM and SIGINT end the
 * attack.  The other arguments, `n` numbers, are stored in ret_numbers. */
void crowd_begin(int argc, char **argv, const char *usage, unsigned n,
		 unsigned *ret_numbers);
/* False: the attack ends. */
bool crowd_goes_on(void);

void crowd_open(struct crowd *crowd, unsigned n);
/* Send `msg` from a member; false: it has no session now. */
bool crowd_post(struct crowd *crowd, unsigned member);
/* Wait up to timeout_ms for replies, and hand them over. */
void crowd_turn(struct crowd *crowd, int timeout_ms, crowd_on_reply *on_reply,
		void *ctx);
/* Hand over replies until no request waits. */
void crowd_await_all(struct crowd *crowd, crowd_on_reply *on_reply, void *ctx);
/* Send `msg` from a member and wait for the reply; false: the request failed.  No other request
 * of the crowd waits. */
bool crowd_ask(struct crowd *crowd, unsigned member);

/* Close with RST, so that no port of this host stays in TIME_WAIT. */
void crowd_hang_up(int fd);
uint64_t crowd_now_ms(void);
/* Print "ready" for the script: the attack is prepared. */
void crowd_ready(void);
/* Print the number of things done, and the number that the daemon refused. */
void crowd_report(uint64_t done, uint64_t refused);

#endif
