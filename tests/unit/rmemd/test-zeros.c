/* SPDX-License-Identifier: BSD-3-Clause */
/* No tenant ever reads another's bytes.  Clients of several tenants borrow, fill, resize, free,
 * fall silent, come back, let leases expire; keys write until they are dead; the daemon dies
 * wherever it is and another one finds what was left, perhaps with other pools.  Every byte of
 * every grant is zero, and every lease has its own pattern or zero, whatever came before.
 *
 * RMEM_ZEROS_SEED    whatever is drawn is drawn from it; it is printed
 * RMEM_ZEROS_SECONDS how long it goes on, 3
 * The scrubbers are threads, and some deaths come by the clock: with the same seed the same is
 * tried, but not all of it at the same moment. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
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
/* So much one process does at most. */
#define STEPS_MAX 4000

static void pass(void)
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
		pass();
		break;
	case 1:
		zeros_given();
		zeros_scrubbed(zeros_random(4) ? 0 : 1);
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
		zeros_client_do((unsigned)zeros_random(ZEROS_CLIENTS));
		break;
	}
	if (zeros_random(100) == 0) {
		zeros_look();
		zeros_leases_look();
	}
}

/* ---- processes ---- */

/* Some die at a point that was drawn, some by the clock, wherever they are then, some end in
 * order. */
static _Noreturn void live(void)
{
	const uint64_t fuses[] = { 30, 300, 3000 };
	struct itimerval alarm = { .it_value = { 0, 0 } };
	uint64_t steps = zeros_random(STEPS_MAX) + 1;

	atomic_store(&world->fuse, INT64_MAX);
	switch (zeros_random(4)) {
	case 0:
		alarm.it_value.tv_usec = (suseconds_t)zeros_random(20000) + 1;
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
	/* as the last process has left it */
	zeros_look();
	zeros_leases_look();
	for (uint64_t i = 0; i < steps; i++)
		step();
	zeros_stop();
	_exit(0);
}

/* Whatever it was doing when it died, it had given its answers or not. */
static void after_death(void)
{
	(void)atomic_fetch_add(&world->now_ms, zeros_random(3000) + 1);
	if (zeros_random(8) == 0)
		world->pools = (unsigned)zeros_random(12);
}

static void one_process(void)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		live();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		world->restarts++;
	} else {
		ck_assert_msg(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL ||
						      WTERMSIG(status) == SIGALRM),
			      "status %#x", (unsigned)status);
		world->crashes++;
	}
	after_death();
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

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void begin(uint64_t seed)
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

static void tell(uint64_t seed)
{
	(void)printf(
		"# seed %llu: %.1f hours, %llu steps, %llu grants (%llu waited), "
		"%llu grows, %llu trims, %llu frees, %llu expired, %llu resumed, "
		"%llu late writes, %llu crashes, %llu restarts, %llu pools that stay, "
		"%llu MiB looked at\n",
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

/* What it is about has happened. */
static bool world_was_busy(void)
{
	return world->grants > 100 && world->waits > 5 && world->grows > 10 &&
	       world->trims > 10 && world->frees > 50 && world->expired > 5 &&
	       world->late > 20 && world->resumed > 20 && world->crashes > 10 &&
	       world->restarts > 3 && world->reconfigured > 2;
}

START_TEST(bytes__are_never_anothers)
{
	uint64_t seed = number_of("RMEM_ZEROS_SEED",
				  (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid());
	uint64_t until_ms = clock_now_ms() + 1000 * number_of("RMEM_ZEROS_SECONDS", 3);

	(void)printf("# RMEM_ZEROS_SEED=%llu\n", (unsigned long long)seed);
	(void)fflush(stdout);
	begin(seed);
	while (clock_now_ms() < until_ms || !world_was_busy())
		one_process();
	tell(seed);
	state_remove();
	(void)munmap(world, sizeof(*world));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("zeros");
	TCase *tcase = tcase_create("zeros");

	tcase_set_timeout(tcase, (double)number_of("RMEM_ZEROS_SECONDS", 3) + 60);
	tcase_add_test(tcase, bytes__are_never_anothers);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
