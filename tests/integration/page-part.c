// SPDX-License-Identifier: BSD-3-Clause
/*
 * The program around an example of a manual page that is a part of one: PART is the file of the
 * example, which uses what is declared here.
 *
 * usage: part; the server is RMEM_SERVER
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rmem/rmem.h>

#define BYTES (80 << 20) /* more than half of the server's memory */
#define NAMES 1000

static const char *server;
static atomic_bool used, ended;

static void must(int err)
{
	if (err < 0)
		errx(1, "%s", rmem_error());
}

static rmem_lease *lend(rmem *session, const char *name, uint64_t bytes)
{
	struct rmem_alloc_params want = rmem_alloc_params_init();
	rmem_lease *lease;

	want.bytes = bytes;
	want.name = name;
	must(rmem_alloc(session, &want, &lease));
	return lease;
}

/* Another client: writes to the lease until the example has used it, and ends it then. */
static void *other_client(void *arg)
{
	rmem *session;
	rmem_lease *lease;

	(void)arg;
	must(rmem_open(server, NULL, &session));
	must(rmem_attach(session, "example", RMEM_READ | RMEM_WRITE, &lease));
	while (!atomic_load(&used) && !atomic_load(&ended)) {
		must(rmem_write_notify(lease, BYTES - 1, "x", 1, 0));
		(void)usleep(10000);
	}
	if (atomic_load(&used))
		must(rmem_destroy(lease));
	rmem_close(session);
	return NULL;
}

static void use(const char *buf)
{
	(void)buf;
	atomic_store(&used, true);
}

static _Noreturn void drop_from_cache(rmem_lease *lease)
{
	must(rmem_destroy(lease));
	exit(0);
}

int main(void)
{
	static char names[NAMES][16], buf[65536], record[64];
	static rmem_lease *leases[NAMES];
	struct rmem_buffer_params memory = rmem_buffer_params_init();
	struct rmem_atomic one = { .operand = 1 };
	uint64_t count = 0, my_id = 7;
	rmem *session;
	rmem_lease *lease;
	rmem_queue *queue;
	rmem_buffer *buffer;
	pthread_t other;

	server = getenv("RMEM_SERVER");
	must(rmem_open(server, NULL, &session));
	lease = lend(session, "example", BYTES);
	for (int i = 0; i < NAMES; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "example/%d", i);
		(void)lend(session, names[i], 1);
	}
	must(rmem_queue_create(session, NULL, &queue));
	memory.bytes = 65536;
	must(rmem_buffer_create(session, &memory, &buffer));
	if (pthread_create(&other, NULL, other_client, NULL))
		errx(1, "no thread");
	{
#include PART
	}
	atomic_store(&ended, true);
	if (pthread_join(other, NULL))
		errx(1, "no end of the thread");
	rmem_buffer_free(buffer);
	rmem_queue_free(queue);
	rmem_close(session);
	return 0;
}
