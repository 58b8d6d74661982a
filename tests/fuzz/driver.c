/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a target without libFuzzer, so that `make check` fuzzes a little with any compiler.  The
 * inputs are those that the target makes, and the files of the folders corpus/NAME and
 * regressions/NAME, and then mutations of them, from a printed seed.
 *
 *   [RMEM_SEED=SEED] PROGRAM [ROUNDS]
 *   PROGRAM --seeds DIR */
#include "fuzz/target.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define INPUT_MAX 65536
#define GROWN_MAX 4096 /* of an input that grows by mutations */
#define INPUTS_MAX 4096
#define CHANGES_MAX 8

struct input {
	uint8_t *data;
	size_t bytes;
};

static struct input inputs[INPUTS_MAX];
static unsigned n_inputs;
static const char *name; /* of the target */
static uint64_t state;   /* of random_next() */
static struct input running;

/* ---- the inputs ---- */

/* Takes `data` over. */
static void input_add(uint8_t *data, size_t bytes)
{
	if (n_inputs == INPUTS_MAX) {
		(void)printf("Bail out! more than %u inputs\n", INPUTS_MAX);
		exit(EXIT_FAILURE);
	}
	inputs[n_inputs++] = (struct input){ data, bytes };
}

static uint8_t *memory(size_t bytes)
{
	uint8_t *data = malloc(bytes ? bytes : 1);

	if (!data)
		abort();
	return data;
}

static void file_read(const char *path)
{
	uint8_t *data = memory(INPUT_MAX);
	FILE *file = fopen(path, "r");
	size_t bytes;

	if (!file) {
		(void)printf("Bail out! %s: %s\n", path, strerrordesc_np(errno));
		exit(EXIT_FAILURE);
	}
	bytes = fread(data, 1, INPUT_MAX, file);
	(void)fclose(file);
	input_add(data, bytes);
}

static int is_input(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* In the order of names, so that a seed repeats a run.  A folder may be missing. */
/* `variable` has the tree that the folders of this kind are in. */
static void folder_read(const char *variable, const char *kind)
{
	const char *top = getenv(variable);
	char folder[2048], path[4096];
	struct dirent **entries = NULL;
	int n;

	(void)snprintf(folder, sizeof(folder), "%s/tests/fuzz/%s/%s", top ? top : ".",
		       kind, name);
	n = scandir(folder, &entries, is_input, alphasort);
	for (int i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		file_read(path);
		free(entries[i]);
	}
	free(entries);
}

static void seeds_make(void)
{
	for (unsigned i = 0;; i++) {
		uint8_t *data = memory(INPUT_MAX);
		size_t bytes = fuzz_seed(data, INPUT_MAX, i);

		if (bytes == 0) {
			free(data);
			return;
		}
		input_add(data, bytes);
	}
}

/* ---- running them ---- */

/* Keep the input that ends the program. */
static void on_death(int signal)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "fuzz-%s.crash", name);
	file = fopen(path, "w");
	if (file) {
		(void)fwrite(running.data, 1, running.bytes, file);
		(void)fclose(file);
		(void)printf("# the input is in %s: move it to "
			     "tests/fuzz/regressions/%s\n",
			     path, name);
		(void)fflush(stdout);
	}
	(void)raise(signal);
}

/* The input has its exact size, so that sanitizers see reads past its end. */
static void run(const uint8_t *data, size_t bytes)
{
	uint8_t *exact = memory(bytes);

	memcpy(exact, data, bytes);
	running = (struct input){ exact, bytes };
	(void)LLVMFuzzerTestOneInput(exact, bytes);
	free(exact);
}

static size_t random_below(size_t limit)
{
	return (size_t)(random_next(&state) % limit);
}

/* Replace a part by one of another input, of another length. */
static size_t mutate_splice(uint8_t *data, size_t bytes)
{
	const struct input *other = &inputs[random_below(n_inputs)];
	size_t at = random_below(bytes + 1), from = random_below(other->bytes + 1);
	size_t n = other->bytes - from, end = at + random_below(bytes - at + 1);

	if (n > 0)
		n = random_below(n + 1);
	if (at + n + bytes - end > GROWN_MAX)
		return bytes;
	memmove(data + at + n, data + end, bytes - end);
	memcpy(data + at, other->data + from, n);
	return at + n + bytes - end;
}

static size_t mutate(uint8_t *data, size_t bytes)
{
	static const uint8_t edges[] = { 0, 1, 0x7f, 0x80, 0xfe, 0xff };

	if (bytes == 0)
		return mutate_splice(data, bytes);
	switch (random_below(10)) {
	case 0:
		return random_below(bytes);
	case 8:
	case 9:
		return fuzz_put_border(data, bytes, GROWN_MAX, &state);
	case 1:
	case 2:
		return mutate_splice(data, bytes);
	case 3:
		data[random_below(bytes)] = edges[random_below(sizeof(edges))];
		return bytes;
	case 4:
		data[random_below(bytes)] ^= (uint8_t)(1u << random_below(8));
		return bytes;
	default:
		data[random_below(bytes)] = (uint8_t)random_next(&state);
		return bytes;
	}
}

static void run_mutated(void)
{
	static uint8_t data[INPUT_MAX + GROWN_MAX];
	const struct input *input = &inputs[random_below(n_inputs)];
	size_t bytes = input->bytes;

	memcpy(data, input->data, bytes);
	for (size_t changes = 1 + random_below(CHANGES_MAX); changes > 0; changes--)
		bytes = mutate(data, bytes);
	run(data, bytes);
}

static void inputs_free(void)
{
	while (n_inputs > 0)
		free(inputs[--n_inputs].data);
}

int main(int argc, char **argv)
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	const struct sigaction death = { .sa_handler = on_death,
					 .sa_flags = (int)SA_RESETHAND };
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : fuzz_rounds;
	const char *seed = getenv("RMEM_SEED");

	(void)LLVMFuzzerInitialize(&argc, &argv);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		(void)sigaction(signals[i], &death, NULL);
	name = strchr(program_invocation_short_name, '-') + 1;
	seed = seed ? seed : "20261120";
	state = strtoull(seed, NULL, 10);
	seeds_make();
	folder_read("top_builddir", "corpus");
	folder_read("top_srcdir", "regressions");
	(void)printf("1..2\n");
	for (unsigned i = 0; i < n_inputs; i++)
		run(inputs[i].data, inputs[i].bytes);
	(void)printf("ok 1 - %s: %u stored inputs\n", name, n_inputs);
	(void)fflush(stdout);
	for (unsigned long i = 0; i < rounds && n_inputs > 0; i++)
		run_mutated();
	(void)printf("ok 2 - %s: %lu mutated inputs, seed %s\n", name, rounds, seed);
	inputs_free();
	return EXIT_SUCCESS;
}
