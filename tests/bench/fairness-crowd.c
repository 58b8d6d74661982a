/* SPDX-License-Identifier: BSD-3-Clause */
#include "fairness-crowd.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Less than the default interval of heartbeats. */
#define BEAT_MS 400u
#define ARGUMENTS 4 /* the program, the address, two ports */

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

void crowd_begin(int argc, char **argv, const char *usage, unsigned n,
		 unsigned *ret_numbers)
{
	const struct sigaction action = { .sa_handler = on_signal };

	if (argc != ARGUMENTS + (int)n) {
		(void)fprintf(stderr, "usage: %s ADDRESS CONTROL_PORT DATA_PORT %s\n",
			      argv[0], usage);
		exit(2);
	}
	address = argv[1];
	control_port = argv[2];
	data_port = argv[3];
	attack_begin(argv[0]);
	for (unsigned i = 0; i < n; i++)
		ret_numbers[i] = (unsigned)strtoul(argv[ARGUMENTS + i], NULL, 10);
	must(sigaction(SIGTERM, &action, NULL) == 0 &&
		     sigaction(SIGINT, &action, NULL) == 0,
	     "sigaction");
}

bool crowd_goes_on(void)
{
	return !stopped;
}

void crowd_hang_up(int fd)
{
	const struct linger none = { .l_onoff = 1 };

	must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) == 0,
	     "SO_LINGER");
	(void)close(fd);
}

uint64_t crowd_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void crowd_ready(void)
{
	(void)printf("ready\n");
	(void)fflush(stdout);
}

void crowd_report(uint64_t done, uint64_t refused)
{
	(void)printf("done %" PRIu64 " refused %" PRIu64 "\n", done, refused);
}

/* ---- members ---- */

static void member_open(struct crowd *crowd, unsigned i)
{
	struct crowd_member *member = &crowd->members[i];
	int fd = peer_connect(control_port);

	hello_make();
	if (!ask(fd) || answer.type != WIRE_TYPE_welcome) {
		crowd->refused++;
		(void)close(fd);
		return;
	}
	member->session = answer.welcome.session;
	member->ping_id = 0;
	memcpy(member->secret, answer.welcome.secret, sizeof(member->secret));
	crowd->polls[i].fd = fd;
}

static void member_lost(struct crowd *crowd, unsigned i)
{
	crowd->lost++;
	crowd->waiting -= crowd->members[i].waiting;
	crowd->members[i].waiting = 0;
	(void)close(crowd->polls[i].fd);
	crowd->polls[i].fd = -1;
}

static bool member_send(struct crowd *crowd, unsigned i)
{
	size_t bytes = encode();

	if (crowd->polls[i].fd < 0)
		return false;
	if (push(crowd->polls[i].fd, frame, bytes))
		return true;
	member_lost(crowd, i);
	return false;
}

/* One ping at a time: behind thousands of requests, the reply comes after the next beat. */
static void member_beat(struct crowd *crowd, unsigned i)
{
	if (crowd->polls[i].fd < 0)
		member_open(crowd, i);
	if (crowd->members[i].ping_id)
		return;
	message(WIRE_TYPE_ping);
	if (member_send(crowd, i))
		crowd->members[i].ping_id = msg.id;
}

static void member_receive(struct crowd *crowd, unsigned i, crowd_on_reply *on_reply,
			   void *ctx)
{
	struct crowd_member *member = &crowd->members[i];

	if (!message_get(crowd->polls[i].fd)) {
		member_lost(crowd, i);
		return;
	}
	if (answer_is_event())
		return;
	if (answer.id == member->ping_id) {
		member->ping_id = 0;
		return;
	}
	member->waiting--;
	crowd->waiting--;
	crowd->replies++;
	crowd->refused += answer.type == WIRE_TYPE_error;
	if (on_reply)
		on_reply(ctx, i);
}

/* ---- the crowd ---- */

void crowd_open(struct crowd *crowd, unsigned n)
{
	*crowd = (struct crowd){ .n = n, .beat_ms = crowd_now_ms() + BEAT_MS };
	crowd->polls = calloc(n, sizeof(*crowd->polls));
	crowd->members = calloc(n, sizeof(*crowd->members));
	must(crowd->polls && crowd->members, "calloc");
	for (unsigned i = 0; i < n; i++) {
		crowd->polls[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
		member_open(crowd, i);
	}
}

bool crowd_post(struct crowd *crowd, unsigned i)
{
	if (!member_send(crowd, i))
		return false;
	crowd->members[i].waiting++;
	crowd->waiting++;
	return true;
}

void crowd_turn(struct crowd *crowd, int timeout_ms, crowd_on_reply *on_reply,
		void *ctx)
{
	uint64_t now_ms = crowd_now_ms();

	if (now_ms >= crowd->beat_ms) {
		crowd->beat_ms = now_ms + BEAT_MS;
		for (unsigned i = 0; i < crowd->n; i++)
			member_beat(crowd, i);
	}
	if (poll(crowd->polls, crowd->n, timeout_ms) <= 0)
		return;
	for (unsigned i = 0; i < crowd->n; i++)
		if (crowd->polls[i].fd >= 0 && crowd->polls[i].revents)
			member_receive(crowd, i, on_reply, ctx);
}

void crowd_await_all(struct crowd *crowd, crowd_on_reply *on_reply, void *ctx)
{
	while (crowd->waiting && crowd_goes_on())
		crowd_turn(crowd, BEAT_MS, on_reply, ctx);
}

/* `answer` is overwritten by the replies to pings. */
static void reply_keep(void *ctx, unsigned member)
{
	(void)member;
	*(struct wire_msg *)ctx = answer;
}

bool crowd_ask(struct crowd *crowd, unsigned member)
{
	struct wire_msg reply = { .type = WIRE_TYPE_error };

	if (!crowd_post(crowd, member))
		return false;
	crowd_await_all(crowd, reply_keep, &reply);
	answer = reply;
	return answer.type != WIRE_TYPE_error;
}
