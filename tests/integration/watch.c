/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications between processes, against a running server:
 *
 *   watch URI ROUNDS
 *
 * One process writes with notification, others watch.  First no notice may be lost, and each must
 * come after its bytes.  Then one watcher is stopped until the server fences it, while the others
 * go on; it must learn that notices were lost.  The exit status is 1 at the first error. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rmem/rmem.h>

#define NAME "integration/watch"
#define WATCHERS 4
#define SLOTS 16
#define SLOT_BYTES (256u << 10)
#define WAIT_S 60
#define BURST 2000
/* Values of the second part have this bit; the last value of each part is all ones. */
#define FLOOD UINT32_C(0x80000000)
#define LAST UINT32_MAX

/* The first bytes of a slot; the others are a function of the value. */
struct head {
	uint64_t value, bytes;
};

/* Shared by the processes. */
struct shared {
	sem_t lent;  /* posted by the writer for each watcher: the lease exists */
	sem_t ready; /* posted by each watcher that watches */
	sem_t seen[WATCHERS]; /* posted by the watcher for each notice it has checked */
	sem_t ended[WATCHERS]; /* posted by the watcher when it has received LAST */
};

static const char *uri;
static struct shared *shared;
static unsigned char buf[SLOT_BYTES];
static pid_t pids[WATCHERS];

static void fail(const char *what, long result)
{
	(void)fprintf(stderr, "watch: %s: %ld (%s)\n", what, result, rmem_error());
	for (unsigned i = 0; i < WATCHERS; i++)
		if (pids[i] > 0)
			(void)kill(pids[i], SIGKILL);
	exit(1);
}

static void must(int result, const char *what)
{
	if (result < 0)
		fail(what, result);
}

static void must_be(bool condition, const char *what, uint64_t value)
{
	if (!condition)
		fail(what, (long)value);
}

static void await(sem_t *sem, const char *what)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	while (sem_timedwait(sem, &until))
		must_be(errno == EINTR, what, 0);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static rmem *session_open(void)
{
	rmem *session;

	must(rmem_open(uri, NULL, &session), "open");
	return session;
}

/* ---- slots ---- */

static uint64_t slot_offset(uint32_t value)
{
	return (uint64_t)(value % SLOTS) * SLOT_BYTES;
}

/* Most are short; every 50th is long enough to be split over several channels. */
static uint64_t slot_length(uint32_t value)
{
	return value % 50 == 49 ? 200000 + value % 1000
				: sizeof(struct head) + (value * 37u) % 3000;
}

static unsigned char filler(uint32_t value, uint64_t at)
{
	return (unsigned char)(value * 31u + at * 7u + (at >> 8));
}

static void slot_fill(unsigned char *slot, uint32_t value)
{
	const struct head head = { value, slot_length(value) };

	memcpy(slot, &head, sizeof(head));
	for (uint64_t i = sizeof(head); i < head.bytes; i++)
		slot[i] = filler(value, i);
}

static void slot_check(rmem_lease *lease, uint32_t value)
{
	struct head head;

	must(rmem_read(lease, slot_offset(value), buf, slot_length(value)), "read");
	memcpy(&head, buf, sizeof(head));
	must_be(head.value == value, "a notice came before its bytes", value);
	must_be(head.bytes == slot_length(value), "length", value);
	for (uint64_t i = sizeof(head); i < head.bytes; i++)
		must_be(buf[i] == filler(value, i), "a byte was not in place", value);
}

/* ---- watchers ---- */

struct watcher {
	unsigned number;
	rmem *session;
	rmem_lease *lease;
	uint64_t notices, lost, resumed;
};

/* In the first part no notice may be lost, and each must come after its bytes.  In the second part
 * only LAST must come.  Returns whether this is LAST. */
static bool notice_check(struct watcher *watcher, const struct rmem_notice *notice)
{
	must_be(notice->lease == watcher->lease, "another lease", 0);
	if (notice->type == RMEM_NOTICE_RESUMED) {
		must_be(notice->lost == RMEM_LOST_UNKNOWN, "lost is not unknown", 0);
		watcher->resumed++;
		return false;
	}
	must_be(notice->type == RMEM_NOTICE_VALUE, "type", notice->type);
	watcher->notices++;
	watcher->lost += notice->lost;
	if (notice->value & FLOOD)
		return notice->value == LAST;
	must_be(notice->lost == 0, "notices were lost", notice->lost);
	slot_check(watcher->lease, notice->value);
	(void)sem_post(&shared->seen[watcher->number]);
	return false;
}

