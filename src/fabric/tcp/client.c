/* SPDX-License-Identifier: BSD-3-Clause */
/* The client: its table of functions, domains, completion queues, and the opening of streams:
 * connection, hello, status. */
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd_wait.h"
#include "base/own_fd.h"
#include "fabric/address.h"
#include "fabric/listen.h"
#include "fabric/tcp/channel.h"
#include "fabric/tcp/socket.h"
#include "tls/records.h"
#include "wire/errors.h"

#define EVENTS_MAX 16

/* ---- domain ---- */

static int domain_open(const struct fabric_endpoint *endpoint,
		       const struct fabric_client_params *params, unsigned timeout_ms,
		       struct fabric_domain **ret_domain)
{
	char text[FABRIC_ADDRESS_TEXT];
	struct fabric_address source;
	struct fabric_domain *domain;
	int err;

	(void)params;
	(void)timeout_ms;
	if (endpoint->address.family != 4 && endpoint->address.family != 6)
		return err_set(-EINVAL, "a tcp endpoint without an address");
	err = fabric_address_source(&endpoint->address, &source);
	if (err)
		return err_errno(err, "connecting a data stream to %s",
				 fabric_address_text(&endpoint->address, text));
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return err_errno(-ENOMEM, "a domain");
	domain->address = endpoint->address;
	domain->atomics = (endpoint->flags & FABRIC_ENDPOINT_ATOMICS) != 0;
	domain->inband = (endpoint->flags & FABRIC_ENDPOINT_INBAND) != 0;
	if (endpoint->flags & FABRIC_ENDPOINT_TLS)
		err = tls_context_channels(false, &domain->tls);
	if (err) {
		free(domain);
		return err;
	}
	*ret_domain = domain;
	return 0;
}

static void domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	tls_context_unref(domain->tls);
	free(domain);
}

static const char *domain_device(const struct fabric_domain *domain)
{
	(void)domain;
	return "";
}

static unsigned domain_sge_max(const struct fabric_domain *domain,
			       enum fabric_opcode opcode)
{
	(void)domain;
	(void)opcode;
	return TCP_SLICES_MAX;
}

/* ---- completion queue ---- */

/* Completions wait in the rings of the channels, so depth needs no room here. */
static int cq_create(struct fabric_domain *domain, unsigned depth,
		     struct fabric_cq **ret_cq)
{
	struct fabric_cq *cq = calloc(1, sizeof(*cq));
	int err;

	(void)depth;
	if (!cq)
		return err_errno(-ENOMEM, "a completion queue");
	cq->domain = domain;
	list_init(&cq->ready);
	cq->epoll_fd = own_fd(epoll_create1(EPOLL_CLOEXEC));
	if (cq->epoll_fd < 0) {
		err = err_errno(-errno, "epoll_create1");
		free(cq);
		return err;
	}
	(void)pthread_mutex_init(&cq->lock, NULL);
	list_init(&cq->channels);
	*ret_cq = cq;
	return 0;
}

static void cq_add(struct fabric_cq *cq, struct fabric_channel *ch)
{
	(void)pthread_mutex_lock(&cq->lock);
	list_append(&cq->channels, &ch->node);
	(void)pthread_mutex_unlock(&cq->lock);
	(void)atomic_fetch_add(&cq->n_channels, 1);
}

static void cq_remove(struct fabric_cq *cq, struct fabric_channel *ch)
{
	(void)atomic_fetch_sub(&cq->n_channels, 1);
	(void)pthread_mutex_lock(&cq->lock);
	list_remove(&ch->node);
	(void)pthread_mutex_unlock(&cq->lock);
}

/* Whether an event is of the cq: the program may have closed the set, and opened another one. */
static bool cq_knows(struct fabric_cq *cq, const void *channel)
{
	bool found = false;

	(void)pthread_mutex_lock(&cq->lock);
	list_for_each_entry(const struct fabric_channel, at, &cq->channels, node)
		found |= at == channel;
	(void)pthread_mutex_unlock(&cq->lock);
	return found;
}

