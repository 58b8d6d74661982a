/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-channels ADDRESS CONTROL_PORT DATA_PORT CHANNELS: opens so many channels over TCP, uses
 * each once, and closes them, again and again. */
#include <inttypes.h>
#include <signal.h>

#include "integration/program.h"

#define CHANNELS_MAX 256u
#define WAIT_MS 10000

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* Returns how many of the channels have served a read. */
static unsigned channels_use(rmem *session, rmem_lease *lease, unsigned channels)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	struct rmem_completion completions[CHANNELS_MAX];
	struct rmem_op ops[CHANNELS_MAX] = { 0 };
	char bytes[CHANNELS_MAX];
	rmem_queue *queue;
	unsigned served = 0;
	int n;

	params.depth = channels;
	params.channels = channels;
	must(rmem_queue_create(session, &params, &queue), "queue");
	for (unsigned i = 0; i < channels; i++)
		ops[i] = (struct rmem_op){ .opcode = RMEM_OP_READ,
					   .lease = lease,
					   .addr = &bytes[i],
					   .bytes = 1 };
	must(rmem_submit(queue, ops, channels) == (int)channels ? 0 : -EIO, "submit");
	n = rmem_wait(queue, completions, channels, channels, WAIT_MS);
	for (int i = 0; i < n; i++)
		served += completions[i].status == 0;
	rmem_queue_free(queue);
	return served;
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = on_signal };
	struct rmem_alloc_params params = rmem_alloc_params_init();
	uint64_t done = 0, refused = 0;
	unsigned long channels = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
	rmem_lease *lease;
	rmem *session;
	char uri[128];

	if (channels == 0 || channels > CHANNELS_MAX) {
		(void)fprintf(stderr,
			      "usage: fairness-channels ADDRESS CONTROL_PORT "
			      "DATA_PORT CHANNELS, 1 to %u\n",
			      CHANNELS_MAX);
		return 2;
	}
	if (sigaction(SIGTERM, &action, NULL))
		fail("the start", 0);
	(void)snprintf(uri, sizeof(uri), "rmem://%s:%s?fabric=tcp", argv[1], argv[2]);
	params.bytes = 4096;
	must(rmem_open(uri, NULL, &session), "open");
	must(rmem_alloc(session, &params, &lease), "alloc");
	while (!stopped) {
		unsigned served = channels_use(session, lease, (unsigned)channels);

		done += served;
		refused += channels - served;
	}
	(void)printf("done %" PRIu64 " refused %" PRIu64 "\n", done, refused);
	rmem_destroy(lease);
	rmem_close(session);
	return 0;
}
