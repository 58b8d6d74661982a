/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/fdstore_query.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/loop/events.h"
#include "rmemd/system/systemd.h"

/* For the service manager to handle the messages, and to answer. */
#define QUERY_S 30

struct fdstore_query {
	struct event_base *base;
	fdstore_answered *answered; /* NULL: the answer was given */
	void *ctx;
	int barrier; /* -1: the messages are handled */
	struct event *handled;
	sd_bus *bus;
	struct event *bus_event;
	struct event *deadline;
};

static void query_stop(struct fdstore_query *query)
{
	event_drop(&query->handled);
	event_drop(&query->bus_event);
	event_drop(&query->deadline);
	if (query->barrier >= 0)
		(void)close(query->barrier);
	query->barrier = -1;
	/* sd_bus_flush_close_unref() would wait */
	if (query->bus)
		sd_bus_close(query->bus);
	query->bus = sd_bus_unref(query->bus);
}

static void query_answer(struct fdstore_query *query, int err, unsigned n)
{
	fdstore_answered *answered = query->answered;

	query->answered = NULL;
	if (answered)
		answered(query->ctx, err, n);
}

static void on_deadline(evutil_socket_t, short, void *arg)
{
	struct fdstore_query *query = arg;

	query_stop(query);
	query_answer(query,
		     err_set(-ETIMEDOUT,
			     "the service manager does not answer within %d s",
			     QUERY_S),
		     0);
}

/* ---- on the bus ---- */

static int on_reply(sd_bus_message *reply, void *arg, sd_bus_error *)
{
	struct fdstore_query *query = arg;
	const sd_bus_error *error = sd_bus_message_get_error(reply);
	uint32_t n = 0;
	int err;

	if (error) {
		err = err_set(-EIO, "the service manager answers: %s",
			      error->message ? error->message : error->name);
	} else {
		err = sd_bus_message_read(reply, "v", "u", &n);
		err = err < 0 ? err_errno(err, "the service manager's answer") : 0;
	}
	query_answer(query, err, n);
	return 1;
}

static void on_bus(evutil_socket_t fd, short what, void *arg);

/* Watch for what the bus waits for now, except its time-outs: query->deadline ends the question. */
static int bus_watch(struct fdstore_query *query)
{
	int events = sd_bus_get_events(query->bus);
	short what = 0;

	if (events < 0)
		return events;
	if (events & POLLIN)
		what |= EV_READ;
	if (events & POLLOUT)
		what |= EV_WRITE;
	event_drop(&query->bus_event);
	query->bus_event =
		event_new(query->base, sd_bus_get_fd(query->bus), what, on_bus, query);
	return query->bus_event && !event_add(query->bus_event, NULL) ? 0 : -ENOMEM;
}

static void on_bus(evutil_socket_t, short, void *arg)
{
	struct fdstore_query *query = arg;
	int err;

	do
		err = sd_bus_process(query->bus, NULL);
	while (err > 0 && query->answered);
	if (err >= 0 && query->answered)
		err = bus_watch(query);
	if (!query->answered) {
		query_stop(query);
	} else if (err < 0) {
		query_stop(query);
		query_answer(query, err_errno(err, "the bus of the service manager"),
			     0);
	}
}

/* The bus of the service manager that started this process. */
static int bus_open(sd_bus **ret_bus)
{
	char *unit = NULL;
	bool user = sd_pid_get_user_unit(0, &unit) >= 0;

	free(unit);
	return user ? sd_bus_open_user(ret_bus) : sd_bus_open_system(ret_bus);
}

static int bus_ask(struct fdstore_query *query)
{
	int err = bus_open(&query->bus);

	if (err < 0)
		return err_errno(err, "the bus of the service manager");
	err = sd_bus_call_method_async(
		query->bus, NULL, "org.freedesktop.systemd1",
		"/org/freedesktop/systemd1/unit/self",
		"org.freedesktop.DBus.Properties", "Get", on_reply, query, "ss",
		"org.freedesktop.systemd1.Service", "NFileDescriptorStore");
	if (err >= 0)
		err = bus_watch(query);
	return err < 0 ? err_errno(err, "asking the service manager") : 0;
}

/* ---- after the messages ---- */

static void on_handled(evutil_socket_t, short, void *arg)
{
	struct fdstore_query *query = arg;
	int err;

	(void)close(query->barrier);
	query->barrier = -1;
	err = bus_ask(query);
	if (err) {
		query_stop(query);
		query_answer(query, err, 0);
	}
}

int fdstore_query_start(struct event_base *base, fdstore_answered *answered, void *ctx,
			struct fdstore_query **ret_query)
{
	const struct timeval tv = { .tv_sec = QUERY_S };
	struct fdstore_query *query = calloc(1, sizeof(*query));
	int err;

	if (!query)
		return err_set(-ENOMEM, "no memory to ask the service manager");
	query->base = base;
	query->answered = answered;
	query->ctx = ctx;
	query->barrier = -1;
	err = systemd_barrier(&query->barrier);
	if (err) {
		fdstore_query_end(query);
		return err;
	}
	query->handled = event_new(base, query->barrier, EV_READ, on_handled, query);
	query->deadline = evtimer_new(base, on_deadline, query);
	if (!query->handled || !query->deadline || event_add(query->handled, NULL) ||
	    event_add(query->deadline, &tv)) {
		fdstore_query_end(query);
		return err_set(-ENOMEM, "no memory to ask the service manager");
	}
	*ret_query = query;
	return 0;
}

void fdstore_query_end(struct fdstore_query *query)
{
	if (!query)
		return;
	query_stop(query);
	free(query);
}
