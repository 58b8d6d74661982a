/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: one client each, as one tenant, on one control connection at a time.
 *
 * Any frame is a sign of life.  Without one for fence_ms, or when the connection is
 * lost, the session is fenced: its keys die, its leases stay.  It may be resumed with
 * its token within grace_ms; after that it ends and its ephemeral leases are freed.
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(). */
#ifndef RMEMD_CONTROL_SESSION_H
#define RMEMD_CONTROL_SESSION_H

#include <stdint.h>

struct sessions;

/* A session for people and programs that look on. */
struct session_status {
	uint64_t id;
	const char *tenant;
	const char *client; /* how it calls itself */
	const char
		*peer; /* address:port of its control connection, or of the last one */
	const char *state; /* "active", "fenced" */
	const char
		*fabric; /* "verbs", "tcp", "verbs,tcp"; "" before the first channel */
	uint64_t age_ms;
	uint64_t idle_ms;    /* since its last sign of life */
	unsigned channels;   /* connected */
	unsigned leases;     /* attached */
	uint64_t lent_bytes; /* the lengths of those */
	uint64_t resumes;
};

/* Call each() for every session in the order of their ids, until it returns non-zero,
 * and return that.  The strings are borrowed until each() returns; the table must not
 * change meanwhile. */
int sessions_each(const struct sessions *sessions,
		  int (*each)(const struct session_status *status, void *arg),
		  void *arg);

#endif
