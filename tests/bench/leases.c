/* SPDX-License-Identifier: BSD-3-Clause */
/* leases URI PORT N: the time of what a session with N named leases of 4 KiB does with all of them.
 *
 * Prints "NAME NANOSECONDS" for each: "grant" and "list" them; "resume" after its control
 * connection, to PORT, is cut, until all are attached again.  Then it prints "ready" and waits for
 * a line, and measures "close", which frees them. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "integration/program.h"

#define LEASE_BYTES 4096
#define FDS_MAX 64
#define POLL_NS 100000
#define RESUME_NS (UINT64_C(120) * 1000000000)

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void print(const char *name, uint64_t begin_ns)
{
	(void)printf("%s %" PRIu64 "\n", name, now_ns() - begin_ns);
}

static void grant(rmem *session, unsigned long n)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	uint64_t begin_ns = now_ns();
	rmem_lease *lease;
	char name[32];

	params.bytes = LEASE_BYTES;
	params.name = name;
	for (unsigned long i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "lease-%lu", i);
		must(rmem_alloc(session, &params, &lease), "rmem_alloc");
	}
	print("grant", begin_ns);
}

static int count(const struct rmem_stat *stat, void *arg)
{
	unsigned long *n = arg;

	(void)stat;
	(*n)++;
	return 0;
}

static void list(rmem *session, unsigned long n)
{
	uint64_t begin_ns = now_ns();
	unsigned long listed = 0;

	must(rmem_list(session, "", count, &listed), "rmem_list");
	if (listed != n)
		fail("leases listed", (long)listed);
	print("list", begin_ns);
}

static bool is_control(int fd, uint16_t port)
{
	struct sockaddr_in peer;
	socklen_t bytes = sizeof(peer);

	return !getpeername(fd, (struct sockaddr *)&peer, &bytes) &&
	       peer.sin_family == AF_INET && ntohs(peer.sin_port) == port;
}

static uint64_t resumes_of(rmem *session)
{
	struct rmem_info info = rmem_info_init();

	must(rmem_info(session, &info), "rmem_info");
	return info.resumes;
}

static void resume(rmem *session, uint16_t port)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	uint64_t begin_ns = now_ns();

	for (int fd = 3; fd < FDS_MAX; fd++)
		if (is_control(fd, port))
			(void)shutdown(fd, SHUT_RDWR);
	while (resumes_of(session) == 0) {
		if (now_ns() > begin_ns + RESUME_NS)
			fail("the session is not back", -ETIMEDOUT);
		(void)nanosleep(&pause, NULL);
	}
	print("resume", begin_ns);
}

int main(int argc, char **argv)
{
	unsigned long n = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	uint64_t begin_ns;
	rmem *session;

	if (n == 0) {
		(void)fprintf(stderr, "usage: leases URI PORT N\n");
		return 2;
	}
	must(rmem_open(argv[1], NULL, &session), "rmem_open");
	grant(session, n);
	list(session, n);
	resume(session, (uint16_t)strtoul(argv[2], NULL, 10));
	step("ready");
	begin_ns = now_ns();
	rmem_close(session);
	print("close", begin_ns);
	return 0;
}
