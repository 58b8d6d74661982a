/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/work.h"

#include <errno.h>
#include <stdio.h>

#include "cache/append.h"
#include "cache/delete.h"
#include "cache/get.h"
#include "cache/parts.h"

#define PAUSE_MAX_MS 30000u
#define HINT_SHARE \
	2 /* one of so many hits of a block below its limit is written down */

int server_init(struct server *server, uint64_t places)
{
	*server = (struct server){
		.pause = BACKOFF_INIT(PAUSE_MAX_MS),
		.random = random_u64(),
		.next_value = random_u64(),
		.hint_share = HINT_SHARE,
	};
	list_init(&server->waiting);
	list_init(&server->placing);
	list_init(&server->finished);
	list_init(&server->all_claims);
	list_init(&server->all_appends);
	if (io_init(&server->io, &server->counters))
		return -ENOMEM;
	if (known_init(&server->known, places)) {
		io_free(&server->io);
		return -ENOMEM;
	}
	policy_init(&server->policy);
	return 0;
}

void server_free(struct server *server)
{
	policy_free(&server->policy);
	server->scratch = NULL;
	appends_forget(server);
	claims_forget(server);
	table_free(&server->table);
	known_free(&server->known);
	io_free(&server->io);
}

int server_begin(struct server *server, const struct opened *opened)
{
	if (table_init(&server->table, opened->geometry.segments))
		return -ENOMEM;
	server->geometry = opened->geometry;
	server->client = opened->client;
	server->clock_ms = opened->clock_ms;
	server->claim_ms = opened->claim_ms;
	server->rest_ms = opened->rest_ms;
	server->read_only = opened->read_only;
	server->scratch = opened->scratch;
	server->free_pieces = scratch_init(opened->scratch);
	server->n_requests = server->n_appends = server->n_claims = 0;
	server->room = (struct room){ 0 };
	server->evict = (struct evict){ 0 };
	server->refresh = (struct task){ 0 };
	server->io.queue = opened->queue;
	server->io.lease = opened->lease;
	server->io.buffer = opened->buffer;
	server->io.lost = false;
	server->io.slow = 0;
	server->io.text[0] = '\0';
	server->silent = false;
	server->up = true;
	return 0;
}

/* ---- requests ---- */

bool server_answers(const struct server *server)
{
	return server->up && !server->io.lost && !server->silent;
}

static void request_unreachable(struct request *r)
{
	bool puts = r->opcode == RMEM_CACHE_PUT || r->opcode == RMEM_CACHE_DELETE;

	request_end(r, puts ? RMEM_CACHE_FAILED : RMEM_CACHE_MISSING, -EHOSTUNREACH,
		    "%s",
		    r->server->reason[0] ? r->server->reason
					 : "the server is not open yet");
}

static bool request_is_allowed(struct request *r)
{
	const struct geometry *geometry = &r->server->geometry;

	if (r->opcode != RMEM_CACHE_PUT && r->opcode != RMEM_CACHE_DELETE)
		return true;
	if (r->server->read_only) {
		request_end(r, RMEM_CACHE_FAILED, -EROFS, "the client only reads");
		return false;
	}
	/* a value of half of the segments would evict itself */
	if (r->opcode == RMEM_CACHE_PUT &&
	    r->bytes > ((uint64_t)geometry->segments << geometry->segment_bits) / 2) {
		request_end(r, RMEM_CACHE_FAILED, -EFBIG,
			    "not stored: %llu bytes are more than half of the cache",
			    (unsigned long long)r->bytes);
		return false;
	}
	return true;
}

/* Begin, with a piece. */
static void request_begin(struct request *r)
{
	struct server *server = r->server;
	const struct place *known;

	r->piece = piece_take(server);
	server->n_requests++;
	switch (r->opcode) {
	case RMEM_CACHE_GET:
	case RMEM_CACHE_EXISTS:
		get_start(r);
		break;
	case RMEM_CACHE_DELETE:
		delete_start(r);
		break;
	case RMEM_CACHE_PUT:
		known = known_find(&server->known, r->hash);
		r->class = policy_class(&server->policy, &server->table,
					known && known->ghost);
		list_append(&server->placing, &r->link);
		break;
	}
}

/* Begin those that there are pieces for. */
static void waiting_begin(struct server *server)
{
	while (!list_empty(&server->waiting) && server->n_requests < SCRATCH_REQUESTS) {
		struct request *r = list_first(&server->waiting, struct request, link);

		list_remove(&r->link);
		if (server_answers(server))
			request_begin(r);
		else
			request_unreachable(r);
	}
}

