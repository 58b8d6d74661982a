/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread with one poll loop that makes all calls without waiting:
 *
 *   calls URI many           open a session; allocate, attach and detach 1,000 named leases beside
 *                            a stream of reads
 *   calls URI lost           print "begun" when 1,000 leases are being attached, and attach all of
 *                            them, though the server is killed meanwhile and comes back
 *   calls URI random ROUNDS  begin calls of all kinds, and cancel them or free their object after a
 *                            random time: nothing is left
 *
 * The seed of random choices is in RMEM_SEED. */
#include <poll.h>
#include <string.h>
#include <time.h>

#include "program.h"

#define MANY 1000u
#define BATCH 32u
#define READ_BYTES 4096u
#define SLOTS 64u

static const char *uri;
static rmem_calls *calls;
static struct rmem_answer answers[256];
static char names[MANY][16];

static void answer_must(const struct rmem_answer *answer)
{
	if (answer->status >= 0)
		return;
	(void)fprintf(stderr, "calls: %s\n", rmem_answer_error(calls, answer));
	exit(1);
}

/* ---- the loop ---- */

/* The stream of reads: as many as fit are outstanding. */
struct stream {
	rmem_queue *queue; /* NULL: there is none */
	rmem_lease *lease;
	unsigned char bytes[BATCH][READ_BYTES];
	uint64_t n;
};
static struct stream stream;

static void stream_submit(unsigned slot)
{
	struct rmem_op op =
		rmem_op_read(stream.lease, 0, stream.bytes[slot], READ_BYTES);

	op.cookie = slot;
	must(rmem_submit(stream.queue, &op, 1) == 1 ? 0 : -1, "submit");
}

static void stream_begin(rmem_queue *queue, rmem_lease *lease)
{
	stream.queue = queue;
	stream.lease = lease;
	for (unsigned i = 0; i < BATCH; i++)
		stream_submit(i);
}

static void stream_go(void)
{
	struct rmem_completion completions[BATCH];
	int n;

	do {
		n = rmem_poll(stream.queue, completions, BATCH);
		for (int i = 0; i < n; i++) {
			must_complete(stream.queue, &completions[i]);
			stream.n++;
			stream_submit((unsigned)completions[i].cookie);
		}
	} while (rmem_queue_arm(stream.queue) == 1);
}

/* Wait for the descriptors, and take answers; returns their number. */
static unsigned loop(void)
{
	struct pollfd fds[2] = { { .fd = rmem_calls_fd(calls), .events = POLLIN } };
	int n;

	if (stream.queue) {
		stream_go();
		fds[1] = (struct pollfd){ .fd = rmem_queue_fd(stream.queue),
					  .events = POLLIN };
	}
	if (poll(fds, stream.queue ? 2 : 1, 30000) == 0)
		fail("neither answer nor completion", 0);
	n = rmem_calls_take(calls, answers, 256);
	must(n, "take");
	return (unsigned)n;
}

static void begin(const struct rmem_request *requests, unsigned n)
{
	int begun = rmem_calls_begin(calls, requests, n);

	must(begun, "begin");
	if (begun != (int)n)
		fail("begin", begun);
}

static void *one(struct rmem_request request)
{
	begin(&request, 1);
	while (loop() == 0)
		;
	answer_must(&answers[0]);
	return answers[0].object;
}

static rmem *session_open(void)
{
	struct rmem_request request = rmem_request_init(RMEM_CALL_OPEN);

	request.name = uri;
	return one(request);
}

static void session_close(rmem *session)
{
	struct rmem_request request = rmem_request_init(RMEM_CALL_CLOSE);

	request.session = session;
	(void)one(request);
}

