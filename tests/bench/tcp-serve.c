/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of the bare programs. */
#include "tcp.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void only_receive(int fd, void *block)
{
	while (recv(fd, block, BLOCK_BYTES, 0) > 0)
		;
}

static void only_send(int fd, const void *block)
{
	while (send(fd, block, BLOCK_BYTES, MSG_NOSIGNAL) > 0)
		;
}

/* Small responses to requests that came together are sent together. */
static int responses_send(int fd, const void *block, uint64_t bytes)
{
	int err = 0;

	while (!err && bytes > 0) {
		size_t n = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;

		err = all_send(fd, block, n);
		bytes -= n;
	}
	return err;
}

static void answer(int fd, void *block, const struct exchange *exchange)
{
	uint64_t received = 0;
	int err = 0;

	while (!err) {
		ssize_t n = recv(fd, block, BLOCK_BYTES, 0);

		if (n <= 0)
			return;
		received += (uint64_t)n;
		err = responses_send(fd, block,
				     received / exchange->request_bytes *
					     exchange->response_bytes);
		received %= exchange->request_bytes;
	}
}

static void *connection_serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	void *block = block_new(BLOCK_BYTES);
	struct exchange exchange;

	nodelay_set(fd);
	if (all_receive(fd, &exchange, sizeof(exchange)) == 0) {
		if (exchange.response_bytes == 0)
			only_receive(fd, block);
		else if (exchange.request_bytes == 0)
			only_send(fd, block);
		else
			answer(fd, block, &exchange);
	}
	(void)close(fd);
	free(block);
	return NULL;
}

void serve(const struct sockaddr_in *address)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	need(listener >= 0, "socket");
	need(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0,
	     "SO_REUSEADDR");
	need(bind(listener, (const struct sockaddr *)address, sizeof(*address)) == 0,
	     "bind");
	need(listen(listener, SOMAXCONN) == 0, "listen");
	for (;;) {
		pthread_t thread;
		int fd = accept(listener, NULL, NULL);

		need(fd >= 0, "accept");
		need(pthread_create(&thread, NULL, connection_serve,
				    (void *)(intptr_t)fd) == 0,
		     "pthread_create");
		need(pthread_detach(thread) == 0, "pthread_detach");
	}
}