/* Cache time after so many milliseconds; 0: never. */
static uint64_t expiry_of(const struct server *server, uint64_t ttl_ms)
{
	uint64_t now_ms = server_now_ms(server);

	return ttl_ms && ttl_ms <= UINT64_MAX - now_ms ? now_ms + ttl_ms : 0;
}

void server_request(struct server *server, struct request *r)
{
	r->server = server;
	if (!server_answers(server)) {
		request_unreachable(r);
		return;
	}
	if (!request_is_allowed(r))
		return;
	r->bucket_at = geometry_bucket_at(&server->geometry, r->hash);
	if (r->opcode == RMEM_CACHE_PUT) {
		r->value_id = (uint64_t)server->client << 44 |
			      (++server->next_value & ((UINT64_C(1) << 44) - 1));
		r->expiry_ms = expiry_of(server, r->expiry_ms);
	}
	if (!parts_needed(r)) {
		r->whole_bytes = r->bytes;
		r->parts = 1;
		list_append(&server->waiting, &r->link);
	} else if (parts_start(r)) {
		request_end(r, RMEM_CACHE_FAILED, -ENOMEM,
			    "no memory for the parts of the value");
	}
}

/* ---- the table ---- */

static void table_read(struct task *task)
{
	struct server *server = container_of(task, struct server, refresh);

	if (task->err)
		return;
	table_set(&server->table,
		  server->scratch->table + (UINT64_C(8) << server->geometry.table_bits),
		  server->geometry.segments, server->refresh_ms);
	server->silent = false;
	backoff_reset(&server->pause);
}

static bool table_is_due(const struct server *server, uint64_t now_ms)
{
	if (server->silent)
		return now_ms >= server->retry_ms;
	if (!server->table.n)
		return true;
	return server->n_requests && now_ms - server->refresh_ms >= TABLE_MS;
}

/* Read it again from time to time while there are requests, and to see whether a server that did
 * not answer does. */
static void table_refresh(struct server *server)
{
	uint64_t now_ms = clock_now_ms();

	if (server->refresh.pending || !table_is_due(server, now_ms))
		return;
	server->refresh_ms = now_ms;
	task_then(&server->refresh, table_read);
	io_read(&server->io, &server->refresh, FORMAT_TABLE_AT,
		server->scratch->table + (UINT64_C(8) << server->geometry.table_bits),
		UINT64_C(8) * server->geometry.segments);
}

/* ---- */

/* It did not answer: do not let every request find that out. */
static void server_pause(struct server *server)
{
	if (!server->io.slow)
		return;
	server->io.slow = 0;
	if (server->silent && server->refresh.pending)
		return;
	server->silent = true;
	server->retry_ms = clock_now_ms() + backoff_next(&server->pause);
	(void)snprintf(server->reason, sizeof(server->reason), "%s", server->io.text);
}

void server_flush(struct server *server)
{
	if (!server->up)
		return;
	waiting_begin(server);
	append_run(server);
	table_refresh(server);
	io_flush(&server->io);
}

static void requests_fail(struct list *requests)
{
	while (!list_empty(requests)) {
		struct request *r = list_first(requests, struct request, link);

		list_remove(&r->link);
		request_unreachable(r);
	}
}

static void claims_drop(struct server *server)
{
	for (unsigned class = 0; class < SEGMENT_CLASSES; class ++)
		if (server->claims[class])
			claim_drop(server->claims[class]);
}

static void claims_leave(struct server *server)
{
	for (unsigned class = 0; class < SEGMENT_CLASSES; class ++)
		if (server->claims[class])
			claim_leave(server->claims[class], true);
}

bool server_poll(struct server *server)
{
	bool busy;

	if (!server->up)
		return false;
	busy = io_poll(&server->io) > 0;
	server_pause(server);
	if (server->io.lost || rmem_lease_status(server->io.lease)) {
		server->io.lost = true;
		requests_fail(&server->waiting);
		requests_fail(&server->placing);
		claims_drop(server);
		io_flush(&server->io);
	} else {
		if (server->leaving)
			claims_leave(server);
		server_flush(server);
	}
	return busy;
}

bool server_is_over(const struct server *server)
{
	return server->up && server->io.lost && server_is_quiet(server);
}

void server_end(struct server *server, const char *reason)
{
	(void)snprintf(server->reason, sizeof(server->reason), "%s", reason);
	server->up = false;
	server->counters.losses++;
	server->io.queue = NULL;
	server->scratch = NULL;
	table_free(&server->table);
	known_clear(&server->known);
}

void server_leave(struct server *server)
{
	server->leaving = true;
	claims_leave(server);
	server_flush(server);
}
