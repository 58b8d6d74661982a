/* SPDX-License-Identifier: BSD-3-Clause */
/* rack URI PORT SESSIONS SECONDS: sessions that lose their control connections to PORT all at once,
 * and resume; again and again, until the time is over.  Prints "ready", waits for a line, and
 * prints a line of JSON: the milliseconds that each round took, until the last session was back,
 * and of all rounds how often sessions were resumed, and how many were lost. */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "integration/program.h"

/* A round that takes longer fails: a lost session is lost before. */
#define ROUND_MS 180000
/* Above all descriptors of this program. */
#define FDS_MAX(sessions) (16 * (int)(sessions) + 1000)

struct rack {
	unsigned n;
	uint16_t port;
	rmem **sessions;
	uint64_t *resumes; /* of each, before the round; UINT64_MAX: it is lost */
	uint64_t n_resumes;
	unsigned n_lost;
};

static double now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		fail("getrlimit", -errno);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("setrlimit", -errno);
}

static bool is_control(int fd, uint16_t port)
{
	struct sockaddr_in peer;
	socklen_t bytes = sizeof(peer);

	return !getpeername(fd, (struct sockaddr *)&peer, &bytes) &&
	       peer.sin_family == AF_INET && ntohs(peer.sin_port) == port;
}

/* Returns the number of connections that were cut. */
static unsigned cut(const struct rack *rack)
{
	unsigned n = 0;

	for (int fd = 3; fd < FDS_MAX(rack->n); fd++)
		if (is_control(fd, rack->port))
			n += shutdown(fd, SHUT_RDWR) == 0;
	return n;
}

static uint64_t resumes_of(rmem *session)
{
	struct rmem_info info = rmem_info_init();

	must(rmem_info(session, &info), "info");
	return info.resumes;
}

static bool is_lost(const struct rack *rack, unsigned i)
{
	return rack->resumes[i] == UINT64_MAX;
}

/* Wait until the session answers, or is lost. */
static void answer_await(struct rack *rack, unsigned i)
{
	int err = is_lost(rack, i) ? 0 : rmem_ping(rack->sessions[i], NULL);

	if (err == -ESTALE) {
		rack->resumes[i] = UINT64_MAX;
		rack->n_lost++;
	} else {
		must(err, "a session is not back");
	}
}

/* Wait until the session has resumed, or is lost. */
static void back_await(struct rack *rack, unsigned i)
{
	while (!is_lost(rack, i) && resumes_of(rack->sessions[i]) == rack->resumes[i])
		answer_await(rack, i);
}

static double round_ms(struct rack *rack)
{
	double begin_ms;

	/* those that a busy machine has lost before */
	for (unsigned i = 0; i < rack->n; i++)
		answer_await(rack, i);
	for (unsigned i = 0; i < rack->n; i++)
		if (!is_lost(rack, i))
			rack->resumes[i] = resumes_of(rack->sessions[i]);
	begin_ms = now_ms();
	/* those that are reconnecting already come back without it */
	if (cut(rack) == 0)
		fail("no control connections were found", 0);
	for (unsigned i = 0; i < rack->n; i++)
		back_await(rack, i);
	begin_ms = now_ms() - begin_ms;
	for (unsigned i = 0; i < rack->n; i++)
		if (!is_lost(rack, i))
			rack->n_resumes +=
				resumes_of(rack->sessions[i]) - rack->resumes[i];
	return begin_ms;
}

int main(int argc, char **argv)
{
	struct rack rack = { 0 };
	double until_ms;

	if (argc != 5) {
		(void)fprintf(stderr, "usage: rack URI PORT SESSIONS SECONDS\n");
		return 2;
	}
	rack.port = (uint16_t)strtoul(argv[2], NULL, 10);
	rack.n = (unsigned)strtoul(argv[3], NULL, 10);
	rack.sessions = calloc(rack.n, sizeof(*rack.sessions));
	rack.resumes = calloc(rack.n, sizeof(*rack.resumes));
	if (rack.n == 0 || !rack.sessions || !rack.resumes)
		fail("an argument is wrong", 0);
	descriptors_raise();
	for (unsigned i = 0; i < rack.n; i++)
		must(rmem_open(argv[1], NULL, &rack.sessions[i]), "open");
	step("ready");
	(void)rmem_thread_timeout(ROUND_MS);
	until_ms = now_ms() + strtod(argv[4], NULL) * 1e3;
	(void)printf("{\"round_ms\": [%.0f", round_ms(&rack));
	while (now_ms() < until_ms)
		(void)printf(", %.0f", round_ms(&rack));
	(void)printf("], \"resumes\": %lu, \"lost\": %u}\n",
		     (unsigned long)rack.n_resumes, rack.n_lost);
	(void)fflush(stdout);
	for (unsigned i = 0; i < rack.n; i++)
		rmem_close(rack.sessions[i]);
	free(rack.sessions);
	free(rack.resumes);
	return 0;
}
