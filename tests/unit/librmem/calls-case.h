/* SPDX-License-Identifier: BSD-3-Clause */
/* An object for calls beside the client of core-case.h. */
#ifndef TESTS_UNIT_CALLS_CASE_H
#define TESTS_UNIT_CALLS_CASE_H

#include "unit/librmem/core-case.h"

#define CALLS_CASE_MAX 300

extern rmem_calls *calls;
/* Those that take() has taken. */
extern struct rmem_answer answers[CALLS_CASE_MAX];

/* core_case() with `calls`, which a test may free, and sets to NULL then. */
TCase *calls_case(const char *name);

/* Of the client; an attach is for reading and writing. */
struct rmem_request on_session(enum rmem_call call, const char *name, uint64_t cookie);
/* The cookie is the call. */
struct rmem_request on_lease(enum rmem_call call, rmem_lease *lease, uint64_t value);
/* RMEM_CALL_OPEN at the proxy. */
struct rmem_request opening(uint64_t cookie);

/* These fail the test when they do not succeed. */
void begin(const struct rmem_request *requests, unsigned n);
void begin_one(struct rmem_request request);
/* Allocate 1000 bytes; the cookie is 1. */
void begin_alloc(const char *name, unsigned flags);
/* Wait for n answers. */
void take(unsigned n);
/* Wait for one of this status. */
const struct rmem_answer *take_one(int status);

bool is_readable(int timeout_ms);
/* Those that have attached the lease. */
unsigned sessions_of(const char *name);

#endif
