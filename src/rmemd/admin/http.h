/* SPDX-License-Identifier: BSD-3-Clause */
/* An HTTP server of the daemon on a listening socket: libevent's, with limits on what its clients
 * can take.  Requests and their headers are short, a connection that does nothing is closed, as is
 * one that sends more than is read, and one more connection than there are slots closes the
 * oldest.  Threads: [loop].  Never blocks it. */
#ifndef RMEMD_ADMIN_HTTP_H
#define RMEMD_ADMIN_HTTP_H

#include <event2/event.h>
#include <event2/http.h>
#include <stdbool.h>
#include <stdint.h>

/* Connections of one server. */
#define HTTP_CONNECTIONS_MAX 32

/* libevent has no names for these. */
#define HTTP_FORBIDDEN 403
#define HTTP_CONFLICT 409

#define HTTP_TYPE_JSON "application/json"
#define HTTP_TYPE_JSON_LINES "application/x-ndjson"
#define HTTP_TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

struct http_server;

/* Serve on a listening socket, which stays the caller's; borrows base.  on_request() answers each
 * request, of any method.  *n_refused, which is borrowed, counts the connections that sent more
 * than is read.  -ENOMEM */
int http_open(struct event_base *base, int fd,
	      void (*on_request)(struct evhttp_request *request, void *ctx), void *ctx,
	      uint64_t *n_refused, struct http_server **ret_server);
/* Closes connections, not the socket.  NULL: nothing. */
void http_close(struct http_server *server);

/* Call closed(ctx) when the request's connection ends; NULL: do not.  -ENOMEM: it would not be
 * told. */
int http_on_close(struct evhttp_request *request, void (*closed)(void *ctx), void *ctx);
/* The path of the request, or NULL. */
const char *http_path(const struct evhttp_request *request);
/* Whether it only reads; HEAD too. */
bool http_reads(const struct evhttp_request *request);
/* Set the headers of an answer of this type, which is not to be stored.  -1: no memory */
int http_set_type(struct evhttp_request *request, const char *type);
/* Answer a request that would have to read, and does not. */
void http_refuse_method(struct evhttp_request *request);
void http_send_no_memory(struct evhttp_request *request);
/* Answer with one line of text. */
void http_send_error(struct evhttp_request *request, int code, const char *reason,
		     const char *text);

#endif