static void cq_free(struct fabric_cq *cq)
{
	if (!cq)
		return;
	(void)close(cq->epoll_fd);
	(void)pthread_mutex_destroy(&cq->lock);
	free(cq);
}

static int cq_fd(const struct fabric_cq *cq)
{
	return cq->epoll_fd;
}

/* The set is level-triggered: it is readable while a socket has data for poll().  When poll()
 * returns fewer completions than asked for, no channel is left in the ready list. */
static int cq_arm(struct fabric_cq *cq)
{
	(void)cq;
	return 0;
}

/* Report completions that need no socket. */
static unsigned cq_drain_ready(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	unsigned got = 0;

	list_for_each_entry_safe(struct fabric_channel, channel, &cq->ready, ready) {
		if (got == n)
			break;
		got += tcp_channel_report(channel, wcs + got, n - got);
	}
	return got;
}

/* The channel that was used last, unless it is dead; else NULL. */
static struct fabric_channel *cq_used(struct fabric_cq *cq)
{
	struct fabric_channel *ch =
		atomic_load_explicit(&cq->used, memory_order_relaxed);

	return ch && !atomic_load(&ch->dead) ? ch : NULL;
}

static int cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	struct epoll_event events[EVENTS_MAX];
	unsigned got = cq_drain_ready(cq, wcs, n);
	struct fabric_channel *used = cq_used(cq);
	/* the channel of a cq that has one needs no event to be looked at */
	bool sole = used && atomic_load(&cq->n_channels) == 1;
	int n_events;

	if (got == n)
		return (int)got;
	/* it ends one that has lost its socket; then the set may be another one, too */
	if (sole || (used && !tcp_channel_has_socket(used)))
		return (int)(got + tcp_channel_progress(used, wcs + got, n - got));
	n_events = epoll_wait(cq->epoll_fd, events, EVENTS_MAX, 0);
	for (int i = 0; i < n_events && got < n; i++)
		if (cq_knows(cq, events[i].data.ptr))
			got += tcp_channel_progress(events[i].data.ptr, wcs + got,
						    n - got);
	return (int)got;
}

/* ---- opening and closing a stream ---- */

static int socket_connect(int fd, const struct fabric_address *address,
			  uint64_t deadline_ms, const atomic_bool *cancelled)
{
	struct sockaddr_storage addr;
	socklen_t len = fabric_address_to_sockaddr(address, &addr);
	int err;

	/* an interrupted connect() goes on in the kernel */
	if (connect(fd, (struct sockaddr *)&addr, len) == 0)
		return 0;
	if (errno != EINPROGRESS && errno != EINTR)
		return -errno;
	err = fd_wait(fd, POLLOUT, deadline_ms, cancelled);
	if (err)
		return err;
	len = sizeof(err);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
		return -errno;
	return -err;
}

/* The first bytes on a socket fit its buffer. */
static int socket_hello(int fd, const struct fabric_channel_params *params)
{
	struct fabric_hello hello = params->hello;
	struct fabric_address source;
	uint8_t buf[FABRIC_HELLO_BYTES];
	int err = fabric_socket_address(fd, &source);
	ssize_t n;

	if (err)
		return err;
	if (params->name_source)
		params->name_source(params->name_source_ctx, &source, &hello);
	fabric_hello_encode(&hello, buf);
	n = send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return n == sizeof(buf) ? 0 : -EPIPE;
}

static int socket_receive(int fd, void *buf, size_t bytes, uint64_t deadline_ms,
			  const atomic_bool *cancelled)
{
	size_t have = 0;

	while (have < bytes) {
		int err = fd_wait(fd, POLLIN, deadline_ms, cancelled);
		ssize_t n;

		if (err)
			return err;
		n = recv(fd, (char *)buf + have, bytes - have, 0);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0)
			have += (size_t)n;
	}
	return 0;
}

