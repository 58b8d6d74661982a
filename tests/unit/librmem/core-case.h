/* SPDX-License-Identifier: BSD-3-Clause */
/* One session with the daemon's core through the proxy, for the tests of sessions. */
#ifndef TESTS_UNIT_CORE_CASE_H
#define TESTS_UNIT_CORE_CASE_H

#include <pthread.h>
#include <rmem/rmem.h>

#include "base/clock.h"
#include "unit/librmem/daemon-core.h"
#include "unit/librmem/fake-fabric.h"
#include "unit/librmem/fake-server.h"
#include "unit/librmem/proxy.h"
#include "unit/unit.h"

struct core_stage {
	char uri[80]; /* of the proxy */
	rmem *client; /* NULL: not open */
	rmem_queue *queue;
	unsigned char buf[4096]; /* for the bytes of operations */
};
extern struct core_stage stage;

/* A case whose setup starts the core and the proxy, with a TCP endpoint.  Its teardown closes the
 * session and checks that the client's fabric has no objects left. */
TCase *core_case(const char *name);

/* Before the first session: serve n RDMA endpoints too, of the devices fake0, fake1 and so on. */
void serve_devices(unsigned n);
/* Serve the endpoints of fake0 and fake1. */
void serve_rdma(void);
/* Serve the endpoints of fake0 and fake1, with a pool for each that is lent only through it. */
void serve_sole_rdma(void);
/* The times of sessions that are opened from now on. */
void set_heartbeat(unsigned heartbeat_ms, unsigned fence_ms);
void server_stop(void);
/* Start another core at the same port, with the state of the last one. */
void server_start(void);
void server_restart(void);
/* Stop the core, and start another one without state. */
void server_restart_empty(void);

/* These fail the test when they do not succeed. */
void open_with(unsigned flags);
/* Open the session, which uses this fabric. */
void open_over(unsigned flags, enum rmem_fabric fabric);
/* Close the session before the teardown does. */
void client_close(void);
rmem_lease *alloc(uint64_t bytes, const char *name);
/* Open the session, and allocate a lease of 1000 bytes without a name. */
rmem_lease *open_with_lease(unsigned flags);
/* Open another session, past the proxy; options: the end of its URI. */
rmem *open_another(const char *options);
/* Create the queue; returns the result of rmem_queue_create(). */
int queue_result(unsigned channels);
void queue_open(unsigned channels);
/* Submit a write to the lease. */
void submit_write(rmem_lease *lease);
/* Wait for one completion; returns its status. */
int wait_status(void);
/* Submit a write, and wait; returns its status. */
int queue_write(rmem_lease *lease);
/* A thread that creates the queue. */
void *run_queue_open(void *arg);
struct rmem_info info_of(rmem *session);
/* Of the client. */
struct rmem_info info(void);

/* Open the session with this time-out of its calls; returns the result of rmem_open(). */
int open_within(unsigned flags, unsigned timeout_ms);
/* For proxy.edit: the welcome grants no channel. */
void edit_no_channel(struct wire_msg *msg);

/* Sleep between two checks of a state that no descriptor reports. */
void sleep_1ms(void);

#define AWAIT(condition) AWAIT_FOR(10000, condition)
#define AWAIT_LONG(condition) AWAIT_FOR(30000, condition)
#define AWAIT_FOR(ms, condition)                                                  \
	do {                                                                      \
		uint64_t until_ = clock_now_ms() + (ms);                          \
		while (!(condition)) {                                            \
			ck_assert_msg(clock_now_ms() < until_, "%s", #condition); \
			sleep_1ms();                                              \
		}                                                                 \
	} while (0)

#endif
