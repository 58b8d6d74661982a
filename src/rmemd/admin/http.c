/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/http.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/list.h"
#include "fabric/listen.h"
#include "fabric/slots.h"
#include "rmemd/loop/events.h"
#include "rmemd/loop/turn.h"

/* A request is a line and a few headers. */
#define HEADERS_BYTES 8192
#define BODY_BYTES 4096
#define TIMEOUT_S 10
/* More than any request takes, and than one call receives. */
#define INPUT_BYTES 32768
/* Accepted in a row before others get their turn; fewer than there are slots. */
#define ACCEPTS_MAX 8

struct http_server {
	struct http_server *next; /* in `servers` */
	void (*on_request)(struct evhttp_request *request, void *ctx);
	void *ctx;
	uint64_t *n_refused;
	struct event_base *base;
	struct evhttp *http;
	struct evconnlistener *listener; /* owned by http, but not its descriptor */
	struct event *unpause;
	struct event *accepted;
	unsigned n_accepted; /* since the last pause */
	struct slots slots;
};

/* A connection; libevent tells of its end. */
struct http_client {
	struct slot slot;
	struct http_server *server;
	struct bufferevent *buffers; /* referenced until there is the connection */
	struct evhttp_connection *connection; /* NULL: it is being made */
	void (*closed)(void *ctx);
	void *ctx;
};

/* Those of this process: libevent calls some callbacks with an argument of its own. */
static struct http_server *servers;

static struct http_server *server_of(const struct evhttp *http)
{
	struct http_server *server = servers;

	while (server->http != http)
		server = server->next;
	return server;
}

/* ---- what is received ---- */

/* While it answers, libevent receives without an end, as it watches for the end of the connection;
 * so it does until the line with the length of a chunk ends.  What nobody takes fills the buffer:
 * then the connection ends, as if the client had ended it. */
static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *, void *ctx)
{
	struct http_client *client = ctx;

	turn_work();
	if (evbuffer_get_length(input) < INPUT_BYTES)
		return;
	++*client->server->n_refused;
	(void)bufferevent_disable(client->buffers, EV_READ);
	bufferevent_trigger_event(client->buffers, BEV_EVENT_READING | BEV_EVENT_EOF,
				  0);
}

/* What libevent has sent: it goes on with the answer. */
static void on_output(struct evbuffer *, const struct evbuffer_cb_info *, void *)
{
	turn_work();
}

/* ---- connections ---- */

/* A listener that cannot be enabled, for want of memory or of watches of epoll, tries again. */
static void listener_enable(struct http_server *server)
{
	const struct timeval pause = timeval_of_ms(ACCEPT_PAUSE_MS);

	if (evconnlistener_enable(server->listener))
		(void)event_add(server->unpause, &pause);
}

static void listener_pause(struct http_server *server, uint64_t ms)
{
	const struct timeval pause = timeval_of_ms(ms);

	if (evconnlistener_disable(server->listener) == 0 &&
	    event_add(server->unpause, &pause))
		listener_enable(server);
}

static void on_unpause(evutil_socket_t, short, void *ctx)
{
	struct http_server *server = ctx;

	server->n_accepted = 0;
	listener_enable(server);
}

static struct http_client *client_of(struct slot *slot)
{
	return container_of(slot, struct http_client, slot);
}

static void client_free(struct http_client *client)
{
	slot_leave(&client->server->slots, &client->slot);
	free(client);
}

static void on_closed(struct evhttp_connection *, void *ctx)
{
	struct http_client *client = ctx;

	/* of an event of libevent */
	turn_work();
	if (client->closed)
		client->closed(client->ctx);
	client_free(client);
}

/* libevent has made each connection that it has accepted.  If there was no memory for one, the
 * callbacks of its buffers are taken away. */
static void clients_settle(struct http_server *server)
{
	list_for_each_entry_safe(struct slot, slot, &server->slots.taken, link) {
		struct http_client *client = client_of(slot);
		struct bufferevent *buffers = client->buffers;
		bufferevent_event_cb on_event;
		void *connection;

		if (client->connection)
			continue;
		bufferevent_getcb(buffers, NULL, NULL, &on_event, &connection);
		if (on_event) {
			client->connection = connection;
			evhttp_connection_set_closecb(connection, on_closed, client);
		} else {
			client_free(client);
		}
		(void)bufferevent_decref(buffers);
	}
}

static void on_accepted(evutil_socket_t, short, void *ctx)
{
	clients_settle(ctx);
}

/* NULL: no memory */
static struct http_client *client_new(struct http_server *server)
{
	struct http_client *client = calloc(1, sizeof(*client));
	struct bufferevent *buffers = bufferevent_socket_new(server->base, -1, 0);

	if (client && buffers &&
	    evbuffer_add_cb(bufferevent_get_input(buffers), on_input, client) &&
	    evbuffer_add_cb(bufferevent_get_output(buffers), on_output, NULL)) {
		client->server = server;
		client->buffers = buffers;
		return client;
	}
	if (buffers)
		bufferevent_free(buffers);
	free(client);
	return NULL;
}

/* libevent asks for the buffers of a connection that it has accepted; it accepts until there are no
 * more, or until the listener is disabled. */
static struct bufferevent *on_connection(struct event_base *, void *ctx)
{
	const struct fabric_address unknown = { .family = 0 };
	struct http_server *server = ctx;
	struct slots *slots = &server->slots;
	struct http_client *client = client_new(server);

