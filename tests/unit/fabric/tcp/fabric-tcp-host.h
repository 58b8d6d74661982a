/* SPDX-License-Identifier: BSD-3-Clause */
/* A tcp fabric's server with one session and one mr, and raw clients that say what
 * they like, when they like, for the tests that mean it no good.  Everything that goes
 * wrong here fails the running case.
 * Threads: the case's own, which is the server's loop. */
#ifndef TESTS_UNIT_FABRIC_TCP_HOST_H
#define TESTS_UNIT_FABRIC_TCP_HOST_H

#include "fabric/fabric.h"
#include "fabric/tcp/stream.h"

#define RW (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)
#define WAIT_MS 20000
#define BACKLOG 4
#define AREA (4u << 20) /* of memory; the middle half of it is exposed */
#define MIDDLE (AREA / 2)

/* The daemon, as far as this needs one. */
struct host {
	struct fabric_server *server;
	uint16_t port;
	uint8_t token[FABRIC_TOKEN_BYTES]; /* of session 1 */
	struct fabric_session *session;
	/* what was reported, how often; why: of the last channel */
	unsigned ups, downs, closed, exposed, withdrawn, news, notified;
	unsigned note_ms; /* what taking a notification takes */
	char why[FABRIC_TEXT_MAX];
	struct fabric_key key;
	struct fabric_mr *mr;
	char *area, *memory; /* memory: the middle of area */
};
extern struct host host;
extern const struct fabric_server_ops *ops;
extern const struct fabric_server_events host_events;

/* Fixtures: two data threads, or one. */
void host_open(void);
void host_open_one(void);
/* Ends the server and checks that nothing but what was exposed was touched. */
void host_close(void);
/* Let the server work until *what, a count in host, is at least `wanted`. */
void host_await(const unsigned *what, unsigned wanted);
struct fabric_endpoint_stats host_stats(void);
/* A new client is served. */
void host_is_well(void);
bool area_is(const char *from, size_t bytes, char value);

/* A raw client's socket; -1 and errno where there is nobody. */
int raw_connect_to(int family, uint16_t port);
int raw_connect(void);
void raw_send(int fd, const void *data, size_t bytes);
void raw_recv(int fd, void *data, size_t bytes);
/* The server ends the stream: with or without a reset, but with no byte more. */
void raw_expect_end(int fd);
/* Close in order, or with a reset. */
void raw_close(int fd, bool reset);
/* The right hello, for channel 5. */
void raw_hello(uint8_t buf[FABRIC_HELLO_BYTES]);
/* Wait for the status and return it. */
uint32_t raw_status(int fd);
/* Connect and be admitted. */
int raw_join(void);
/* A request for the mr's memory. */
struct stream_request request(uint32_t op, uint64_t offset, uint32_t bytes,
			      uint64_t cookie);
void raw_request(int fd, uint32_t op, uint64_t offset, uint32_t bytes, uint64_t cookie);
void raw_expect(int fd, uint32_t status, uint32_t bytes, uint64_t cookie);

#endif
