/* SPDX-License-Identifier: BSD-3-Clause */
/* One session writes messages into shared memory and notifies; another one waits for them.  The
 * number of messages is stored before them, so a lost notification loses no message.  The sessions
 * could belong to two programs on two hosts.
 *
 *   notify rmem://HOST[:PORT] */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmem/rmem.h>

#define MESSAGES 100
#define MESSAGE_BYTES 64
#define WAIT_MS 30000

/* The first 8 bytes hold the number of messages. */
static uint64_t message_offset(uint32_t number)
{
	return 8 + (uint64_t)number * MESSAGE_BYTES;
}

static int fail(void)
{
	(void)fprintf(stderr, "notify: %s\n", rmem_error());
	return -1;
}

static void message_make(char text[MESSAGE_BYTES], uint32_t number)
{
	memset(text, 0, MESSAGE_BYTES);
	(void)snprintf(text, MESSAGE_BYTES, "this is message %u", number);
}

static int messages_write(rmem_lease *lease)
{
	char text[MESSAGE_BYTES];

	for (uint32_t count = 1; count <= MESSAGES; count++) {
		message_make(text, count - 1);
		if (rmem_write(lease, message_offset(count - 1), text, sizeof(text)))
			return fail();
		/* the number and the message are in place before the notification arrives */
		if (rmem_write_notify(lease, 0, &count, sizeof(count), count))
			return fail();
	}
	return 0;
}

static int message_check(rmem_lease *lease, uint32_t number)
{
	char text[MESSAGE_BYTES], expected[MESSAGE_BYTES];

	if (rmem_read(lease, message_offset(number), text, sizeof(text)))
		return fail();
	message_make(expected, number);
	if (memcmp(text, expected, sizeof(text)) == 0)
		return 0;
	(void)fprintf(stderr, "notify: message %u is '%.63s'\n", number, text);
	return -1;
}

static int messages_read(rmem *session, rmem_lease *lease)
{
	uint32_t seen = 0, count;

	while (seen < MESSAGES) {
		struct rmem_notice notice;
		int n = rmem_notified(session, &notice, 1, WAIT_MS);

		if (n < 0)
			return fail();
		if (n == 0 || notice.type == RMEM_NOTICE_ENDED) {
			(void)fprintf(stderr, "notify: only %u messages arrived\n",
				      seen);
			return -1;
		}
		/* look after any other notice, also one that reports a loss */
		if (rmem_read(lease, 0, &count, sizeof(count)))
			return fail();
		for (; seen < count; seen++)
			if (message_check(lease, seen))
				return -1;
	}
	return 0;
}

static int messages_pass(rmem *writer, rmem *reader)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	char name[RMEM_NAME_MAX + 1];
	rmem_lease *mine, *theirs;

	(void)snprintf(name, sizeof(name), "example/notify.%ld", (long)getpid());
	params.bytes = message_offset(MESSAGES);
	params.name = name;
	params.ttl_ms = 60000;
	if (rmem_alloc(writer, &params, &mine) ||
	    rmem_attach(reader, name, RMEM_READ, &theirs) || rmem_watch(theirs))
		return fail();
	if (messages_write(mine) || messages_read(reader, theirs))
		return -1;
	return rmem_destroy(mine) ? fail() : 0;
}

int main(int argc, char **argv)
{
	rmem *writer, *reader;
	int err;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: notify URI\n");
		return 2;
	}
	if (rmem_open(argv[1], NULL, &writer)) {
		(void)fail();
		return EXIT_FAILURE;
	}
	if (rmem_open(argv[1], NULL, &reader)) {
		(void)fail();
		rmem_close(writer);
		return EXIT_FAILURE;
	}
	err = messages_pass(writer, reader);
	rmem_close(reader);
	rmem_close(writer);
	if (err)
		return EXIT_FAILURE;
	(void)printf("notify: OK\n");
	return EXIT_SUCCESS;
}
