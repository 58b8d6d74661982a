/* SPDX-License-Identifier: BSD-3-Clause */
/* calls URI N ROUNDS: measures N allocations, detaches, attaches and frees of named leases, one at
 * a time and all begun at once, and pings beside them.  Prints a line "KIND SINGLE BATCHED ONE" for
 * each: nanoseconds of a call, the best of the rounds; ONE is that of a lone call of
 * rmem_calls_begin(). */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "integration/program.h"

#define MAX 16384u

static rmem *session;
static rmem_calls *calls;
static unsigned n_calls;
static char names[MAX][24];
static rmem_lease *leases[MAX];

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct rmem_alloc_params params_of(unsigned i)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();

	params.bytes = 4096;
	params.name = names[i];
	return params;
}

static void single(enum rmem_call call, unsigned i)
{
	struct rmem_alloc_params params = params_of(i);

	switch (call) {
	case RMEM_CALL_ALLOC:
		must(rmem_alloc(session, &params, &leases[i]), "alloc");
		break;
	case RMEM_CALL_DETACH:
		must(rmem_detach(leases[i]), "detach");
		break;
	case RMEM_CALL_ATTACH:
		must(rmem_attach(session, names[i], RMEM_READ | RMEM_WRITE, &leases[i]),
		     "attach");
		break;
	case RMEM_CALL_DESTROY:
		must(rmem_destroy(leases[i]), "destroy");
		break;
	default:
		must(rmem_ping(session, NULL), "ping");
	}
}

/* Begin n calls at once, and take their answers. */
static void batch(enum rmem_call call, unsigned n)
{
	static struct rmem_request requests[MAX];
	static struct rmem_alloc_params params[MAX];
	static struct rmem_answer answers[256];
	unsigned got = 0;

	for (unsigned i = 0; i < n; i++) {
		params[i] = params_of(i);
		requests[i] = rmem_request_init(call);
		requests[i].session = session;
		requests[i].lease = leases[i];
		requests[i].name = names[i];
		requests[i].value = RMEM_READ | RMEM_WRITE;
		requests[i].params = &params[i];
		requests[i].cookie = i;
	}
	if (rmem_calls_begin(calls, requests, n) != (int)n)
		fail("begin", 0);
	while (got < n) {
		int taken = rmem_calls_wait(calls, answers, 256, 1, -1);

		must(taken, "wait");
		for (int i = 0; i < taken; i++) {
			if (answers[i].status < 0)
				fail(rmem_answer_error(calls, &answers[i]),
				     answers[i].status);
			leases[answers[i].cookie] = answers[i].object;
		}
		got += (unsigned)taken;
	}
}

struct best {
	uint64_t single_ns, batched_ns, one_ns;
};

static void least(uint64_t *best_ns, uint64_t begin_ns, unsigned n)
{
	uint64_t ns = (now_ns() - begin_ns) / n;

	if (*best_ns == 0 || ns < *best_ns)
		*best_ns = ns;
}

static const struct {
	enum rmem_call call;
	const char *name;
} kinds[] = {
	{ RMEM_CALL_PING, "ping" },     { RMEM_CALL_ALLOC, "alloc" },
	{ RMEM_CALL_DETACH, "detach" }, { RMEM_CALL_ATTACH, "attach" },
	{ RMEM_CALL_DESTROY, "free" },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void round_run(struct best best[KINDS])
{
	for (unsigned k = 0; k < KINDS; k++) {
		uint64_t begin = now_ns();

		for (unsigned i = 0; i < n_calls; i++)
			single(kinds[k].call, i);
		least(&best[k].single_ns, begin, n_calls);
	}
	for (unsigned k = 0; k < KINDS; k++) {
		uint64_t begin = now_ns();

		batch(kinds[k].call, n_calls);
		least(&best[k].batched_ns, begin, n_calls);
	}
	for (unsigned k = 0; k < KINDS; k++) {
		uint64_t begin = now_ns();

		batch(kinds[k].call, 1);
		least(&best[k].one_ns, begin, 1);
	}
}

int main(int argc, char **argv)
{
	struct rmem_calls_params params = rmem_calls_params_init();
	struct best best[KINDS] = { { 0 } };

	if (argc != 4)
		return 2;
	n_calls = (unsigned)atoi(argv[2]);
	if (n_calls == 0 || n_calls > MAX)
		return 2;
	for (unsigned i = 0; i < n_calls; i++)
		(void)snprintf(names[i], sizeof(names[i]), "lease-%u", i);
	params.depth = n_calls;
	must(rmem_open(argv[1], NULL, &session), "open");
	must(rmem_calls_create(&params, &calls), "create");
	for (int i = atoi(argv[3]); i > 0; i--)
		round_run(best);
	for (unsigned k = 0; k < KINDS; k++)
		(void)printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", kinds[k].name,
			     best[k].single_ns, best[k].batched_ns, best[k].one_ns);
	rmem_calls_free(calls);
	rmem_close(session);
	return 0;
}
