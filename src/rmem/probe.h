/* SPDX-License-Identifier: BSD-3-Clause */
/* A probe from end to end over one fabric: a session is opened, a small lease written and read.
 * Each step is timed.  Threads: [main]. */
#ifndef RMEM_PROBE_H
#define RMEM_PROBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rmem/rmem.h>

enum probe_step {
	PROBE_RESOLVE,
	PROBE_CONNECT,
	PROBE_SECURE, /* TLS; left out without */
	PROBE_WELCOME,
	PROBE_CHANNEL,
	PROBE_LEASE,
	PROBE_WRITE,
	PROBE_READ,
	PROBE_COMPARE,
	PROBE_FREE,
	PROBE_STEPS
};

struct probe {
	const char *fabric;
	uint64_t taken_ns[PROBE_STEPS]; /* 0: the step was not reached, or left out */
	uint64_t total_ns;
	int err; /* 0: all steps are done; else err_text() of that time is in `text` */
	char text[512];
	enum probe_step failed; /* if err */
	char server[96], device[128];
	enum rmem_auth auth;
	uint64_t last_ns;        /* end of the last step */
	enum probe_step reached; /* of rmem_open(): the next step */
};

/* Probe over "rdma" or "tcp". */
void probe_run(struct probe *probe, const char *fabric);

/* "write" */
const char *probe_step_name(enum probe_step step);
void probe_print(const struct probe *probe, FILE *out);
/* NULL: no memory. */
json_t *probe_json(const struct probe *probe);

#endif
