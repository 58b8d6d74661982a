/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-client URI OPERATION INTERVAL_US SECONDS: an honest client.  It starts an operation each
 * INTERVAL_US: "ping", a round trip on the control connection; "write", 4 KiB to a lease; or
 * "open", which opens and closes a session of its own.
 *
 * While an operation waits, others become due.  They are not sent, but each counts with the time
 * from when it was due to the end of the wait: a stall of 100 ms is as long for all that was due in
 * it, and not one slow operation among many.
 *
 * Prints "ready", waits for a line, measures, and prints a line of JSON. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "integration/program.h"

#define LEASE_BYTES (UINT64_C(1) << 20)
#define WRITE_BYTES 4096u
#define NS_PER_S UINT64_C(1000000000)

struct client {
	const char *uri;
	rmem *session;
	rmem_lease *lease;
	uint64_t seed;
	uint64_t *ns; /* of each operation */
	size_t n, failed;
};

static int op_ping(struct client *client)
{
	return rmem_ping(client->session, NULL);
}

static int op_write(struct client *client)
{
	static const char bytes[WRITE_BYTES] = { 1 };
	uint64_t offset =
		(uint64_t)draw(&client->seed, LEASE_BYTES / WRITE_BYTES) * WRITE_BYTES;

	return rmem_write(client->lease, offset, bytes, sizeof(bytes));
}

static int op_open(struct client *client)
{
	rmem *session;
	int err = rmem_open(client->uri, NULL, &session);

	if (!err)
		rmem_close(session);
	return err;
}

static const struct {
	const char *name;
	int (*run)(struct client *client);
} ops[] = {
	{ "ping", op_ping },
	{ "write", op_write },
	{ "open", op_open },
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	const struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S),
				     .tv_nsec = (long)(ns % NS_PER_S) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL))
		;
}

/* Do the operation that is due, and count all that become due meanwhile. */
static void op_measure(struct client *client, int (*run)(struct client *client),
		       uint64_t interval_ns, uint64_t *due, size_t n)
{
	uint64_t end;

	sleep_until(*due);
	if (run(client) && !client->failed++)
		(void)fprintf(stderr, "fairness-client: %s\n", rmem_error());
	end = now_ns();
	do {
		client->ns[client->n++] = end - *due;
		*due += interval_ns;
	} while (*due < end && client->n < n);
}

static void measure(struct client *client, int (*run)(struct client *client),
		    uint64_t interval_ns, size_t n)
{
	uint64_t due = now_ns();

	while (client->n < n)
		op_measure(client, run, interval_ns, &due, n);
}

static int less(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The time, in microseconds, that this many of 1,000 operations do not exceed. */
static double percentile_us(const struct client *client, size_t of_1000)
{
	size_t rank = (client->n * of_1000 + 999) / 1000;

	return (double)client->ns[rank - 1] / 1000;
}

static void report(struct client *client, const char *name)
{
	qsort(client->ns, client->n, sizeof(*client->ns), less);
	(void)printf("{\"op\": \"%s\", \"n\": %zu, \"failed\": %zu, "
		     "\"p50_us\": %.0f, \"p99_us\": %.0f, \"p999_us\": %.0f, "
		     "\"worst_us\": %.0f}\n",
		     name, client->n, client->failed, percentile_us(client, 500),
		     percentile_us(client, 990), percentile_us(client, 999),
		     percentile_us(client, 1000));
}

static void lease_make(struct client *client)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();

	params.bytes = LEASE_BYTES;
	must(rmem_open(client->uri, NULL, &client->session), "open");
	must(rmem_alloc(client->session, &params, &client->lease), "alloc");
	must(op_write(client), "the first write");
}

int main(int argc, char **argv)
{
	struct client client = { .seed = 1 };
	uint64_t interval_us, seconds;
	size_t n, op = 0;

	if (argc != 5) {
		(void)fprintf(stderr, "usage: fairness-client URI ping|write|open "
				      "INTERVAL_US SECONDS\n");
		return 2;
	}
	client.uri = argv[1];
	while (op < sizeof(ops) / sizeof(ops[0]) && strcmp(ops[op].name, argv[2]) != 0)
		op++;
	interval_us = strtoull(argv[3], NULL, 10);
	seconds = strtoull(argv[4], NULL, 10);
	n = interval_us ? seconds * 1000000 / interval_us : 0;
	client.ns = calloc(n + 1, sizeof(*client.ns));
	if (op == sizeof(ops) / sizeof(ops[0]) || n == 0 || !client.ns)
		fail("an argument is wrong", 0);
	lease_make(&client);
	step("ready");
	measure(&client, ops[op].run, interval_us * 1000, n);
	report(&client, ops[op].name);
	rmem_close(client.session);
	free(client.ns);
	return 0;
}
