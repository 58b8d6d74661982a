/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "simulate/history.h"

uint64_t sim_now_ns, sim_step;
enum sim_actor sim_actor;
bool sim_verbose, sim_healed;
struct sim_faults sim_faults;

static uint64_t state;

uint64_t sim_random(uint64_t below)
{
	return random_next(&state) % below;
}

void sim_random_begin(uint64_t seed, uint64_t step)
{
	sim_step = step;
	state = seed;
	state = random_next(&state) ^ step;
	(void)random_next(&state);
}

void sim_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	sim_vfail(format, args);
}

void sim_vfail(const char *format, va_list args)
{
	(void)vsnprintf(outcome->text, sizeof(outcome->text), format, args);
	outcome->broken = format;
	outcome->at_step = sim_step;
	sim_note("broken: %s", outcome->text);
	(void)fflush(stdout);
	_exit(1);
}

void sim_note(const char *format, ...)
{
	va_list args;

	if (!sim_verbose)
		return;
	(void)printf("# step %llu, %llu.%06llu s: ", (unsigned long long)sim_step,
		     (unsigned long long)(sim_now_ns / 1000000000),
		     (unsigned long long)(sim_now_ns / 1000 % 1000000));
	va_start(args, format);
	(void)vprintf(format, args);
	va_end(args);
	(void)printf("\n");
}

/* ---- memory, and its lack ---- */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

static bool memory_full(void)
{
	if (sim_actor != SIM_DAEMON || sim_now_ns >= sim_faults.daemon_memory_ns ||
	    !sim_chance(sim_faults.one_in))
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	return memory_full() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return memory_full() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
	return memory_full() ? NULL : __real_realloc(at, bytes);
}

char *__wrap_strdup(const char *text)
{
	return memory_full() ? NULL : __real_strdup(text);
}

void *sim_alloc(size_t bytes)
{
	void *at = __real_calloc(1, bytes);

	if (!at)
		abort();
	return at;
}

/* ---- what else is random ---- */

int __wrap_random_bytes(void *dst, size_t bytes);
uint64_t __wrap_random_u64(void);

int __wrap_random_bytes(void *dst, size_t bytes)
{
	unsigned char *at = dst;

	for (; bytes > 0; bytes--)
		*at++ = (unsigned char)random_next(&state);
	return 0;
}

uint64_t __wrap_random_u64(void)
{
	return random_next(&state);
}