	turn_work();
	if (++server->n_accepted == ACCEPTS_MAX)
		listener_pause(server, 0);
	/* it makes its own, which is not counted; there will hardly be memory for it */
	if (!client)
		return NULL;
	/* without memory it has a slot too */
	(void)slot_wait(slots, &client->slot, &unknown);
	if (slots->n_taken == HTTP_CONNECTIONS_MAX)
		evhttp_connection_free(
			client_of(slots_victim(slots, &client->slot, NULL))
				->connection);
	slot_take(slots, &client->slot);
	bufferevent_incref(client->buffers);
	/* runs before the next poll, so before libevent can close the connection */
	event_active(server->accepted, EV_TIMEOUT, 0);
	return client->buffers;
}

/* Out of descriptors: a connection that cannot be accepted would keep the loop spinning. */
static void on_accept_error(struct evconnlistener *, void *http)
{
	turn_work();
	listener_pause(server_of(http), ACCEPT_PAUSE_MS);
}

/* ---- opening and closing ---- */

static int listener_open(struct http_server *server, int fd)
{
	struct evconnlistener *listener =
		evconnlistener_new(server->base, NULL, NULL,
				   LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED, 0, fd);

	if (!listener)
		return -ENOMEM;
	/* the callback that it lacks is set here */
	if (!evhttp_bind_listener(server->http, listener)) {
		evconnlistener_free(listener);
		return -ENOMEM;
	}
	server->listener = listener;
	evconnlistener_set_error_cb(listener, on_accept_error);
	/* which neither of them would tell */
	return evconnlistener_enable(listener) ? -ENOMEM : 0;
}

static int server_open(struct http_server *server, int fd)
{
	/* all, so that the refusal is ours */
	const ev_uint16_t methods = EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
				    EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
				    EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH;

	server->unpause = event_make(server->base, -1, 0, on_unpause, server);
	server->accepted = event_make(server->base, -1, 0, on_accepted, server);
	server->http = evhttp_new(server->base);
	if (!server->unpause || !server->accepted || !server->http)
		return -ENOMEM;
	evhttp_set_allowed_methods(server->http, methods);
	evhttp_set_gencb(server->http, server->on_request, server->ctx);
	evhttp_set_bevcb(server->http, on_connection, server);
	evhttp_set_max_headers_size(server->http, HEADERS_BYTES);
	evhttp_set_max_body_size(server->http, BODY_BYTES);
	evhttp_set_timeout(server->http, TIMEOUT_S);
	return listener_open(server, fd);
}

int http_open(struct event_base *base, int fd,
	      void (*on_request)(struct evhttp_request *request, void *ctx), void *ctx,
	      uint64_t *n_refused, struct http_server **ret_server)
{
	struct http_server *server = calloc(1, sizeof(*server));
	int err = -ENOMEM;

	if (server) {
		server->base = base;
		server->on_request = on_request;
		server->ctx = ctx;
		server->n_refused = n_refused;
		slots_init(&server->slots);
		server->next = servers;
		servers = server;
		err = server_open(server, fd);
	}
	if (err) {
		http_close(server);
		return err_set(err, "no memory for an HTTP server");
	}
	*ret_server = server;
	return 0;
}

void http_close(struct http_server *server)
{
	struct http_server **link = &servers;

	if (!server)
		return;
	while (*link != server)
		link = &(*link)->next;
	*link = server->next;
	clients_settle(server);
	if (server->http)
		evhttp_free(server->http);
	event_drop(&server->unpause);
	event_drop(&server->accepted);
	free(server);
}

/* ---- requests ---- */

int http_on_close(struct evhttp_request *request, void (*closed)(void *ctx), void *ctx)
{
	struct evhttp_connection *connection = evhttp_request_get_connection(request);
	struct http_server *server =
		server_of(evhttp_connection_get_server(connection));

	list_for_each_entry(struct slot, slot, &server->slots.taken, link) {
		struct http_client *client = client_of(slot);

		if (client->connection != connection)
			continue;
		client->closed = closed;
		client->ctx = ctx;
		return 0;
	}
	return -ENOMEM;
}

const char *http_path(const struct evhttp_request *request)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);

	return uri ? evhttp_uri_get_path(uri) : NULL;
}

bool http_reads(const struct evhttp_request *request)
{
	enum evhttp_cmd_type method = evhttp_request_get_command(request);

	return method == EVHTTP_REQ_GET || method == EVHTTP_REQ_HEAD;
}

int http_set_type(struct evhttp_request *request, const char *type)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(request);

	return evhttp_add_header(headers, "Content-Type", type) ||
			       evhttp_add_header(headers, "Cache-Control",
						 "no-store") ||
			       evhttp_add_header(headers, "X-Content-Type-Options",
						 "nosniff") ||
			       evhttp_add_header(headers,
						 "Cross-Origin-Resource-Policy",
						 "same-origin")
		       ? -1
		       : 0;
}

void http_send_no_memory(struct evhttp_request *request)
{
	evhttp_send_error(request, HTTP_INTERNAL, "out of memory");
}

void http_send_error(struct evhttp_request *request, int code, const char *reason,
		     const char *text)
{
	struct evbuffer *body = evbuffer_new();

	if (!body || evbuffer_add_printf(body, "%s\n", text) < 0 ||
	    http_set_type(request, "text/plain; charset=utf-8"))
		http_send_no_memory(request);
	else
		evhttp_send_reply(request, code, reason, body);
	if (body)
		evbuffer_free(body);
}

void http_refuse_method(struct evhttp_request *request)
{
	/* a missing header only makes the answer less complete */
	(void)evhttp_add_header(evhttp_request_get_output_headers(request), "Allow",
				"GET, HEAD");
	http_send_error(request, HTTP_BADMETHOD, "Method Not Allowed",
			"this resource can only be read");
}