/* Check notices until LAST has come. */
static void watch(struct watcher *watcher)
{
	struct rmem_notice notices[32];
	bool done = false;

	while (!done) {
		int n = rmem_notified(watcher->session, notices, 32, WAIT_S * 1000);

		must(n, "notified");
		must_be(n > 0, "no notice comes", watcher->number);
		for (int i = 0; i < n; i++)
			done |= notice_check(watcher, &notices[i]);
	}
	(void)sem_post(&shared->ended[watcher->number]);
}

static void watcher_end(struct watcher *watcher)
{
	struct rmem_notice notice;

	/* the writer frees the lease */
	must_be(rmem_notified(watcher->session, &notice, 1, WAIT_S * 1000) == 1,
		"no notice of the end of the lease", watcher->number);
	must_be(notice.type == RMEM_NOTICE_ENDED, "the last notice is not of the end",
		watcher->number);
	rmem_close(watcher->session);
}

static int watcher_run(unsigned number)
{
	struct watcher watcher = { .number = number };

	await(&shared->lent, "there is no lease");
	watcher.session = session_open();
	must(rmem_attach(watcher.session, NAME, RMEM_READ, &watcher.lease), "attach");
	must(rmem_watch(watcher.lease), "watch");
	must_be(rmem_write_notify(watcher.lease, 0, NULL, 0, 1) == -EACCES,
		"a notification without the right to write", number);
	(void)sem_post(&shared->ready);
	watch(&watcher);
	must_be(watcher.lost == 0 || number == 0,
		"a watcher that was not stopped lost notices", watcher.lost);
	watch(&watcher);
	(void)printf("watcher %u: %" PRIu64 " notices, %" PRIu64 " lost, %" PRIu64
		     " resumes\n",
		     number, watcher.notices, watcher.lost, watcher.resumed);
	/* only the stopped watcher lost its connection, and notices when its queue was full */
	must_be((watcher.resumed > 0) == (number == 0), "resumes", watcher.resumed);
	must_be(number != 0 || watcher.lost > 0, "the stopped watcher lost no notice",
		0);
	watcher_end(&watcher);
	return 0;
}

/* To be called before the library is used: fork() does not copy the library's thread. */
static void watchers_fork(void)
{
	for (unsigned i = 0; i < WATCHERS; i++) {
		pids[i] = fork();
		must_be(pids[i] >= 0, "fork", 0);
		if (pids[i] == 0) {
			memset(pids, 0, sizeof(pids));
			exit(watcher_run(i));
		}
	}
}

static void watchers_start(void)
{
	for (unsigned i = 0; i < WATCHERS; i++)
		(void)sem_post(&shared->lent);
	for (unsigned i = 0; i < WATCHERS; i++)
		await(&shared->ready, "a watcher is not ready");
}

static void watchers_join(void)
{
	for (unsigned i = 0; i < WATCHERS; i++) {
		int status = 0;

		must_be(waitpid(pids[i], &status, 0) == pids[i] && status == 0,
			"a watcher failed", i);
		pids[i] = 0;
	}
}

/* ---- the writer ---- */

static void completions_wait(rmem_queue *queue, unsigned n)
{
	struct rmem_completion completions[SLOTS];

	for (unsigned got = 0; got < n;) {
		int k = rmem_wait(queue, completions, SLOTS, 1, WAIT_S * 1000);

		must_be(k > 0, "no completion", got);
		for (int i = 0; i < k; i++)
			if (completions[i].status)
				fail(rmem_completion_error(queue, NULL),
				     completions[i].status);
		got += (unsigned)k;
	}
}

/* Write n values from `first` on, each to its slot, in one batch. */
static void batch_write(rmem_queue *queue, rmem_lease *lease, unsigned char *slots,
			uint32_t first, unsigned n)
{
	struct rmem_op ops[SLOTS] = { 0 };

	for (unsigned i = 0; i < n; i++) {
		uint32_t value = first + i;

		slot_fill(slots + slot_offset(value), value);
		ops[i] = (struct rmem_op){
			.opcode = RMEM_OP_WRITE_NOTIFY,
			.lease = lease,
			.offset = slot_offset(value),
			.addr = slots + slot_offset(value),
			.bytes = slot_length(value),
			.value = value,
		};
	}
	must_be(rmem_submit(queue, ops, n) == (int)n, "submit", first);
	completions_wait(queue, n);
}

