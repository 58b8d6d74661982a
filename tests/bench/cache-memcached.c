/* SPDX-License-Identifier: BSD-3-Clause */
/* memcached's text protocol: one get of all keys, sets one behind the other.  Values go to and from
 * their places without a copy. */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench/cache.h"

#define AHEAD 65536u
#define LINE 64u

struct memcached {
	int fd;
	size_t from, to; /* of what was read ahead */
	char ahead[AHEAD];
};

static void *store_open(unsigned port, uint64_t capacity)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct memcached *m = calloc(1, sizeof(*m));
	int one = 1;

	(void)capacity;
	if (!m)
		err(1, "memcached");
	m->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (m->fd < 0 ||
	    connect(m->fd, (const struct sockaddr *)&address, sizeof(address)) ||
	    setsockopt(m->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		err(1, "memcached");
	return m;
}

static void send_all(const struct memcached *m, struct iovec *iov, unsigned n)
{
	while (n) {
		ssize_t sent = writev(m->fd, iov, (int)n);

		if (sent <= 0)
			err(1, "memcached: send");
		for (; n && (size_t)sent >= iov->iov_len; iov++, n--)
			sent -= (ssize_t)iov->iov_len;
		if (n) {
			iov->iov_base = (char *)iov->iov_base + sent;
			iov->iov_len -= (size_t)sent;
		}
	}
}

/* Take bytes of the answer; they and what comes behind them are received at once. */
static void take(struct memcached *m, void *dst, size_t bytes)
{
	char *at = dst;

	while (bytes) {
		size_t n = m->to - m->from;
		ssize_t got;

		if (n) {
			n = n < bytes ? n : bytes;
			memcpy(at, m->ahead + m->from, n);
			m->from += n;
		} else {
			struct iovec iov[2] = { { at, bytes }, { m->ahead, AHEAD } };

			got = readv(m->fd, iov, 2);
			if (got <= 0)
				err(1, "memcached: receive");
			n = (size_t)got < bytes ? (size_t)got : bytes;
			m->from = 0;
			m->to = (size_t)got - n;
		}
		at += n;
		bytes -= n;
	}
}

static void take_line(struct memcached *m, char *line)
{
	unsigned n = 0;

	do {
		if (n == LINE - 1)
			errx(1, "memcached: a line without an end");
		if (m->from < m->to)
			line[n++] = m->ahead[m->from++];
		else
			take(m, &line[n++], 1);
	} while (line[n - 1] != '\n');
	line[n] = '\0';
}

static void store_get(void *store, struct block *blocks, unsigned n)
{
	char request[BATCH * (KEY_BYTES + 1) + 8] = "get", line[LINE], end[2];
	struct memcached *m = store;
	size_t bytes = strlen(request);
	struct iovec iov;

	for (unsigned i = 0; i < n; i++) {
		blocks[i].hit = false;
		request[bytes++] = ' ';
		memcpy(request + bytes, blocks[i].key, KEY_BYTES);
		bytes += KEY_BYTES;
	}
	memcpy(request + bytes, "\r\n", 2);
	iov = (struct iovec){ request, bytes + 2 };
	send_all(m, &iov, 1);
	for (unsigned i = 0;;) {
		take_line(m, line);
		if (strcmp(line, "END\r\n") == 0)
			return;
		/* answers come in the order of the keys */
		while (i < n &&
		       memcmp(line + strlen("VALUE "), blocks[i].key, KEY_BYTES) != 0)
			i++;
		if (i == n)
			errx(1, "memcached: %s", line);
		take(m, blocks[i].value, blocks[i].bytes);
		take(m, end, sizeof(end));
		blocks[i++].hit = true;
	}
}

static void store_put(void *store, struct block *blocks, unsigned n)
{
	char heads[BATCH][LINE], line[LINE];
	struct iovec iov[3 * BATCH], end = { (char[]){ "\r\n" }, 2 };
	struct memcached *m = store;

	for (unsigned i = 0; i < n; i++) {
		int bytes = snprintf(heads[i], LINE, "set %s 0 0 %u\r\n", blocks[i].key,
				     blocks[i].bytes);

		iov[3 * i] = (struct iovec){ heads[i], (size_t)bytes };
		iov[3 * i + 1] =
			(struct iovec){ blocks[i].value, (size_t)blocks[i].bytes };
		iov[3 * i + 2] = end;
	}
	send_all(m, iov, 3 * n);
	for (unsigned i = 0; i < n; i++) {
		take_line(m, line);
		if (strcmp(line, "STORED\r\n") != 0)
			errx(1, "memcached: %s", line);
	}
}

const struct store store_memcached = { "memcached", store_open, store_get, store_put };
