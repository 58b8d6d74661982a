/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of tcp.sh, and the server that two of them need.
 *
 *     tcp serve ADDRESS PORT
 *     tcp bare ADDRESS PORT read|write BYTES DEPTH MILLISECONDS
 *         requests and responses as long as those of an operation of rmem over TCP
 *     tcp stream ADDRESS PORT read|write BYTES DEPTH MILLISECONDS
 *         bytes in one direction; BYTES counts as an operation
 *     tcp memcached ADDRESS PORT read|write BYTES DEPTH MILLISECONDS
 *         get or set of one key in memcached's text protocol
 *
 * A client sends DEPTH requests, waits for all responses, and sends again, as redis-benchmark
 * does.  Each of the DEPTH operations has its own memory, as with rmem: more of them do not fit the
 * caches.  It prints "OPERATIONS SECONDS NANOSECONDS", the last the median from sending to the
 * responses. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/tcp/stream.h"
#include "rmem/histogram.h"
#include "tcp.h"

#define PATIENCE_SECONDS 30 /* until the next bytes */
#define TEXT_BYTES 64

struct client {
	int fd;
	bool read;
	uint64_t bytes; /* of an operation */
	uint64_t depth;
	uint64_t duration_ns;
	char *requests;        /* depth of them */
	size_t request_bytes;  /* of one */
	size_t response_bytes; /* of one */
	char *memory;          /* for depth responses, or of a stream */
	uint64_t operations;
	struct histogram latency_ns;
};

void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

void *block_new(size_t bytes)
{
	void *block = malloc(bytes);

	need(block != NULL, "malloc");
	memset(block, 'x', bytes);
	return block;
}

