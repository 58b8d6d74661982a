/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/daemon-core.h"

#include <check.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/listener.h"
#include "unit/rmemd/bare-daemon.h"
#include "unit/rmemd/storage.h"

struct config core_config;
struct control core;
int core_port;

static const struct fabric_server_ops *fabric_ops;
static pthread_t thread;
static struct listener *listener;
static struct event *call_event;
static int call_fd;
static sem_t called;
static struct {
	void (*fn)(void *arg);
	void *arg;
} call;

static void discard_line(int level, const char *event, const struct log_ctx *ctx,
			 const char *text)
{
	(void)level;
	(void)event;
	(void)ctx;
	(void)text;
}

void core_init(const struct fabric_server_ops *fabric)
{
	fabric_ops = fabric;
	log_set_sink(discard_line);
	config_default(&core_config);
	core_config.heartbeat_ms = 20;
	core_config.fence_ms = 3000;
	core_config.grace_ms = 5000;
	core_config.n_pools = 1;
	core_config.pools[0].bytes = CORE_POOL_BYTES;
	core_config.pools[0].pages = POOL_PAGES_BASE;
	core_forget();
}

void core_forget(void)
{
	storage_close();
	storage_open();
}

/* ---- calls from other threads ---- */

static void on_call(evutil_socket_t fd, short what, void *arg)
{
	eventfd_t count;

	(void)what;
	(void)arg;
	(void)eventfd_read(fd, &count);
	call.fn(call.arg);
	(void)sem_post(&called);
}

void core_call(void (*fn)(void *arg), void *arg)
{
	static pthread_mutex_t serial = PTHREAD_MUTEX_INITIALIZER;

	(void)pthread_mutex_lock(&serial);
	call.fn = fn;
	call.arg = arg;
	(void)eventfd_write(call_fd, 1);
	while (sem_wait(&called))
		;
	(void)pthread_mutex_unlock(&serial);
}

static void count_leases(void *arg)
{
	*(unsigned *)arg = leases_count(core.leases);
}

unsigned core_leases(void)
{
	unsigned n;

	core_call(count_leases, &n);
	return n;
}

static void end_loop(void *arg)
{
	(void)arg;
	(void)event_base_loopbreak(core.base);
}

static void *run(void *arg)
{
	sigset_t set;

	/* the daemon ignores SIGPIPE; the library must not raise it */
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	ck_assert_int_ge(event_base_dispatch(core.base), 0);
	return arg;
}

/* ---- opening and closing ---- */

int loopback_listen(int *port)
{
	struct sockaddr_in bound = { .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)*port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(bound);
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&bound, sizeof(bound)), 0);
	ck_assert_int_eq(listen(fd, 8), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&bound, &bytes), 0);
	*port = ntohs(bound.sin_port);
	return fd;
}

void core_start(void)
{
	const struct fabric_server_ops *const fabrics[] = { fabric_ops, NULL };
	int err;

	memset(&core, 0, sizeof(core));
	core.base = event_base_new();
	core.config = &core_config;
	core.first_id = CORE_SESSION;
	err = bare_daemon_open(&core, storage_ledger(), fabrics);
	if (!err)
		err = listener_open_fd(&core, loopback_listen(&core_port), &listener);
	ck_assert_msg(!err, "%s", err_text());
	call_fd = eventfd(0, EFD_CLOEXEC);
	ck_assert_int_eq(sem_init(&called, 0, 0), 0);
	call_event = event_new(core.base, call_fd, EV_READ | EV_PERSIST, on_call, NULL);
	ck_assert_int_eq(event_add(call_event, NULL), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
}

void core_stop(void)
{
	core_call(end_loop, NULL);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	event_free(call_event);
	(void)close(call_fd);
	listener_close(listener);
	bare_daemon_close(&core);
	event_base_free(core.base);
}