/* Make one call for each name, or lease; answers without error are stored in leases[]. */
static void each(enum rmem_call call, rmem *session, rmem_lease **leases)
{
	static struct rmem_request requests[MANY];
	static struct rmem_alloc_params params[MANY];
	unsigned got = 0;

	for (unsigned i = 0; i < MANY; i++) {
		requests[i] = rmem_request_init(call);
		requests[i].session = session;
		requests[i].lease = leases[i];
		requests[i].name = names[i];
		requests[i].cookie = i;
		requests[i].value = RMEM_READ;
		params[i] = rmem_alloc_params_init();
		params[i].bytes = READ_BYTES;
		params[i].name = names[i];
		requests[i].params = &params[i];
	}
	begin(requests, MANY);
	while (got < MANY) {
		unsigned n = loop();

		for (unsigned i = 0; i < n; i++) {
			answer_must(&answers[i]);
			leases[answers[i].cookie] = answers[i].object;
		}
		got += n;
	}
}

/* ---- many, lost ---- */

static void names_check(rmem_lease *const *leases)
{
	for (unsigned i = 0; i < MANY; i++) {
		char name[16];

		(void)rmem_lease_name(leases[i], name, sizeof(name));
		if (strcmp(name, names[i]) != 0)
			fail("a lease of another name", (long)i);
	}
}

static void many(void)
{
	static rmem_lease *leases[MANY];
	struct rmem_request request = rmem_request_init(RMEM_CALL_QUEUE);
	struct rmem_info info = rmem_info_init();
	rmem *session = session_open(), *beside = session_open();
	rmem_queue *queue;
	uint64_t before;

	each(RMEM_CALL_ALLOC, session, leases);
	each(RMEM_CALL_DETACH, session, leases);
	request.session = beside;
	queue = one(request);
	request = rmem_request_init(RMEM_CALL_ATTACH);
	request.session = beside;
	request.name = names[0];
	request.value = RMEM_READ;
	stream_begin(queue, one(request));
	before = stream.n;
	do {
		each(RMEM_CALL_ATTACH, session, leases);
		names_check(leases);
		each(RMEM_CALL_DETACH, session, leases);
	} while (stream.n - before < MANY);
	must(rmem_info(beside, &info), "info");
	if (info.resumes)
		fail("heartbeats came too late", (long)info.resumes);
	rmem_queue_free(stream.queue);
	stream.queue = NULL;
	each(RMEM_CALL_REMOVE, session, leases);
	session_close(beside);
	session_close(session);
}

static void lost(void)
{
	static rmem_lease *leases[MANY];
	rmem *session = session_open();

	each(RMEM_CALL_ALLOC, session, leases);
	each(RMEM_CALL_DETACH, session, leases);
	(void)printf("begun\n");
	(void)fflush(stdout);
	for (unsigned i = 0; i < 5; i++) {
		each(RMEM_CALL_ATTACH, session, leases);
		each(RMEM_CALL_DETACH, session, leases);
	}
	step("done");
	each(RMEM_CALL_REMOVE, session, leases);
	session_close(session);
}

/* ---- random ---- */

static uint64_t seed;
static rmem *sessions[2];
static rmem_lease *held[SLOTS];

static struct rmem_request random_request(void)
{
	static const enum rmem_call kinds[] = {
		RMEM_CALL_ALLOC, RMEM_CALL_ALLOC,  RMEM_CALL_ATTACH, RMEM_CALL_ATTACH,
		RMEM_CALL_STAT,  RMEM_CALL_LIST,   RMEM_CALL_PING,   RMEM_CALL_OPEN,
		RMEM_CALL_QUEUE, RMEM_CALL_BUFFER, RMEM_CALL_REMOVE,
	};
	static const enum rmem_call on_lease[] = {
		RMEM_CALL_GROW,  RMEM_CALL_SHRINK, RMEM_CALL_RENEW,   RMEM_CALL_KEEP,
		RMEM_CALL_WATCH, RMEM_CALL_RENAME, RMEM_CALL_UNWATCH,
	};
	static struct rmem_alloc_params alloc;
	static struct rmem_buffer_params buffer;
	static unsigned char memory[READ_BYTES];
	rmem_lease *lease = held[draw(&seed, SLOTS)];
	struct rmem_request request;

