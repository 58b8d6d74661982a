/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions that send heartbeats, and one that resumes, while the daemon is stopped.
 *
 *   paused HOST PORT SESSIONS
 *
 * Prints "open" once all sessions are open.  At the first line of standard input one session loses
 * its connection and resumes at the third attempt, two having been given up; prints "sent", and
 * "resumed" when the daemon has answered.  Ends with standard input.  Fails if the daemon ends a
 * session before. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "hostile-peer.h"

#define SESSIONS_MAX 1000
/* Each session sends a heartbeat in this time, one after the other: the daemon's loop takes more
 * events in a turn once many have come at a time. */
#define ROUND_MS 500

static int fds[SESSIONS_MAX];
static unsigned n_sessions, next_session;
static uint64_t beaten_ms;          /* until when heartbeats were sent */
static struct wire_welcome welcome; /* of the last session, which resumes */

/* Send a heartbeat, and drop the replies that have arrived. */
static void beat(int fd)
{
	static uint8_t replies[WIRE_FRAME_MAX];
	ssize_t n;

	message(WIRE_TYPE_ping);
	must(push(fd, frame, encode()), "the daemon has closed a session");
	do
		n = recv(fd, replies, sizeof(replies), MSG_DONTWAIT);
	while (n > 0);
	must(n != 0, "the daemon has ended a session");
}

/* Send the heartbeats that are due. */
static void beats_send(void)
{
	uint64_t now_ms = clock_now_ms(), late_ms = now_ms - beaten_ms;
	unsigned n = (unsigned)(late_ms < ROUND_MS ? late_ms * n_sessions / ROUND_MS
						   : n_sessions);

	for (unsigned i = 0; i < n; i++)
		beat(fds[next_session++ % n_sessions]);
	if (n)
		beaten_ms = now_ms;
}

static bool readable(int fd)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };

	return poll(&at, 1, 1) > 0;
}

static void say(const char *word)
{
	(void)puts(word);
	(void)fflush(stdout);
}

/* Begin to resume; returns the connection. */
static int resume(void)
{
	int fd = peer_connect(control_port);

	hello_make();
	msg.hello.resume = welcome.session;
	memcpy(msg.hello.token, welcome.token, WIRE_TOKEN_BYTES);
	must(push(fd, frame, encode()), "the daemon has closed a connection");
	return fd;
}

static void lose_and_resume(void)
{
	int fd;

	(void)close(fds[--n_sessions]);
	for (unsigned i = 0; i < 2; i++)
		(void)close(resume());
	fd = resume();
	say("sent");
	while (!readable(fd))
		beats_send();
	must(answer_get(fd) && answer.type == WIRE_TYPE_welcome &&
		     answer.welcome.resumed,
	     "the session is not resumed");
	fds[n_sessions++] = fd;
	say("resumed");
}

/* Returns false when standard input has ended. */
static bool await_line(void)
{
	char c;

	do {
		while (!readable(STDIN_FILENO))
			beats_send();
		if (read(STDIN_FILENO, &c, 1) != 1)
			return false;
	} while (c != '\n');
	return true;
}

int main(int argc, char **argv)
{
	must(argc == 4, "usage: paused HOST PORT SESSIONS");
	address = argv[1];
	control_port = argv[2];
	attack_begin("heartbeats");
	for (unsigned long n = strtoul(argv[3], NULL, 10);
	     n_sessions < n && n_sessions < SESSIONS_MAX; beats_send())
		fds[n_sessions++] = session_open();
	welcome = answer.welcome;
	say("open");
	must(await_line(), "no line");
	lose_and_resume();
	must(!await_line(), "a second line");
	return 0;
}
