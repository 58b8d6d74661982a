/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver of the sweep: one run of the session for each call that can fail.
 *
 *   sweep [OPTION...] daemon|library BUILD
 *     --class NAME      only the calls of this class; may be repeated
 *     --first N, --last N   only the calls with these numbers, which count in each class
 *     --every K         only every Kth call; which ones depends on --seed
 *     --places          only the first call of each place: of those with the same backtrace
 *     --seed N          printed
 *     --fabric NAME     tcp (default) or rdma
 *     --address A       of the server, default 127.0.0.1
 *     --auth KIND       psk (default) or none
 *     --jobs N          runs at the same time
 *     --limit N         seconds that a run may take
 *     --verbose         the output of each run
 *
 * A run is broken if the session says so, ends by a signal, leaves something behind or hangs.  The
 * last line is `N calls failed, N runs, N broken`; the status is 0 if none is broken. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "sweep/calls.h"
#include "sweep/known.h"
#include "sweep/places.h"

#define JOBS_MAX 20
#define POLL_MS 1000

static const char *const class_names[N_CALL_CLASSES] = {
	[CALL_MEMORY] = "memory", [CALL_MAPPING] = "mapping", [CALL_SOCKET] = "socket",
	[CALL_FILE] = "file",     [CALL_THREAD] = "thread",   [CALL_RDMA] = "rdma",
	[CALL_SPACE] = "space",
};

static struct {
	const char *build;
	const char *fabric;
	const char *address;
	const char *auth;
	bool daemon; /* the daemon's calls fail */
	bool wanted[N_CALL_CLASSES];
	uint64_t first, last, every, seed;
	unsigned jobs;
	unsigned seconds;
	bool verbose;
	bool places;
} options = { .fabric = "tcp",
	      .address = "127.0.0.1",
	      .auth = "psk",
	      .first = 1,
	      .last = UINT64_MAX,
	      .every = 1,
	      .jobs = 1,
	      .seconds = 200 };

/* A place where runs take turns: its own directory and ports. */
static struct job {
	char directory[64];
	unsigned port;
	struct calls *calls; /* shared with the processes of the run */
	pid_t pid;           /* of the session; 0: none */
	int pidfd;
	uint64_t until_ms;
} jobs[JOBS_MAX];

static uint64_t n_calls[N_CALL_CLASSES]; /* of a run in which none fails */
static uint64_t n_runs[N_CALL_CLASSES], n_broken[N_CALL_CLASSES];
/* Of the run in which no call fails. */
static uint32_t stacks[N_CALL_CLASSES][CALLS_STACKS];
static uint64_t n_failed;                /* calls */
static uint64_t n_missed;                /* runs that did not get as far as the call */
static uint64_t n_known[N_KNOWN_PLACES]; /* runs whose call is at a known place */

_Noreturn static void fail(const char *what)
{
	(void)fprintf(stderr, "sweep: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- one run ---- */

static void job_open(struct job *job, unsigned port)
{
	char path[128];
	int fd;

	(void)strcpy(job->directory, "/dev/shm/rmem-sweep.XXXXXX");
	if (!mkdtemp(job->directory))
		fail(job->directory);
	job->port = port;
	(void)snprintf(path, sizeof(path), "%s/calls", job->directory);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*job->calls)))
		fail(path);
	job->calls = mmap(NULL, sizeof(*job->calls), PROT_READ | PROT_WRITE, MAP_SHARED,
			  fd, 0);
	if (job->calls == MAP_FAILED)
		fail(path);
	(void)close(fd);
}

/* Remove the job's directory, or a part of it. */
static void job_remove(const struct job *job, const char *part)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf %.63s%s", job->directory,
		       part);
	if (system(command))
		fail(command);
}

static void job_close(struct job *job)
{
	(void)munmap(job->calls, sizeof(*job->calls));
	job_remove(job, "");
}

