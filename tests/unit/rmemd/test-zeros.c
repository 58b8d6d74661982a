/* SPDX-License-Identifier: BSD-3-Clause */
/* No tenant reads bytes of another tenant.  Clients of several tenants allocate, fill,
 * resize and free leases, stop their heartbeats, resume, and let leases expire; clients
 * write through keys until these are dead; the daemon dies at any point and another
 * process starts from the state it left, perhaps with other pools.  Every byte of a new
 * lease is zero; every byte of a lease is zero or has the lease's own pattern.
 * RMEM_ZEROS_SEED    the seed of all random choices; it is printed
 * RMEM_ZEROS_SECONDS duration, 3
 *
 * The scrubbers are threads, and a timer kills some processes: a run with an earlier seed
 * makes the same choices, but at other moments. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/unit.h"
#include "unit/rmemd/zeros.h"

#define HOUR_MS UINT64_C(3600000)
/* Limit of a process's steps. */
#define STEPS_MAX 4000

static void pass_time(void)
{
	uint64_t ms = zeros_random(900) + 1;

	if (zeros_random(100) == 0)
		ms = zeros_random(3 * ZEROS_GRACE_MS);
	if (zeros_random(1000) == 0)
		ms = zeros_random(2 * HOUR_MS);
	zeros_heartbeats();
	(void)atomic_fetch_add(&world->now_ms, ms);
	zeros_tick();
	zeros_hang_up();
}

static void step(void)
{
	world->steps++;
	switch (zeros_random(16)) {
	case 0:
		pass_time();
		break;
	case 1:
		zeros_scrub(zeros_random(4) ? 0 : 1);
		break;
	case 2:
		zeros_fabric_write();
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		(void)zeros_fabric_step();
		break;
	default:
		zeros_client_step((unsigned)zeros_random(ZEROS_CLIENTS));
		break;
	}
	if (zeros_random(100) == 0) {
		zeros_check_bytes();
		zeros_check_leases();
	}
}

/* ---- processes ---- */

/* In a process that a timer may kill while it tells Check its place, half of which would be
 * left. */
static bool killable;

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
	if (!killable)
		__real__mark_point(file, line);
}

/* The process dies at a random zeros_point(), or when a timer expires, or it stops in
 * order. */
static _Noreturn void run_process(void)
{
	const uint64_t fuses[] = { 30, 300, 3000 };
	struct itimerval alarm = { .it_value = { 0, 0 } };
	uint64_t steps = zeros_random(STEPS_MAX) + 1;

	atomic_store(&world->fuse, INT64_MAX);
	switch (zeros_random(4)) {
	case 0:
		alarm.it_value.tv_usec = (suseconds_t)zeros_random(20000) + 1;
		killable = true;
		(void)signal(SIGALRM, SIG_DFL);
		(void)setitimer(ITIMER_REAL, &alarm, NULL);
		break;
	case 1:
		break;
	default:
		atomic_store(&world->fuse,
			     (int64_t)zeros_random(fuses[zeros_random(3)]));
		break;
	}
	zeros_start();
	/* the state that the last process left */
	zeros_check_bytes();
	zeros_check_leases();
	for (uint64_t i = 0; i < steps; i++)
		step();
	zeros_stop();
	_exit(0);
}

/* Time passes until the next process, which may have other pools. */
static void between_processes(void)
{
	(void)atomic_fetch_add(&world->now_ms, zeros_random(3000) + 1);
	if (zeros_random(8) == 0)
		world->pools = (unsigned)zeros_random(12);
}

static void fork_process(void)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		run_process();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		world->restarts++;
	} else {
		ck_assert_msg(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL ||
						      WTERMSIG(status) == SIGALRM),
			      "status %#x", (unsigned)status);
		world->crashes++;
	}
	between_processes();
}

static void state_remove(void)
{
	DIR *dir = opendir(world->state);
	struct dirent *entry;

	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	(void)closedir(dir);
	(void)rmdir(world->state);
}

static uint64_t env_number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : fallback;
}

static void world_open(uint64_t seed)
{
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(world, MAP_FAILED);
	world->random = seed;
	atomic_store(&world->now_ms, HOUR_MS);
	(void)strcpy(world->state, "/dev/shm/rmem-zeros.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(world->state));
	for (unsigned i = 0; i < ZEROS_CLIENTS; i++)
		world->clients[i].tenant = i % ZEROS_TENANTS;
}

static void print_counters(uint64_t seed)
{
	(void)printf(
		"# seed %llu: %.1f hours, %llu steps, %llu grants (%llu waited), "
		"%llu grows, %llu trims, %llu frees, %llu expired, %llu resumed, "
		"%llu late writes, %llu crashes, %llu restarts, %llu pools kept, "
		"%llu MiB checked\n",
		(unsigned long long)seed,
		(double)(atomic_load(&world->now_ms) - HOUR_MS) / (double)HOUR_MS,
		(unsigned long long)world->steps, (unsigned long long)world->grants,
		(unsigned long long)world->waits, (unsigned long long)world->grows,
		(unsigned long long)world->trims, (unsigned long long)world->frees,
		(unsigned long long)world->expired, (unsigned long long)world->resumed,
		(unsigned long long)world->late, (unsigned long long)world->crashes,
		(unsigned long long)world->restarts,
		(unsigned long long)world->reconfigured,
		(unsigned long long)(world->looked >> 20));
	(void)fflush(stdout);
}

/* Whether everything under test has happened often enough. */
static bool world_was_busy(void)
{
	return world->grants > 100 && world->waits > 5 && world->grows > 10 &&
	       world->trims > 10 && world->frees > 50 && world->expired > 5 &&
	       world->late > 20 && world->resumed > 20 && world->crashes > 10 &&
	       world->restarts > 3 && world->reconfigured > 2;
}

START_TEST(lease__has_no_bytes_of_other_tenants)
{
	uint64_t seed = env_number("RMEM_ZEROS_SEED",
				   (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid());
	uint64_t until_ms = clock_now_ms() + 1000 * env_number("RMEM_ZEROS_SECONDS", 3);

	(void)printf("# RMEM_ZEROS_SEED=%llu\n", (unsigned long long)seed);
	(void)fflush(stdout);
	world_open(seed);
	while (clock_now_ms() < until_ms || !world_was_busy())
		fork_process();
	print_counters(seed);
	state_remove();
	(void)munmap(world, sizeof(*world));
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("zeros", NULL, NULL);

	tcase_set_timeout(tcase, (double)env_number("RMEM_ZEROS_SECONDS", 3) + 60);
	tcase_add_test(tcase, lease__has_no_bytes_of_other_tenants);
	return unit_main();
}
