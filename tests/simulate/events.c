/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/events.h"

#include <event2/event.h>
#include <stdlib.h>

#include "base/list.h"
#include "simulate/fds.h"
#include "simulate/sim.h"

struct event {
	struct list link; /* in `all` */
	int fd;           /* -1: a timer */
	short what;
	event_callback_fn call;
	void *arg;
	bool watched;    /* its descriptor */
	bool active;     /* called in this turn, or in the next */
	uint64_t due_ns; /* SIM_NEVER: no timer */
};

static struct list all = LIST_INIT(all);

struct event *event_new(struct event_base *, evutil_socket_t fd, short what,
			event_callback_fn call, void *arg)
{
	struct event *event = sim_alloc(sizeof(*event));

	*event = (struct event){
		.fd = fd, .what = what, .call = call, .arg = arg, .due_ns = SIM_NEVER
	};
	list_append(&all, &event->link);
	return event;
}

void event_free(struct event *event)
{
	list_remove(&event->link);
	free(event);
}

void *event_get_callback_arg(const struct event *event)
{
	return event->arg;
}

int event_add(struct event *event, const struct timeval *timeout)
{
	event->watched = event->fd >= 0;
	if (timeout)
		event->due_ns = sim_now_ns + (uint64_t)timeout->tv_sec * 1000 * SIM_MS +
				(uint64_t)timeout->tv_usec * 1000;
	return 0;
}

int event_del(struct event *event)
{
	event->watched = event->active = false;
	event->due_ns = SIM_NEVER;
	return 0;
}

void event_active(struct event *event, int, short)
{
	event->active = true;
}

int event_base_loopbreak(struct event_base *)
{
	return 0;
}

static bool io_due(const struct event *event)
{
	short wanted = (short)(event->what & EV_WRITE ? POLLOUT : POLLIN);

	return event->watched && (fds_events(event->fd) & wanted);
}

bool events_ready(void)
{
	list_for_each_entry(const struct event, event, &all, link) {
		if (event->active || event->due_ns <= sim_now_ns || io_due(event))
			return true;
	}
	return false;
}

uint64_t events_due_ns(void)
{
	uint64_t due = SIM_NEVER;

	list_for_each_entry(const struct event, event, &all, link) {
		if (event->due_ns < due)
			due = event->due_ns;
	}
	return due;
}

/* The next event of this turn; NULL: none. */
static struct event *next_active(void)
{
	list_for_each_entry(struct event, event, &all, link) {
		if (event->active)
			return event;
	}
	return NULL;
}

static void run(struct event *event)
{
	event->active = false;
	if (event->fd < 0 || !(event->what & EV_PERSIST)) {
		event->due_ns = SIM_NEVER;
		event->watched = event->watched && (event->what & EV_PERSIST);
	}
	event->call(event->fd,
		    event->fd < 0 ? EV_TIMEOUT : event->what & (EV_READ | EV_WRITE),
		    event->arg);
}

static void activate(bool timers)
{
	list_for_each_entry(struct event, event, &all, link) {
		if (timers ? event->due_ns <= sim_now_ns : io_due(event))
			event->active = true;
	}
}

static void run_active(void)
{
	struct event *event;

	while ((event = next_active()))
		run(event);
}

void events_turn(void)
{
	activate(false);
	run_active();
	/* what the callbacks arm for now comes in the next turn */
	activate(true);
	run_active();
}

unsigned events_count(void)
{
	unsigned n = 0;

	list_for_each_safe(node, &all)
		n++;
	return n;
}
