/* SPDX-License-Identifier: BSD-3-Clause */
/* A server of the tcp fabric with one session and one mr, and raw clients that send
 * arbitrary bytes at any time.  Any failure here fails the running case.  Threads: the
 * case's own, which is the server's loop. */
#ifndef TESTS_UNIT_FABRIC_TCP_HOST_H
#define TESTS_UNIT_FABRIC_TCP_HOST_H

#include "fabric/tcp/stream.h"
#include "unit/fabric/server-events.h"

#define RW (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)
#define WAIT_MS 20000
#define BACKLOG 4
#define AREA (4u << 20) /* bytes of memory, of which the middle half is registered */
#define MIDDLE (AREA / 2)
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The part of a daemon that the cases need; events are in `seen`. */
struct host {
	struct fabric_server *server;
	uint16_t port;
	uint8_t token[FABRIC_TOKEN_BYTES]; /* of session 1 */
	const char *refusal;               /* why others are refused */
	uint8_t tls_key[FABRIC_TLS_KEY_BYTES];
	struct fabric_session *session;
	struct fabric_mr *mr;
	char *area, *memory; /* memory: the middle of area */
};
extern struct host host;
extern const struct fabric_server_ops *ops;

/* Fixtures: two data threads, or one; the same with TLS. */
void host_open(void);
void host_open_one(void);
void host_open_tls(void);
void host_open_tls_one(void);
/* Close the server and check that no byte outside of the mr was written. */
void host_close(void);
/* Wait until the server has work, and process it. */
void host_process_next(void);
/* Process until *count, a member of `seen`, is at least `wanted`. */
void host_await(const unsigned *count, unsigned wanted);
/* Register all of host.memory again: host.mr, seen.key. */
void host_register(void);
/* Deregister an mr; seen.deregistered counts it now, or by an event later. */
void host_deregister(struct fabric_mr *mr);
struct fabric_endpoint_stats host_stats(void);
/* Check that a new client is served. */
void host_check_serves(void);

/* Connect a raw client's socket; -1 with errno when nothing listens. */
int raw_connect_to(int family, uint16_t port);
int raw_connect(void);
void raw_send(int fd, const void *data, size_t bytes);
/* Send each byte with a call of its own. */
void raw_send_bytes(int fd, const void *data, size_t bytes);
void raw_recv(int fd, void *data, size_t bytes);
/* Expect the end of the stream, or a reset, without another byte. */
void raw_expect_end(int fd);
/* Close in order, or with a reset. */
void raw_close(int fd, bool reset);
/* Close in order, and wait until `downs` channels have ended. */
void raw_close_await(int fd, unsigned downs);
/* A valid hello for channel 5. */
void raw_hello(uint8_t buf[FABRIC_HELLO_BYTES]);
/* Wait for the status and return it. */
uint32_t raw_status(int fd);
/* Connect with a valid hello; the channel is up. */
int raw_channel_open(void);
/* A request for memory of the mr. */
struct stream_request request(uint32_t op, uint64_t offset, uint32_t bytes,
			      uint64_t cookie);
void raw_request(int fd, uint32_t op, uint64_t offset, uint32_t bytes, uint64_t cookie);
/* Expect a response. */
void raw_expect(int fd, uint32_t status, uint32_t bytes, uint64_t cookie);
/* Expect a response with a word of data; returns it. */
uint64_t raw_expect_word(int fd, uint64_t cookie);
/* Read a byte. */
char raw_read_byte(int fd, uint64_t offset);

#endif