int all_send(int fd, const void *data, size_t bytes)
{
	for (const char *at = data; bytes > 0;) {
		ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);

		if (n <= 0)
			return -1;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int all_receive(int fd, void *data, size_t bytes)
{
	for (char *at = data; bytes > 0;) {
		ssize_t n = recv(fd, at, bytes, 0);

		if (n == 0)
			errno = ECONNRESET;
		if (n <= 0)
			return -1;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

void nodelay_set(int fd)
{
	int on = 1;

	need(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0,
	     "TCP_NODELAY");
}

static void client_connect(struct client *client, const struct sockaddr_in *address)
{
	struct timeval patience = { .tv_sec = PATIENCE_SECONDS };

	client->fd = socket(AF_INET, SOCK_STREAM, 0);
	need(client->fd >= 0, "socket");
	need(connect(client->fd, (const struct sockaddr *)address, sizeof(*address)) ==
		     0,
	     "connect");
	nodelay_set(client->fd);
	need(setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
			sizeof(patience)) == 0,
	     "SO_RCVTIMEO");
}

/* The requests are copies of one: its head, the bytes of a write, its tail. */
static void requests_make(struct client *client, const char *head, size_t head_bytes,
			  const char *tail)
{
	size_t payload = client->read ? 0 : client->bytes, tail_bytes = strlen(tail);

	client->request_bytes = head_bytes + payload + tail_bytes;
	client->requests = block_new(client->depth * client->request_bytes);
	for (size_t i = 0; i < client->depth; i++) {
		char *request = client->requests + i * client->request_bytes;

		memcpy(request, head, head_bytes);
		memcpy(request + head_bytes + payload, tail, tail_bytes);
	}
}

static void bare_make(struct client *client)
{
	struct stream_request head = { 0 };
	struct exchange exchange;

	requests_make(client, (const char *)&head, sizeof(head), "");
	client->response_bytes =
		sizeof(struct stream_response) + (client->read ? client->bytes : 0);
	exchange = (struct exchange){ client->request_bytes, client->response_bytes };
	need(all_send(client->fd, &exchange, sizeof(exchange)) == 0, "send");
}

/* ---- memcached ---- */

/* Send one request and check the start of its response, whose length is known. */
static void memcached_try(struct client *client, const char *expected)
{
	char *response = block_new(client->response_bytes);

	need(all_send(client->fd, client->requests, client->request_bytes) == 0,
	     "memcached: send");
	/* an error is shorter, and only the first line matters */
	need(all_receive(client->fd, response, strlen(expected)) == 0,
	     "memcached: receive");
	if (memcmp(response, expected, strlen(expected)) != 0) {
		(void)fprintf(stderr, "memcached answers '%.*s', not '%s'\n",
			      (int)strlen(expected), response, expected);
		exit(1);
	}
	need(all_receive(client->fd, response,
			 client->response_bytes - strlen(expected)) == 0,
	     "memcached: receive");
	free(response);
}

static void memcached_make(struct client *client)
{
	char head[TEXT_BYTES], expected[TEXT_BYTES];
	bool read = client->read;

	client->read = false; /* the key exists before it is read */
	(void)snprintf(head, sizeof(head), "set rmem 0 0 %zu\r\n",
		       (size_t)client->bytes);
	requests_make(client, head, strlen(head), "\r\n");
	client->response_bytes = strlen("STORED\r\n");
	memcached_try(client, "STORED\r\n");
	if (!read)
		return;
	client->read = true;
	free(client->requests);
	(void)snprintf(expected, sizeof(expected), "VALUE rmem 0 %zu\r\n",
		       (size_t)client->bytes);
	requests_make(client, "get rmem", strlen("get rmem"), "\r\n");
	client->response_bytes =
		strlen(expected) + client->bytes + strlen("\r\nEND\r\n");
	memcached_try(client, expected);
}

/* ---- measuring ---- */

static void exchange_measure(struct client *client, uint64_t start_ns)
{
	for (uint64_t now_ns = start_ns, sent_ns;
	     now_ns - start_ns < client->duration_ns;) {
		sent_ns = now_ns;
		need(all_send(client->fd, client->requests,
			      client->depth * client->request_bytes) == 0,
		     "send");
		need(all_receive(client->fd, client->memory,
				 client->depth * client->response_bytes) == 0,
		     "receive");
		now_ns = clock_now_ns();
		client->operations += client->depth;
		histogram_add(&client->latency_ns, now_ns - sent_ns);
	}
}

static void stream_measure(struct client *client, uint64_t start_ns)
{
	struct exchange exchange =
		client->read ? (struct exchange){ 0, 1 } : (struct exchange){ 1, 0 };
	uint64_t bytes = 0, room = client->depth * client->bytes, at = 0;

	need(all_send(client->fd, &exchange, sizeof(exchange)) == 0, "send");
	while (clock_now_ns() - start_ns < client->duration_ns) {
		size_t most = room - at < BLOCK_BYTES ? room - at : BLOCK_BYTES;
		ssize_t n = client->read
				    ? recv(client->fd, client->memory + at, most, 0)
				    : send(client->fd, client->memory + at, most,
					   MSG_NOSIGNAL);

		need(n > 0, client->read ? "receive" : "send");
		bytes += (uint64_t)n;
		at = (at + (uint64_t)n) % room;
	}
	client->operations = bytes / client->bytes;
}

static int client_run(struct client *client, const char *mode)
{
	uint64_t start_ns;

	if (strcmp(mode, "bare") == 0)
		bare_make(client);
	else if (strcmp(mode, "memcached") == 0)
		memcached_make(client);
	else if (strcmp(mode, "stream") != 0)
		return -1;
	client->memory = block_new(client->depth * (client->response_bytes
							    ? client->response_bytes
							    : client->bytes));
	start_ns = clock_now_ns();
	if (client->requests)
		exchange_measure(client, start_ns);
	else
		stream_measure(client, start_ns);
	(void)printf("%llu %.6f %llu\n", (unsigned long long)client->operations,
		     (double)(clock_now_ns() - start_ns) / 1e9,
		     (unsigned long long)histogram_quantile(&client->latency_ns, 0.5));
	free(client->requests);
	free(client->memory);
	return close(client->fd);
}

int main(int argc, char **argv)
{
	static struct client client;
	struct sockaddr_in address = { .sin_family = AF_INET };

	if ((argc == 4 || argc == 8) &&
	    inet_pton(AF_INET, argv[2], &address.sin_addr) == 1) {
		address.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
		if (argc == 4 && strcmp(argv[1], "serve") == 0)
			serve(&address);
		if (argc == 8) {
			client.read = strcmp(argv[4], "read") == 0;
			client.bytes = strtoull(argv[5], NULL, 10);
			client.depth = strtoull(argv[6], NULL, 10);
			client.duration_ns = strtoull(argv[7], NULL, 10) * 1000000;
			client_connect(&client, &address);
			if (client.bytes && client.depth &&
			    client_run(&client, argv[1]) == 0)
				return 0;
		}
	}
	(void)fprintf(stderr, "usage: tcp serve|bare|stream|memcached ADDRESS PORT "
			      "[read|write BYTES DEPTH MILLISECONDS]\n");
	return 2;
}
