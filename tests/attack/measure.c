/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "pings.h"

#define LOOK_MS 50

static const struct pings *pings;
static uint64_t pid;

/* ---- the pings ---- */

static void pings_map(void)
{
	char path[300];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/pings", attack_options.folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, path);
	pings = mmap(NULL, sizeof(*pings), PROT_READ, MAP_SHARED, fd, 0);
	must(pings != MAP_FAILED, "the pings");
	(void)close(fd);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void pings_wait(uint64_t until_ms)
{
	must(clock_now_ms() < until_ms, "pings do not come back");
	(void)usleep(1000);
}

/* The end of those that were begun by now, and one at least.  All are waited for: those that are
 * not back yet may be the slowest. */
static uint32_t pings_await(uint32_t begin)
{
	uint64_t until_ms = clock_now_ms() + ATTACK_WAIT_MS;
	uint32_t end;

	while ((end = pings->n) == begin)
		pings_wait(until_ms);
	must(end <= PINGS_MAX, "there are too many pings");
	for (uint32_t i = begin; i < end; i++)
		while (!pings->us[i])
			pings_wait(until_ms);
	return end;
}

static void pings_measure(struct measure *measure)
{
	static uint32_t us[PINGS_MAX];
	uint32_t end = pings_await(measure->begin_pings);
	size_t n = 0;

	for (uint32_t i = measure->begin_pings; i < end; i++)
		us[n++] = pings->us[i];
	qsort(us, n, sizeof(*us), compare);
	measure->p50_us = us[n / 2];
	measure->p99_us = us[n * 99 / 100];
	measure->p999_us = us[n * 999 / 1000];
	measure->max_us = us[n - 1];
}

/* ---- measures ---- */

void measures_open(void)
{
	pid = counter_get("status pid");
	pings_map();
}

struct measure measure_begin(void)
{
	uint64_t kib = usage_memory_kib(pid);

	return (struct measure){ .begin_ns = clock_now_ns(),
				 .begin_pings = pings->n,
				 .cpu = usage_cpu(pid),
				 .before_kib = kib,
				 .most_kib = kib };
}

void measure_look(struct measure *measure)
{
	uint64_t kib;

	if (clock_now_ms() - measure->looked_ms < LOOK_MS)
		return;
	kib = usage_memory_kib(pid);
	if (kib > measure->most_kib)
		measure->most_kib = kib;
	measure->looked_ms = clock_now_ms();
}

void measure_end(struct measure *measure)
{
	struct usage_cpu cpu = usage_cpu(pid);

	measure->ns = clock_now_ns() - measure->begin_ns;
	measure->cpu.loop_ns = cpu.loop_ns - measure->cpu.loop_ns;
	measure->cpu.others_ns = cpu.others_ns - measure->cpu.others_ns;
	pings_measure(measure);
}

struct measure measure_quiet(uint64_t ms)
{
	struct measure measure = measure_begin();

	(void)poll(NULL, 0, (int)ms);
	measure_end(&measure);
	return measure;
}
