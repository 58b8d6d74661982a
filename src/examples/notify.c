/* SPDX-License-Identifier: BSD-3-Clause */
/* One session writes messages into shared memory and notifies; another one waits for them.  The
 * number of messages is stored before them, so a lost notification loses no message.  The sessions
 * could belong to two programs on two hosts.
 *
 *   notify rmem://HOST[:PORT] */
#include <err.h>
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

/* rmem_error() tells which call failed and why.  The server frees what the process leaves. */
static _Noreturn void fail(void)
{
	errx(EXIT_FAILURE, "%s", rmem_error());
}

static void message_make(char text[MESSAGE_BYTES], uint32_t number)
{
	memset(text, 0, MESSAGE_BYTES);
	(void)snprintf(text, MESSAGE_BYTES, "this is message %u", number);
}

static void messages_write(rmem_lease *lease)
{
	char text[MESSAGE_BYTES];

	for (uint32_t count = 1; count <= MESSAGES; count++) {
		message_make(text, count - 1);
		/* the number and the message are in place before the notification arrives */
		if (rmem_write(lease, message_offset(count - 1), text, sizeof(text)) ||
		    rmem_write_notify(lease, 0, &count, sizeof(count), count))
			fail();
	}
}

static void message_check(rmem_lease *lease, uint32_t number)
{
	char text[MESSAGE_BYTES], expected[MESSAGE_BYTES];

	if (rmem_read(lease, message_offset(number), text, sizeof(text)))
		fail();
	message_make(expected, number);
	if (memcmp(text, expected, sizeof(text)) != 0)
		errx(EXIT_FAILURE, "message %u is '%.63s'", number, text);
}

static void messages_read(rmem *session, rmem_lease *lease)
{
	uint32_t seen = 0, count;

	while (seen < MESSAGES) {
		struct rmem_notice notice;
		int n = rmem_notified(session, &notice, 1, WAIT_MS);

		if (n < 0)
			fail();
		if (n == 0 || notice.type == RMEM_NOTICE_ENDED)
			errx(EXIT_FAILURE, "only %u messages arrived", seen);
		/* look after any other notice, also one that reports a loss */
		if (rmem_read(lease, 0, &count, sizeof(count)))
			fail();
		for (; seen < count; seen++)
			message_check(lease, seen);
	}
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	char name[RMEM_NAME_MAX + 1];
	rmem *writer, *reader;
	rmem_lease *mine, *theirs;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: notify URI\n");
		return 2;
	}
	(void)snprintf(name, sizeof(name), "example/notify.%ld", (long)getpid());
	params.bytes = message_offset(MESSAGES);
	params.name = name;
	params.ttl_ms = 60000;
	if (rmem_open(argv[1], NULL, &writer) || rmem_open(argv[1], NULL, &reader) ||
	    rmem_alloc(writer, &params, &mine) ||
	    rmem_attach(reader, name, RMEM_READ, &theirs) || rmem_watch(theirs))
		fail();
	messages_write(mine);
	messages_read(reader, theirs);
	if (rmem_destroy(mine))
		fail();
	rmem_close(reader);
	rmem_close(writer);
	(void)printf("notify: OK\n");
	return EXIT_SUCCESS;
}