	if (lease && draw(&seed, 3) == 0) {
		request = rmem_request_init(on_lease[draw(&seed, 7)]);
		request.lease = lease;
		request.value = draw(&seed, 2 * READ_BYTES);
		if (request.call == RMEM_CALL_RENAME)
			request.value = 0;
	} else {
		request = rmem_request_init(kinds[draw(&seed, 11)]);
		request.session = sessions[draw(&seed, 2)];
		request.value = RMEM_READ | RMEM_WRITE;
	}
	request.name = names[draw(&seed, 20)];
	request.cookie = draw(&seed, SLOTS);
	if (request.call == RMEM_CALL_ALLOC) {
		alloc = rmem_alloc_params_init();
		alloc.bytes = draw(&seed, READ_BYTES);
		alloc.name = draw(&seed, 2) ? request.name : NULL;
		alloc.flags = alloc.name && draw(&seed, 2) ? RMEM_ALLOC_ATTACH : 0;
		request.params = &alloc;
	} else if (request.call == RMEM_CALL_BUFFER) {
		buffer = rmem_buffer_params_init();
		buffer.addr = memory;
		buffer.bytes = sizeof(memory);
		request.params = &buffer;
	} else if (request.call == RMEM_CALL_OPEN) {
		request.name = uri;
	}
	return request;
}

static void end_begin(enum rmem_call call, rmem *session, rmem_lease *lease)
{
	struct rmem_request request = rmem_request_init(call);

	request.session = session;
	request.lease = lease;
	request.cookie = draw(&seed, SLOTS);
	begin(&request, 1);
}

/* Keep a lease, in place of another, and end what else the answer has. */
static void random_answer(const struct rmem_answer *answer)
{
	rmem_lease **slot = &held[draw(&seed, SLOTS)];

	if (!answer->object)
		return;
	if (answer->call == RMEM_CALL_OPEN) {
		end_begin(RMEM_CALL_CLOSE, answer->object, NULL);
	} else if (answer->call == RMEM_CALL_QUEUE) {
		rmem_queue_free(answer->object);
	} else if (answer->call == RMEM_CALL_BUFFER) {
		must(rmem_buffer_free(answer->object), "buffer_free");
	} else {
		if (*slot)
			end_begin(RMEM_CALL_DETACH, NULL, *slot);
		*slot = answer->object;
	}
}

static void pause_ns(uint32_t ns)
{
	const struct timespec time = { .tv_nsec = (long)ns };

	(void)nanosleep(&time, NULL);
}

static void round_run(void)
{
	unsigned n = 1 + draw(&seed, 40);

	for (unsigned i = 0; i < n; i++) {
		struct rmem_request request = random_request();

		begin(&request, 1);
		if (draw(&seed, 8) == 0)
			pause_ns(draw(&seed, 300000));
		if (draw(&seed, 4) == 0)
			must(rmem_calls_cancel(calls, draw(&seed, SLOTS)), "cancel");
	}
	if (draw(&seed, 4) == 0) {
		rmem_calls_free(calls);
		must(rmem_calls_create(NULL, &calls), "create");
	}
	while (rmem_calls_outstanding(calls) > 0) {
		n = loop();
		for (unsigned i = 0; i < n; i++)
			random_answer(&answers[i]);
	}
}

static void random_calls(unsigned rounds)
{
	sessions[0] = session_open();
	sessions[1] = session_open();
	for (unsigned i = 0; i < rounds; i++)
		round_run();
	for (unsigned i = 0; i < 20; i++)
		(void)rmem_remove(sessions[0], names[i]);
	session_close(sessions[0]);
	session_close(sessions[1]);
}

int main(int argc, char **argv)
{
	const char *given = getenv("RMEM_SEED");

	if (argc < 3)
		return 2;
	seed = given ? strtoull(given, NULL, 10) : 1;
	uri = argv[1];
	for (unsigned i = 0; i < MANY; i++)
		(void)snprintf(names[i], sizeof(names[i]), "lease-%u", i);
	must(rmem_calls_create(NULL, &calls), "create");
	if (strcmp(argv[2], "many") == 0)
		many();
	else if (strcmp(argv[2], "lost") == 0)
		lost();
	else
		random_calls((unsigned)atoi(argv[3]));
	rmem_calls_free(calls);
	return 0;
}
