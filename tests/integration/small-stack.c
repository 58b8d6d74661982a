/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread with a small stack that makes calls of each kind:
 *
 *   small-stack URI KIB
 *
 * Below the stack is a page that may not be used.  The C library's own part of a thread's stack,
 * for its variables, is in the size too. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "program.h"

#define BYTES (1u << 20)
#define GUARD 65536u

static const char *uri;

static int entry(const struct rmem_stat *stat, void *arg)
{
	(void)stat;
	*(unsigned *)arg += 1;
	return 0;
}

static void operate(rmem *session, rmem_lease *lease)
{
	static unsigned char bytes[BYTES];
	struct rmem_op op = rmem_op_read(lease, 0, bytes, BYTES);
	struct rmem_completion completion;
	rmem_queue *queue;

	must(rmem_write(lease, 0, bytes, BYTES), "write");
	must(rmem_fetch_add(lease, 0, 1, NULL), "fetch_add");
	must(rmem_fill(lease, 0, BYTES, 7), "fill");
	must(rmem_queue_create(session, NULL, &queue), "queue_create");
	must(rmem_submit(queue, &op, 1), "submit");
	must(rmem_wait(queue, &completion, 1, 1, -1), "wait");
	must_complete(queue, &completion);
	rmem_queue_free(queue);
}

static void calls(rmem *session, const char *name)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease, *attached;
	unsigned count = 0;

	params.bytes = BYTES;
	params.name = name;
	must(rmem_alloc(session, &params, &lease), "alloc");
	must(rmem_attach(session, name, RMEM_READ, &attached), "attach");
	operate(session, lease);
	must(rmem_detach(attached), "detach");
	must(rmem_grow(lease, 2 * BYTES), "grow");
	must(rmem_shrink(lease, BYTES), "shrink");
	must(rmem_watch(lease), "watch");
	must(rmem_list(session, NULL, entry, &count), "list");
	must(rmem_ping(session, NULL), "ping");
	must(rmem_destroy(lease), "destroy");
}

static void *run(void *arg)
{
	struct rmem_options options = rmem_options_init();
	rmem *session;

	must(rmem_open(uri, NULL, &session), "open");
	calls(session, "small-stack");
	rmem_close(session);
	options.flags = RMEM_NO_THREAD;
	must(rmem_open(uri, &options, &session), "open");
	calls(session, "small-stack");
	must(rmem_process(session), "process");
	rmem_close(session);
	return arg;
}

int main(int argc, char **argv)
{
	size_t bytes = argc == 3 ? strtoul(argv[2], NULL, 10) << 10 : 0;
	pthread_attr_t attr;
	pthread_t thread;
	char *stack;

	if (!bytes) {
		(void)fprintf(stderr, "usage: small-stack URI KIB\n");
		return 2;
	}
	uri = argv[1];
	stack = mmap(NULL, GUARD + bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack, GUARD, PROT_NONE))
		fail("a stack", -errno);
	if (pthread_attr_init(&attr) ||
	    pthread_attr_setstack(&attr, stack + GUARD, bytes) ||
	    pthread_create(&thread, &attr, run, NULL) || pthread_join(thread, NULL))
		fail("a thread", 0);
	(void)printf("kept: the calls of a thread with %zu KiB of stack\n",
		     bytes >> 10);
	return 0;
}
