/* SPDX-License-Identifier: BSD-3-Clause */
/* A search for histories that break a rule: see tests/README.md.
 *   simulate [--seed N] [--steps N] [--seconds N] [--history N] [--verbose] [--first] [--moves]
 * --seed: this one alone, with what happens.  --steps, --seconds: the end, whichever comes first.
 * --history: steps of each seed before the calm.  --verbose: print all that happens, and do not
 * shrink.  --first: end with the first seed that is broken, and do not shrink.  --moves: fail
 * unless each row of the tables of states was seen, in up to ten times the steps. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simulate/history.h"
#include "simulate/moves.h"
#include "simulate/sim.h"

#define HISTORY_STEPS 20000u
#define SHRINK_RUNS 400u
/* A process that takes longer hangs. */
#define ALARM_S 300u

static struct {
	uint64_t seed, steps, seconds, history;
	bool one_seed, verbose, first, moves;
} options = { .seed = 1, .history = HISTORY_STEPS };

static uint64_t total_steps;

/* ---- a seed ---- */

/* Run it in a process of its own.  True: no rule was broken. */
static bool seed_holds(uint64_t seed, uint64_t n, const bool *skipped, bool verbose)
{
	int status;
	pid_t pid;

	memset(outcome, 0, sizeof(*outcome));
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		sim_verbose = verbose;
		(void)alarm(ALARM_S);
		history_run(seed, n, skipped);
		(void)fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	total_steps += outcome->steps;
	if (status == 0)
		return true;
	if (!outcome->broken) {
		outcome->broken = "process";
		outcome->at_step = n;
		(void)snprintf(outcome->text, sizeof(outcome->text),
			       WIFSIGNALED(status) ? "the process dies of signal %d"
						   : "the process ends, status %d",
			       WIFSIGNALED(status) ? WTERMSIG(status)
						   : WEXITSTATUS(status));
	}
	return false;
}

/* ---- shrinking ---- */

struct shrink {
	uint64_t seed, n;
	const char *broken;
	int error;
	bool *skipped;
	unsigned runs;
};

/* Whether the same rule is broken without these steps, too; then they stay out. */
static bool drop(struct shrink *shrink, uint64_t from, uint64_t n)
{
	bool *before = malloc(shrink->n + 1);
	bool broken;

	memcpy(before, shrink->skipped, shrink->n + 1);
	memset(shrink->skipped + from, true, n);
	broken = !seed_holds(shrink->seed, shrink->n, shrink->skipped, false) &&
		 outcome->broken == shrink->broken && outcome->error == shrink->error;
	shrink->runs++;
	if (!broken)
		memcpy(shrink->skipped, before, shrink->n + 1);
	free(before);
	return broken;
}

static uint64_t count_left(const struct shrink *shrink)
{
	uint64_t n = 0;

	for (uint64_t i = 1; i <= shrink->n; i++)
		n += !shrink->skipped[i];
	return n;
}

static void shrink_history(struct shrink *shrink)
{
	for (uint64_t part = shrink->n / 2; part > 0 && shrink->runs < SHRINK_RUNS;
	     part /= 2)
		for (uint64_t i = 1; i <= shrink->n && shrink->runs < SHRINK_RUNS;
		     i += part) {
			uint64_t left = shrink->n + 1 - i;

			if (!memchr(shrink->skipped + i, false,
				    left < part ? left : part))
				continue;
			(void)drop(shrink, i, left < part ? left : part);
		}
}

static void show(uint64_t seed)
{
	struct shrink shrink = { .seed = seed,
				 .broken = outcome->broken,
				 .error = outcome->error };

	(void)printf("seed %" PRIu64 " is broken at step %" PRIu64 ": %s\n", seed,
		     outcome->at_step, outcome->text);
	/* what comes behind the step was not needed */
	shrink.n =
		outcome->at_step < options.history ? outcome->at_step : options.history;
	shrink.skipped = calloc(shrink.n + 1, sizeof(bool));
	if (!shrink.skipped)
		return;
	shrink_history(&shrink);
	(void)printf("seed %" PRIu64 ": %" PRIu64 " of %" PRIu64
		     " steps are enough (%u runs):\n",
		     seed, count_left(&shrink), shrink.n, shrink.runs);
	(void)seed_holds(seed, shrink.n, shrink.skipped, true);
	free(shrink.skipped);
}

/* ---- the search ---- */

static uint64_t now_s(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

static bool is_over(uint64_t begun_s)
{
	/* rare ways are found by some seeds only, which change with any change of the code */
	unsigned most = options.moves && moves_missing(false) ? 10 : 1;

	return (options.steps && total_steps >= options.steps * most) ||
	       (options.seconds && now_s() - begun_s >= options.seconds);
}

static int search(void)
{
	uint64_t begun_s = now_s(), steps, seeds = 0, broken = 0;
	uint64_t seed = options.seed;

	moves_init();
	do {
		bool holds = seed_holds(seed, options.history, NULL, options.verbose);

		seeds++;
		steps = total_steps;
		if (!holds && !broken++ && !options.verbose && !options.first)
			show(seed);
		else if (!holds)
			(void)printf("seed %" PRIu64 " is broken: %s\n", seed,
				     outcome->text);
		total_steps = steps;
		seed++;
	} while (!options.one_seed && broken < (options.first ? 1 : 3) &&
		 !is_over(begun_s));
	(void)printf("%" PRIu64 " steps, %" PRIu64 " seeds, %" PRIu64 " broken\n",
		     steps, seeds, broken);
	return broken > 0 || (options.moves && moves_missing(true));
}

/* The clients' stacks and the replaced malloc() are unknown to sanitizers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (!*text || *end) {
		(void)fprintf(stderr, "simulate: \"%s\" is no number\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "steps", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 't' },
		{ "history", required_argument, NULL, 'h' },
		{ "first", no_argument, NULL, 'f' },
		{ "moves", no_argument, NULL, 'm' },
		{ "verbose", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	if (SANITIZED) {
		(void)printf("not with a sanitizer\n");
		return 77;
	}
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case 's':
			options.seed = number(optarg);
			options.one_seed = true;
			break;
		case 'n':
			options.steps = number(optarg);
			break;
		case 't':
			options.seconds = number(optarg);
			break;
		case 'h':
			options.history = number(optarg);
			break;
		case 'f':
			options.first = true;
			break;
		case 'm':
			options.moves = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		default:
			return 2;
		}
	}
	if (options.steps || options.seconds)
		options.one_seed = false;
	else if (!options.one_seed)
		options.seconds = 10;
	outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (outcome == MAP_FAILED)
		return 2;
	return search();
}