/* Start the session in a process group of its own; call `number` of the class fails. */
static void job_start(struct job *job, enum call_class class, uint64_t number)
{
	char session[256], rmemd[256], preload[256], port[16], log[128];
	char calls[128], own_preload[300];
	char *argv[] = { session,
			 rmemd,
			 job->directory,
			 (char *)(uintptr_t)options.fabric,
			 (char *)(uintptr_t)options.address,
			 port,
			 (char *)(uintptr_t)options.auth,
			 options.daemon ? preload : NULL,
			 NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int err;

	job_remove(job, "/state");
	memset(job->calls, 0, offsetof(struct calls, stacks));
	job->calls->class = class;
	job->calls->number = number;
	(void)snprintf(session, sizeof(session), "%s/tests/sweep/session",
		       options.build);
	(void)snprintf(rmemd, sizeof(rmemd), "%s/src/rmemd/rmemd", options.build);
	(void)snprintf(preload, sizeof(preload), "%s/.libs/libsweep.so", options.build);
	(void)snprintf(port, sizeof(port), "%u", job->port);
	(void)snprintf(log, sizeof(log), "%s/log", job->directory);
	(void)snprintf(calls, sizeof(calls), "%s=%s/calls", CALLS_FILE_VARIABLE,
		       job->directory);
	(void)snprintf(own_preload, sizeof(own_preload), "LD_PRELOAD=%s",
		       options.daemon ? "" : preload);
	char *environment[] = {
		own_preload,
		calls,
		(char *)(uintptr_t)"ASAN_OPTIONS=verify_asan_link_order=0:"
				   "allocator_may_return_null=1:print_legend=0",
		NULL,
	};

	if (posix_spawn_file_actions_init(&actions) ||
	    posix_spawn_file_actions_addopen(&actions, 1, log,
					     O_WRONLY | O_CREAT | O_TRUNC, 0600) ||
	    posix_spawn_file_actions_adddup2(&actions, 1, 2) ||
	    posix_spawnattr_init(&attr) ||
	    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP))
		fail("posix_spawn");
	err = posix_spawn(&job->pid, session, &actions, &attr, argv, environment);
	if (err) {
		errno = err;
		fail(session);
	}
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attr);
	job->pidfd = (int)syscall(SYS_pidfd_open, job->pid, 0);
	if (job->pidfd < 0)
		fail("pidfd_open");
	job->until_ms = clock_now_ms() + 1000u * options.seconds;
}

static void log_print(const struct job *job)
{
	char path[128], line[4096];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/log", job->directory);
	file = fopen(path, "re");
	if (!file)
		fail(path);
	while (fgets(line, sizeof(line), file))
		(void)printf("  | %s", line);
	(void)fclose(file);
}

static void report(const struct job *job, const char *verdict)
{
	const struct calls *calls = job->calls;

	(void)printf("%s: %s %s %" PRIu64, verdict,
		     options.daemon ? "daemon" : "library", class_names[calls->class],
		     calls->number);
	if (calls->known) {
		(void)printf(": the call is at a known place\n");
	} else if (calls->failed) {
		(void)printf(": %s() fails with %s in thread %s\n", calls->name,
			     strerror(calls->error), calls->thread);
		places_print(calls);
	} else {
		(void)printf(": the call was not reached\n");
	}
}

/* The session has ended or is to end.  Whether the run is good. */
static bool job_end(struct job *job, bool hangs)
{
	enum call_class class = job->calls->class;
	bool good;
	int status = 0;

	if (hangs)
		(void)kill(-job->pid, SIGABRT);
	if (waitpid(job->pid, &status, 0) != job->pid)
		fail("waitpid");
	/* a daemon that it has left */
	(void)kill(-job->pid, SIGKILL);
	(void)close(job->pidfd);
	job->pid = 0;
	good = !hangs && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (job->calls->known)
		n_known[job->calls->known - 1]++;
	else if (job->calls->failed)
		n_failed++;
	else if (job->calls->number)
		n_missed++;
	n_broken[class] += !good;
	if (!good || (options.verbose && job->calls->number)) {
		report(job, hangs ? "BROKEN (hang)" : good ? "right" : "BROKEN");
		if (!hangs && WIFSIGNALED(status))
			(void)printf("  the session was ended by signal %d\n",
				     WTERMSIG(status));
		if (WIFEXITED(status) && WEXITSTATUS(status) == CALLS_LEAKED)
			(void)printf("  something was left at the end of main()\n");
		log_print(job);
	}
	(void)fflush(stdout);
	return good;
}

/* Wait for one run to end; returns its job. */
static struct job *jobs_await(void)
{
	struct pollfd ready[JOBS_MAX];

	for (;;) {
		for (unsigned i = 0; i < options.jobs; i++)
			ready[i] =
				(struct pollfd){ .fd = jobs[i].pid ? jobs[i].pidfd : -1,
						 .events = POLLIN };
		(void)poll(ready, options.jobs, POLL_MS);
		for (unsigned i = 0; i < options.jobs; i++) {
			bool late = clock_now_ms() >= jobs[i].until_ms;

			if (jobs[i].pid && (ready[i].revents || late)) {
				(void)job_end(&jobs[i], !ready[i].revents);
				return &jobs[i];
			}
		}
	}
}

static struct job *job_free(void)
{
	for (unsigned i = 0; i < options.jobs; i++)
		if (!jobs[i].pid)
			return &jobs[i];
	return jobs_await();
}

static bool jobs_running(void)
{
	for (unsigned i = 0; i < options.jobs; i++)
		if (jobs[i].pid)
			return true;
	return false;
}

/* ---- all runs ---- */

/* Whether no call with a smaller number was made by the same functions in the same way. */
static bool is_new(enum call_class class, uint64_t number)
{
	uint32_t stack = number <= CALLS_STACKS ? stacks[class][number - 1] : 0;

	for (uint64_t i = 0; stack && i < number - 1; i++)
		if (stacks[class][i] == stack)
			return false;
	return true;
}

