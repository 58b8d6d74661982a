/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of one server: it is begun when the server's session is there, and requests come to an
 * end.  Threads: [owner] of the cache. */
#ifndef CACHE_WORK_H
#define CACHE_WORK_H

#include "cache/request.h"

/* What a link has made at the server. */
struct opened {
	rmem *session;
	rmem_lease *lease;
	rmem_queue *queue;
	rmem_buffer *buffer;
	struct scratch *scratch; /* in it; scratch_bytes() */
	struct geometry geometry;
	uint32_t client;
	int64_t clock_ms; /* cache time less the time of this host */
	uint64_t claim_ms, rest_ms;
	bool read_only;
};

/* -ENOMEM */
int server_init(struct server *server, uint64_t places);
/* The queue has ended, or the server is down.  Requests are the caller's. */
void server_free(struct server *server);

/* The session is there.  -ENOMEM: it cannot be used. */
int server_begin(struct server *server, const struct opened *opened);
/* Whether the server is asked at all. */
bool server_answers(const struct server *server);
/* A request for this server, which may be down. */
void server_request(struct server *server, struct request *request);
/* Write and submit what was gathered. */
void server_flush(struct server *server);
/* Go on.  Returns whether anything was done. */
bool server_poll(struct server *server);
/* Whether the session was lost and nothing is outstanding any more: then server_end(). */
bool server_is_over(const struct server *server);
/* Nothing is outstanding: forget the session. */
void server_end(struct server *server, const char *reason);
/* Before the session is closed: leave the open segments to others.  Call server_poll() until
 * server_is_quiet(). */
void server_leave(struct server *server);
static inline bool server_is_quiet(const struct server *server)
{
	return server->io.outstanding == 0;
}

#endif