/* The error of a status: -EPROTO unless a text says why, as the server's does. */
static int socket_status(int fd, uint64_t deadline_ms, const atomic_bool *cancelled,
			 char ret_why[STREAM_TEXT_MAX + 1])
{
	struct stream_status status;
	int err = socket_receive(fd, &status, sizeof(status), deadline_ms, cancelled);
	size_t bytes;

	if (err || status.status == WIRE_CODE_none)
		return err;
	bytes = le32toh(status.bytes);
	if (bytes == 0 || bytes > STREAM_TEXT_MAX)
		return -EPROTO;
	err = socket_receive(fd, ret_why, bytes, deadline_ms, cancelled);
	ret_why[err ? 0 : bytes] = '\0';
	return err ? err : wire_code_errno(le32toh(status.status));
}

/* Put an admitted socket under TLS. */
static int channel_secure(struct fabric_channel *ch,
			  const struct fabric_channel_params *params)
{
	uint64_t deadline_ms = clock_now_ms() + params->timeout_ms;
	const struct fabric_domain *domain = ch->cq->domain;
	char text[FABRIC_ADDRESS_TEXT];
	int err;

	ch->records_max = UINT64_MAX;
	if (!domain->tls)
		return 0;
	/* the rest is for what is outstanding, and for what the count of those received lacks */
	ch->records_max = tls_records_max / 2;
	err = tls_pipe_open(ch->fd, domain->tls, params->tls_key, &ch->tls);
	while (!err && (err = tls_pipe_handshake(ch->tls)) == -EAGAIN) {
		err = fd_wait(ch->fd, tls_pipe_wants_out(ch->tls) ? POLLOUT : POLLIN,
			      deadline_ms, params->cancelled);
		if (err)
			return err_errno(err, "the handshake of TLS with %s",
					 fabric_address_text(&domain->address, text));
	}
	if (err)
		return err_prefix(err, "%s",
				  fabric_address_text(&domain->address, text));
	ch->in_kernel = tls_pipe_in_kernel(ch->tls);
	if (ch->in_kernel) {
		tls_pipe_free(ch->tls);
		ch->tls = NULL;
	}
	return 0;
}

/* why: the server's own reason, or "" */
static int stream_failed(int err, const char *step,
			 const struct fabric_address *address, const char *why)
{
	char text[FABRIC_ADDRESS_TEXT];

	(void)fabric_address_text(address, text);
	if (*why)
		return err_set(err, "%s refuses a data stream: %s", text, why);
	if (err == -EPROTO)
		return err_set(err,
			       "%s does not answer a data stream as rmemd's port for "
			       "data does: is it another port?",
			       text);
	return err_errno(err, "%s %s", step, text);
}

/* Returns a tuned non-blocking socket that was admitted, or -errno with text that names the
 * address. */