static void class_sweep(enum call_class class)
{
	uint64_t last = options.last < n_calls[class] ? options.last : n_calls[class];

	/* one of each K calls */
	for (uint64_t k = options.first; k <= last; k += options.every) {
		uint64_t number = k + random_next(&options.seed) % options.every;

		if (number > last)
			break;
		if (options.places && !is_new(class, number))
			continue;
		n_runs[class]++;
		job_start(job_free(), class, number);
	}
}

static int sweep(void)
{
	uint64_t runs = 0, broken = 0;

	job_start(&jobs[0], CALL_MEMORY, 0);
	if (jobs_await() && n_broken[CALL_MEMORY])
		return 1;
	for (unsigned i = 0; i < N_CALL_CLASSES; i++)
		n_calls[i] = jobs[0].calls->count[i];
	memcpy(stacks, jobs[0].calls->stacks, sizeof(stacks));
	for (unsigned i = 0; i < N_CALL_CLASSES; i++)
		if (options.wanted[i])
			class_sweep(i);
	while (jobs_running())
		(void)jobs_await();
	for (unsigned i = 0; i < N_CALL_CLASSES; i++) {
		(void)printf("%-8s %5" PRIu64 " calls %5" PRIu64 " runs %4" PRIu64
			     " broken\n",
			     class_names[i], n_calls[i], n_runs[i], n_broken[i]);
		runs += n_runs[i];
		broken += n_broken[i];
	}
	if (n_missed)
		(void)printf("in %" PRIu64 " runs the call was not reached\n",
			     n_missed);
	for (unsigned i = 0; i < N_KNOWN_PLACES; i++)
		if (n_known[i])
			(void)printf("in %" PRIu64 " runs the call was at a known "
				     "place: %s\n",
				     n_known[i], known_places[i].why);
	(void)printf("%" PRIu64 " calls failed, %" PRIu64 " runs, %" PRIu64 " broken\n",
		     n_failed, runs, broken);
	return broken || !n_failed;
}

/* ---- options ---- */

static uint64_t number_parse(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (*end || !*text || value == 0) {
		errno = EINVAL;
		fail(text);
	}
	return value;
}

static void class_want(const char *name)
{
	for (unsigned i = 0; i < N_CALL_CLASSES; i++) {
		if (strcmp(name, class_names[i]) == 0) {
			options.wanted[i] = true;
			return;
		}
	}
	errno = EINVAL;
	fail(name);
}

static void options_parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "class", 1, NULL, 'c' },
		{ "first", 1, NULL, 'f' },
		{ "last", 1, NULL, 'l' },
		{ "every", 1, NULL, 'e' },
		{ "seed", 1, NULL, 's' },
		{ "fabric", 1, NULL, 'F' },
		{ "jobs", 1, NULL, 'j' },
		{ "limit", 1, NULL, 'S' },
		{ "auth", 1, NULL, 'a' },
		{ "verbose", 0, NULL, 'v' },
		{ "places", 0, NULL, 'p' },
		{ "address", 1, NULL, 'A' },
		{ 0 },
	};
	bool any = false;
	int option;

	options.seed = clock_now_ns();
	while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
		switch (option) {
		case 'c':
			class_want(optarg);
			any = true;
			break;
		case 'f':
			options.first = number_parse(optarg);
			break;
		case 'l':
			options.last = number_parse(optarg);
			break;
		case 'e':
			options.every = number_parse(optarg);
			break;
		case 's':
			options.seed = number_parse(optarg);
			break;
		case 'F':
			options.fabric = optarg;
			break;
		case 'A':
			options.address = optarg;
			break;
		case 'a':
			options.auth = optarg;
			break;
		case 'j':
			options.jobs = (unsigned)number_parse(optarg);
			break;
		case 'S':
			options.seconds = (unsigned)number_parse(optarg);
			break;
		case 'p':
			options.places = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		default:
			exit(2);
		}
	}
	if (argc - optind != 2 || options.jobs > JOBS_MAX)
		exit(2);
	options.daemon = strcmp(argv[optind], "daemon") == 0;
	options.build = argv[optind + 1];
	for (unsigned i = 0; i < N_CALL_CLASSES && !any; i++)
		options.wanted[i] = true;
}

int main(int argc, char **argv)
{
	unsigned port = 20000 + (unsigned)getpid() % 200 * 3 * JOBS_MAX;
	int status;

	options_parse(argc, argv);
	(void)printf("seed %" PRIu64 "\n", options.seed);
	for (unsigned i = 0; i < options.jobs; i++)
		job_open(&jobs[i], port + 3 * i);
	status = sweep();
	for (unsigned i = 0; i < options.jobs; i++)
		job_close(&jobs[i]);
	return status;
}
