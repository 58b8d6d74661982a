/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of sessions share: one session with the scripted server. */
#ifndef TESTS_UNIT_LIBRMEM_CLIENT_H
#define TESTS_UNIT_LIBRMEM_CLIENT_H

#include <rmem/rmem.h>

#include "base/clock.h"
#include "unit/librmem/fake-fabric.h"
#include "unit/librmem/librmem-server.h"
#include "unit/unit.h"

extern char uri[80];
extern rmem *client;
extern unsigned char buf[4096];

/* Fixtures: the server runs; nothing of the fabric is left. */
void client_setup(void);
void client_teardown(void);

/* These fail the test when they do not succeed. */
void open_with(unsigned flags);
rmem_lease *alloc(uint64_t bytes, const char *name);
/* A thread that makes a queue; arg: where it is put. */
void *queue_make(void *arg);
struct rmem_info info(void);
/* Let the server have two RDMA endpoints beside its first. */
void serve_rdma(void);

/* Let a little time pass between looks at something no descriptor tells of. */
void breathe(void);

#define AWAIT(condition)                                                          \
	do {                                                                      \
		uint64_t until_ = clock_now_ms() + 10000;                         \
		while (!(condition)) {                                            \
			ck_assert_msg(clock_now_ms() < until_, "%s", #condition); \
			breathe();                                                \
		}                                                                 \
	} while (0)

#endif
