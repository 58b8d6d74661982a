/* SPDX-License-Identifier: BSD-3-Clause */
/* An honest client beside the attacker:
 *
 *   honest URI
 *
 * It writes, reads back and pings without a pause, until SIGTERM.  It notices an operation that
 * fails, a wrong byte, a session that was lost, and a round trip that takes longer than half the
 * time after which the server fences a silent session.  Prints what it noticed, a line each; the
 * exit status is 1 if that is anything. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rmem/rmem.h>

#define BYTES 65536
#define PAUSE_NS 2000000L

static volatile sig_atomic_t stop;
static unsigned noticed;

static void on_signal(int)
{
	stop = 1;
}

static void notice(const char *what)
{
	noticed++;
	(void)printf("noticed: %s (%s)\n", what, rmem_error());
	(void)fflush(stdout);
}

static bool must(int result, const char *what)
{
	if (result < 0)
		notice(what);
	return result >= 0;
}

static bool step(rmem *session, rmem_lease *lease, uint8_t value, uint64_t limit_ns)
{
	static uint8_t bytes[BYTES], back[BYTES];
	uint64_t ns = 0;

	memset(bytes, value, sizeof(bytes));
	if (!must(rmem_write(lease, 0, bytes, sizeof(bytes)), "a write failed") ||
	    !must(rmem_read(lease, 0, back, sizeof(back)), "a read failed") ||
	    !must(rmem_ping(session, &ns), "a ping failed"))
		return false;
	if (memcmp(bytes, back, sizeof(bytes)) != 0)
		notice("a byte is wrong");
	if (ns > limit_ns)
		notice("a ping took too long");
	return true;
}

static void serve(rmem *session, rmem_lease *lease)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct rmem_info info = rmem_info_init();
	uint64_t limit_ns, resumes = 0;
	unsigned rounds = 0;

	(void)rmem_info(session, &info);
	limit_ns = (uint64_t)info.fence_ms * 1000000 / 2;
	while (!stop && noticed < 10) {
		if (!step(session, lease, (uint8_t)rounds++, limit_ns))
			break;
		(void)rmem_info(session, &info);
		if (info.resumes > resumes)
			notice("the session was lost and resumed");
		resumes = info.resumes;
		(void)nanosleep(&pause, NULL);
	}
	(void)printf("%u rounds\n", rounds);
	if (rounds < 10)
		notice("it had no time to work");
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params want = rmem_alloc_params_init();
	struct sigaction action = { .sa_handler = on_signal };
	rmem_lease *lease;
	rmem *session;

	if (argc != 2)
		return 2;
	(void)sigaction(SIGTERM, &action, NULL);
	want.bytes = BYTES;
	if (!must(rmem_open(argv[1], NULL, &session), "it cannot open a session"))
		return 1;
	if (must(rmem_alloc(session, &want, &lease), "it gets no lease")) {
		(void)printf("ready\n");
		(void)fflush(stdout);
		serve(session, lease);
	}
	(void)rmem_close(session);
	return noticed > 0;
}