static int stream_open(const struct fabric_address *address,
		       const struct fabric_channel_params *params)
{
	uint64_t deadline_ms = clock_now_ms() + params->timeout_ms;
	char why[STREAM_TEXT_MAX + 1] = "";
	const char *step;
	int fd, err;

	fd = own_fd(socket(address->family == 4 ? AF_INET : AF_INET6,
			   SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return err_errno(-errno, "socket");
	err = tcp_socket_tune(fd);
	if (!err && params->silence_ms)
		err = tcp_socket_limit_silence(fd, params->silence_ms);
	if (err) {
		(void)close(fd);
		return err;
	}
	step = "connecting a data stream to";
	err = socket_connect(fd, address, deadline_ms, params->cancelled);
	if (!err) {
		step = "presenting a data stream to";
		err = socket_hello(fd, params);
	}
	if (!err) {
		step = "waiting for the admission of a data stream by";
		err = socket_status(fd, deadline_ms, params->cancelled, why);
	}
	if (err) {
		(void)close(fd);
		return stream_failed(err, step, address, why);
	}
	return fd;
}

static int channel_connect(struct fabric_cq *cq,
			   const struct fabric_channel_params *params,
			   struct fabric_channel **ret_channel)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct fabric_channel *ch;
	int err;

	if (params->depth == 0)
		return err_set(-EINVAL, "a channel of depth 0");
	ch = calloc(1, sizeof(*ch) + params->depth * sizeof(ch->ops[0]));
	if (!ch)
		return err_errno(-ENOMEM, "a channel of depth %u", params->depth);
	ch->cq = cq;
	ch->owner = params->owner;
	ch->depth = params->depth;
	ch->interest = event.events;
	ch->answers = ch->answers_end = ch->buffer;
	ch->flush_status = -ECONNRESET;
	ch->flush_text = "flushed: the stream was ended";
	list_init(&ch->ready);
	err = stream_open(&cq->domain->address, params);
	if (err < 0)
		goto err_free;
	ch->fd = err;
	ch->inode = own_fd_inode(ch->fd);
	err = channel_secure(ch, params);
	if (err)
		goto err_close;
	event.data.ptr = ch;
	if (epoll_ctl(cq->epoll_fd, EPOLL_CTL_ADD, ch->fd, &event) != 0) {
		err = err_errno(-errno, "epoll_ctl");
		goto err_close;
	}
	cq_add(cq, ch);
	*ret_channel = ch;
	return 0;

err_close:
	tls_pipe_free(ch->tls);
	(void)close(ch->fd);
err_free:
	free(ch);
	return err;
}

static bool channel_alive(struct fabric_channel *ch)
{
	struct pollfd pfd = { .fd = ch->fd, .events = POLLRDHUP };

	if (atomic_load(&ch->dead) || atomic_load(&ch->aborted))
		return false;
	if (poll(&pfd, 1, 0) <= 0)
		return true;
	tcp_channel_abort(ch);
	return false;
}

static void channel_free(struct fabric_channel *ch)
{
	if (!ch)
		return;
	list_remove(&ch->ready);
	cq_remove(ch->cq, ch);
	if (atomic_load_explicit(&ch->cq->used, memory_order_relaxed) == ch)
		atomic_store_explicit(&ch->cq->used, NULL, memory_order_relaxed);
	if (ch->head < ch->tail)
		tcp_channel_abort(ch);
	tls_pipe_free(ch->tls);
	/* which takes it from the epoll set, as it is never duplicated */
	tcp_channel_close(ch);
	free(ch->row);
	free(ch->slices);
	free(ch);
}

/* A channel's end turns the descriptor of its cq readable, and poll() finds it. */
static int channel_alive_fd(const struct fabric_channel *channel)
{
	(void)channel;
	return -1;
}

/* As much as a link of 100 Gbit/s carries in 300 us. */
#define LARGE_MAX (UINT32_C(4) << 20)

const struct fabric_client_ops fabric_tcp_client = {
	.name = "tcp",
	.kind = FABRIC_TCP,
	.needs_local_mr = false,
	.max_bytes = FABRIC_STREAM_BYTES_MAX,
	.large_max = LARGE_MAX,
	.domain_open = domain_open,
	.domain_close = domain_close,
	.domain_device = domain_device,
	.domain_supports = tcp_domain_supports,
	.sge_max = domain_sge_max,
	.cq_create = cq_create,
	.cq_free = cq_free,
	.cq_fd = cq_fd,
	.cq_arm = cq_arm,
	.connect = channel_connect,
	.prepare = tcp_channel_prepare,
	.prepare_sges = tcp_channel_prepare_sges,
	.prepare_atomic = tcp_channel_prepare_atomic,
	.inband_max = UINT_MAX,
	.prepare_inband = tcp_channel_prepare_inband,
	.post = tcp_channel_post,
	.post_one = tcp_channel_post_one,
	.poll = cq_poll,
	.abort = tcp_channel_abort,
	.alive_fd = channel_alive_fd,
	.alive = channel_alive,
	.channel_free = channel_free,
	.channel_leave = tcp_channel_close,
};