/* Wait until every watcher has checked n more notices. */
static void watchers_await(unsigned n)
{
	for (unsigned i = 0; i < WATCHERS; i++)
		for (unsigned k = 0; k < n; k++)
			await(&shared->seen[i], "a notice does not come");
}

static void write_exact(rmem_queue *queue, rmem_lease *lease, uint32_t rounds)
{
	unsigned char *slots = malloc((size_t)SLOTS * SLOT_BYTES);
	uint32_t value = 0;

	must_be(slots != NULL, "malloc", 0);
	for (unsigned turn = 0; value < rounds; turn++) {
		unsigned n = turn % 2 ? 2 + turn % (SLOTS - 1) : 1;

		if (n == 1) {
			slot_fill(slots, value);
			must(rmem_write_notify(lease, slot_offset(value), slots,
					       slot_length(value), value),
			     "write_notify");
		} else {
			batch_write(queue, lease, slots, value, n);
		}
		watchers_await(n);
		value += n;
	}
	free(slots);
	(void)printf("exact: %" PRIu32 " writes with notification, %d watchers\n",
		     value, WATCHERS);
}

/* Notify without bytes: until until_ms at a rate that every watcher can follow, then in a burst
 * of more notices than the server queues for a stopped watcher. */
static uint32_t flood(rmem_lease *lease, uint64_t until_ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	uint32_t n = 0;

	for (; now_ms() < until_ms; n++) {
		must(rmem_write_notify(lease, 0, NULL, 0, FLOOD | n), "notify");
		(void)nanosleep(&pause, NULL);
	}
	for (unsigned i = 0; i < BURST; i++, n++)
		must(rmem_write_notify(lease, 0, NULL, 0, FLOOD | n), "notify");
	return n;
}

static void last_notify(rmem_lease *lease, unsigned first)
{
	must(rmem_write_notify(lease, 0, NULL, 0, LAST), "notify");
	for (unsigned i = first; i < WATCHERS; i++)
		await(&shared->ended[i], "the last notice does not come");
}

/* Stop one watcher for longer than the fence time. */
static void stop_one(rmem *session, rmem_lease *lease)
{
	struct rmem_info info = rmem_info_init();
	uint32_t n;

	must(rmem_info(session, &info), "info");
	must_be(kill(pids[0], SIGSTOP) == 0, "SIGSTOP", 0);
	n = flood(lease, now_ms() + 2 * (uint64_t)info.fence_ms);
	/* the others receive all notices before the stopped watcher continues */
	last_notify(lease, 1);
	must_be(kill(pids[0], SIGCONT) == 0, "SIGCONT", 0);
	await(&shared->ended[0], "the stopped watcher does not get the last notice");
	(void)printf("flood: %" PRIu32 " notifications\n", n);
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	struct rmem_queue_params params = rmem_queue_params_init();
	rmem_queue *queue;
	rmem_lease *lease;
	rmem *session;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: watch URI ROUNDS\n");
		return 2;
	}
	uri = argv[1];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must_be(shared != MAP_FAILED, "mmap", 0);
	must(sem_init(&shared->lent, 1, 0), "sem_init");
	must(sem_init(&shared->ready, 1, 0), "sem_init");
	for (unsigned i = 0; i < WATCHERS; i++) {
		must(sem_init(&shared->seen[i], 1, 0), "sem_init");
		must(sem_init(&shared->ended[i], 1, 0), "sem_init");
	}
	watchers_fork();
	session = session_open();
	alloc.bytes = (uint64_t)SLOTS * SLOT_BYTES;
	alloc.name = NAME;
	must(rmem_alloc(session, &alloc, &lease), "alloc");
	params.depth = SLOTS;
	params.channels = 2;
	must(rmem_queue_create(session, &params, &queue), "queue");
	watchers_start();
	write_exact(queue, lease, (uint32_t)strtoul(argv[2], NULL, 0));
	last_notify(lease, 0);
	stop_one(session, lease);
	must(rmem_destroy(lease), "free");
	watchers_join();
	rmem_close(session);
	return 0;
}
