/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/request.h"

#include <stdarg.h>
#include <stdio.h>

static void request_count(const struct request *request)
{
	struct counters *counters = &request->server->counters;

	if (request->parent)
		return;
	switch (request->outcome) {
	case RMEM_CACHE_HIT:
		counters->hits++;
		break;
	case RMEM_CACHE_MISSING:
		counters->misses++;
		break;
	case RMEM_CACHE_STORED:
		counters->stored++;
		break;
	case RMEM_CACHE_DELETED:
		counters->deleted++;
		break;
	case RMEM_CACHE_FAILED:
		counters->failed++;
		break;
	}
}

void request_release(struct request *request)
{
	if (!request->piece)
		return;
	piece_give(request->server, request->piece);
	request->server->n_requests--;
	request->piece = NULL;
}

void request_end(struct request *request, enum rmem_cache_outcome outcome, int status,
		 const char *fmt, ...)
{
	struct server *server = request->server;
	va_list ap;

	request->outcome = outcome;
	request->status = status;
	if (fmt) {
		va_start(ap, fmt);
		(void)vsnprintf(request->text, sizeof(request->text), fmt, ap);
		va_end(ap);
	}
	if (request->claim)
		claim_unref(request->claim);
	request->claim = NULL;
	request_release(request);
	request_count(request);
	if (request->parent)
		request->part_done(request);
	else
		list_move(&server->finished, &request->link);
}

void request_failed(struct request *request, int err, const char *what)
{
	const char *text = request->server->io.text;
	bool asks = request->opcode == RMEM_CACHE_GET ||
		    request->opcode == RMEM_CACHE_EXISTS;

	/* what cannot be asked is not there */
	request_end(request, asks ? RMEM_CACHE_MISSING : RMEM_CACHE_FAILED, err,
		    "%s: %s", what, text[0] ? text : "the operation failed");
}
