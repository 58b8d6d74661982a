/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation that was reported as ended has ended: after ETIMEDOUT or ECANCELED nothing of it is
 * applied any more, also by a daemon that was stopped meanwhile and has its bytes in a socket.
 *
 *   ended URI PID ROUNDS
 *
 * PID is the daemon's.  In each round the daemon is stopped, a queue writes old values with a
 * time-out or cancels the writes, and the daemon goes on: while the queue waits for its completions
 * (odd rounds), or after they were reported (even rounds).  Then the values are read, a new one is
 * written and read again and again: no value may change between two reads.  The exit status is 1 at
 * the first that does. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "../integration/program.h"

#define WRITES 8
#define WRITE_BYTES 65536u
#define TIMEOUT_MS 100u
/* Reads of the values after the completions. */
#define LOOKS 200
#define RESUME_LOOKS 20

static pid_t daemon_pid;
static rmem *session;
static rmem_queue *queue;
static rmem_lease *lease;

static void sleep_ms(unsigned ms)
{
	struct timespec time = { .tv_sec = ms / 1000,
				 .tv_nsec = (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&time, NULL);
}

/* Whether the kernel has stopped this thread of the daemon. */
static bool thread_stopped(const char *tid)
{
	char path[300], line[256] = "";
	const char *end;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)daemon_pid,
		       tid);
	file = fopen(path, "re");
	if (!file)
		return true;
	end = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	(void)fclose(file);
	return end && end[1] && end[2] == 'T';
}

static bool daemon_stopped(void)
{
	char path[32];
	const struct dirent *entry;
	bool stopped = true;
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)daemon_pid);
	tasks = opendir(path);
	if (!tasks)
		fail(path, -errno);
	while ((entry = readdir(tasks)))
		if (entry->d_name[0] != '.' && !thread_stopped(entry->d_name))
			stopped = false;
	(void)closedir(tasks);
	return stopped;
}

static void daemon_stop(void)
{
	if (kill(daemon_pid, SIGSTOP))
		fail("SIGSTOP", -errno);
	while (!daemon_stopped())
		sleep_ms(1);
}

static void daemon_continue(void)
{
	if (kill(daemon_pid, SIGCONT))
		fail("SIGCONT", -errno);
}

/* Continue the daemon after *arg ms. */
static void *continue_later(void *arg)
{
	const unsigned *ms = arg;

	sleep_ms(*ms);
	daemon_continue();
	return NULL;
}

static void old_values_write(unsigned char *bytes, unsigned round)
{
	memset(bytes, (int)(round * 2 + 1), WRITE_BYTES);
	for (unsigned i = 0; i < WRITES; i++) {
		struct rmem_op op = {
			.opcode = RMEM_OP_WRITE,
			.lease = lease,
			.offset = (uint64_t)i * WRITE_BYTES,
			.addr = bytes,
			.bytes = WRITE_BYTES,
			.timeout_ms = TIMEOUT_MS,
		};

		if (rmem_submit(queue, &op, 1) != 1)
			fail("submit", 0);
	}
}

/* Wait for all completions.  Returns how many operations have failed. */
static unsigned completions_take(void)
{
	struct rmem_completion completions[WRITES];
	unsigned failed = 0;
	int n = rmem_wait(queue, completions, WRITES, WRITES, -1);

	if (n != WRITES)
		fail("wait", n);
	for (unsigned i = 0; i < WRITES; i++) {
		int status = completions[i].status;

		if (status && status != -ETIMEDOUT && status != -ECANCELED)
			fail(rmem_completion_error(queue, &completions[i]), status);
		failed += status != 0;
	}
	return failed;
}

static void values_read(unsigned char values[WRITES])
{
	for (unsigned i = 0; i < WRITES; i++)
		must(rmem_read(lease, (uint64_t)(i + 1) * WRITE_BYTES - 1, &values[i],
			       1),
		     "read");
}

/* No value changes from now on. */
static void values_watch(unsigned round, const char *when, unsigned looks)
{
	unsigned char first[WRITES], now[WRITES];

	values_read(first);
	for (; looks > 0; looks--) {
		values_read(now);
		if (!memcmp(first, now, sizeof(now)))
			continue;
		(void)fprintf(stderr, "round %u: a value has changed %s\n", round,
			      when);
		exit(1);
	}
}

static void new_values_write(unsigned char *bytes, unsigned round)
{
	memset(bytes, (int)(round * 2 + 2), WRITE_BYTES);
	for (unsigned i = 0; i < WRITES; i++)
		must(rmem_write(lease, (uint64_t)i * WRITE_BYTES, bytes, WRITE_BYTES),
		     "write");
}

static unsigned round_run(unsigned round)
{
	static unsigned char old[WRITE_BYTES], new[WRITE_BYTES];
	unsigned after_ms = TIMEOUT_MS + round * 7 % 50;
	bool while_waiting = round % 2, cancel = round / 2 % 2;
	unsigned char before[WRITES], after[WRITES];
	pthread_t thread;
	unsigned failed;

	values_read(before);
	daemon_stop();
	old_values_write(old, round);
	if (while_waiting &&
	    pthread_create(&thread, NULL, continue_later, &after_ms) != 0)
		fail("pthread_create", 0);
	if (cancel)
		(void)rmem_cancel(queue, NULL);
	failed = completions_take();
	if (while_waiting) {
		(void)pthread_join(thread, NULL);
	} else {
		daemon_continue();
		/* nothing was applied before the report, so nothing is */
		values_read(after);
		if (memcmp(before, after, sizeof(after))) {
			(void)fprintf(stderr, "round %u: applied after the report\n",
				      round);
			exit(1);
		}
	}
	values_watch(round, "after the report", RESUME_LOOKS);
	new_values_write(new, round);
	values_watch(round, "after newer bytes were written", LOOKS);
	return failed;
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	unsigned rounds, failed = 0;

	if (argc != 4) {
		(void)fprintf(stderr, "usage: ended URI PID ROUNDS\n");
		return 2;
	}
	daemon_pid = (pid_t)strtol(argv[2], NULL, 10);
	rounds = (unsigned)strtoul(argv[3], NULL, 10);
	params.bytes = (uint64_t)WRITES * WRITE_BYTES;
	must(rmem_open(argv[1], NULL, &session), "open");
	must(rmem_queue_create(session, NULL, &queue), "queue");
	must(rmem_alloc(session, &params, &lease), "alloc");
	for (unsigned round = 0; round < rounds; round++)
		failed += round_run(round);
	if (failed == 0)
		fail("no write has ended in an error", 0);
	(void)printf("kept: %u writes that ended in an error in %u rounds have ended\n",
		     failed, rounds);
	rmem_close(session);
	return 0;
}
