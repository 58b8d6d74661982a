/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/fds.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "simulate/clients.h"
#include "simulate/daemon.h"
#include "simulate/sim.h"

#define FIRST 1000000
#define FDS_MAX 4096
#define SET_MAX 80

enum kind { KIND_FREE, KIND_EVENT, KIND_TIMER, KIND_SET, KIND_SOCKET };

struct set {
	unsigned n;
	struct member {
		int fd;
		uint32_t events;
		epoll_data_t data;
	} at[SET_MAX];
};

static struct fd {
	enum kind kind;
	ino_t inode;
	uint64_t count;  /* KIND_EVENT */
	uint64_t due_ns; /* KIND_TIMER; 0: disarmed */
	struct set *set;
	struct socket *socket;
} fds[FDS_MAX];
static unsigned n_open;
static ino_t last_inode;

static struct fd *fd_of(int fd)
{
	if (fd < FIRST || fd >= FIRST + FDS_MAX || fds[fd - FIRST].kind == KIND_FREE)
		sim_fail("descriptor %d is used, and is not open", fd);
	return &fds[fd - FIRST];
}

static int fd_new(enum kind kind)
{
	for (int i = 0; i < FDS_MAX; i++) {
		if (fds[i].kind != KIND_FREE)
			continue;
		fds[i] = (struct fd){ .kind = kind, .inode = ++last_inode };
		n_open++;
		return FIRST + i;
	}
	sim_fail("more than %d descriptors are open", FDS_MAX);
}

int fds_add_socket(struct socket *socket)
{
	int fd = fd_new(KIND_SOCKET);

	fd_of(fd)->socket = socket;
	return fd;
}

struct socket *fds_socket(int fd)
{
	return fd_of(fd)->socket;
}

unsigned fds_count(void)
{
	return n_open;
}

/* As the kernel does when a descriptor is closed. */
static void sets_forget(int fd)
{
	for (int i = 0; i < FDS_MAX; i++) {
		struct set *set = fds[i].kind == KIND_SET ? fds[i].set : NULL;

		for (unsigned k = set ? set->n : 0; k > 0; k--)
			if (set->at[k - 1].fd == fd)
				set->at[k - 1] = set->at[--set->n];
	}
}

void fds_close(int fd)
{
	struct fd *at = fd_of(fd);

	sets_forget(fd);
	free(at->set);
	if (at->socket)
		socket_close(at->socket);
	*at = (struct fd){ .kind = KIND_FREE };
	n_open--;
}

static bool set_ready(const struct set *set)
{
	for (unsigned i = 0; i < set->n; i++)
		if (fds_events(set->at[i].fd) &
		    (short)(set->at[i].events | EPOLLERR | EPOLLHUP))
			return true;
	return false;
}

short fds_events(int fd)
{
	const struct fd *at = fd_of(fd);

	switch (at->kind) {
	case KIND_EVENT:
		return at->count ? POLLIN | POLLOUT : POLLOUT;
	case KIND_TIMER:
		return at->due_ns && at->due_ns <= sim_now_ns ? POLLIN : 0;
	case KIND_SET:
		return set_ready(at->set) ? POLLIN : 0;
	case KIND_SOCKET:
		return socket_events(at->socket);
	case KIND_FREE:
		break;
	}
	return 0;
}

uint64_t fds_due_ns(int fd)
{
	const struct fd *at = fd_of(fd);
	uint64_t due = SIM_NEVER;

	if (at->kind == KIND_TIMER && at->due_ns)
		return at->due_ns;
	for (unsigned i = 0; at->kind == KIND_SET && i < at->set->n; i++) {
		uint64_t next = fds_due_ns(at->set->at[i].fd);

		if (next < due)
			due = next;
	}
	return due;
}

/* ---- the calls ---- */

int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd_read(int fd, eventfd_t *ret_count);
int __wrap_eventfd_write(int fd, eventfd_t count);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *old);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int set_fd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int set_fd, struct epoll_event *events, int n, int timeout_ms);
int __wrap_poll(struct pollfd *pollfds, nfds_t n, int timeout_ms);
int __wrap_ppoll(struct pollfd *pollfds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *mask);
int __real_fstat(int fd, struct stat *ret);
int __wrap_fstat(int fd, struct stat *ret);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_getsockname(int fd, struct sockaddr *at, socklen_t *bytes);
int __wrap_shutdown(int fd, int how);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
struct timespec __wrap_clock_monotonic_timespec(uint64_t ns);
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  clockid_t clock, const struct timespec *until);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);

int __wrap_eventfd(unsigned count, int)
{
	int fd = fd_new(KIND_EVENT);

	fd_of(fd)->count = count;
	return fd;
}

int __wrap_eventfd_read(int fd, eventfd_t *ret_count)
{
	struct fd *at = fd_of(fd);

	if (!at->count) {
		errno = EAGAIN;
		return -1;
	}
	*ret_count = at->count;
	at->count = 0;
	return 0;
}

int __wrap_eventfd_write(int fd, eventfd_t count)
{
	fd_of(fd)->count += count;
	return 0;
}

int __wrap_timerfd_create(int, int)
{
	return fd_new(KIND_TIMER);
}

int __wrap_timerfd_settime(int fd, int, const struct itimerspec *when,
			   struct itimerspec *)
{
	fd_of(fd)->due_ns = (uint64_t)when->it_value.tv_sec * 1000000000 +
			    (uint64_t)when->it_value.tv_nsec;
	return 0;
}

int __wrap_epoll_create1(int)
{
	int fd = fd_new(KIND_SET);

	fd_of(fd)->set = sim_alloc(sizeof(struct set));
	return fd;
}

int __wrap_epoll_ctl(int set_fd, int op, int fd, struct epoll_event *event)
{
	struct set *set;
	unsigned i = 0;

	if (set_fd < 0 || fd < 0) {
		errno = EBADF;
		return -1;
	}
	set = fd_of(set_fd)->set;
	while (i < set->n && set->at[i].fd != fd)
		i++;
	if (op == EPOLL_CTL_ADD && i < set->n) {
		errno = EEXIST;
		return -1;
	}
	if (op == EPOLL_CTL_ADD && set->n == SET_MAX)
		sim_fail("a set has more than %d descriptors", SET_MAX);
	if (op != EPOLL_CTL_ADD && i == set->n) {
		errno = ENOENT;
		return -1;
	}
	if (op == EPOLL_CTL_DEL)
		set->at[i] = set->at[--set->n];
	else
		set->at[i] = (struct member){ fd, event->events, event->data };
	set->n += op == EPOLL_CTL_ADD;
	return 0;
}

static int set_collect(const struct set *set, struct epoll_event *events, int max)
{
	int n = 0;

	for (unsigned i = 0; i < set->n && n < max; i++) {
		uint32_t due = (uint32_t)fds_events(set->at[i].fd) &
			       (set->at[i].events | EPOLLERR | EPOLLHUP);

		if (due)
			events[n++] = (struct epoll_event){ due, set->at[i].data };
	}
	return n;
}

int __wrap_epoll_wait(int set_fd, struct epoll_event *events, int n, int timeout_ms)
{
	struct pollfd pollfd = { .fd = set_fd, .events = POLLIN };

	(void)__wrap_poll(&pollfd, 1, timeout_ms);
	return set_collect(fd_of(set_fd)->set, events, n);
}

static int poll_now(struct pollfd *pollfds, nfds_t n)
{
	int ready = 0;

	for (nfds_t i = 0; i < n; i++) {
		short due = 0;

		if (pollfds[i].fd >= 0)
			due = fds_events(pollfds[i].fd) &
			      (short)(pollfds[i].events | POLLERR | POLLHUP);
		pollfds[i].revents = due;
		ready += due != 0;
	}
	return ready;
}

static int poll_until(struct pollfd *pollfds, nfds_t n, uint64_t until_ns)
{
	int ready;

	while (!(ready = poll_now(pollfds, n)) && sim_now_ns < until_ns) {
		if (sim_actor == SIM_CLIENT)
			client_wait(pollfds, (unsigned)n, until_ns);
		else
			daemon_wait();
	}
	return ready;
}

int __wrap_poll(struct pollfd *pollfds, nfds_t n, int timeout_ms)
{
	return poll_until(pollfds, n,
			  timeout_ms < 0 ? SIM_NEVER
					 : sim_now_ns + (uint64_t)timeout_ms * SIM_MS);
}

int __wrap_ppoll(struct pollfd *pollfds, nfds_t n, const struct timespec *timeout,
		 const sigset_t *)
{
	uint64_t ns = !timeout ? SIM_NEVER
			       : (uint64_t)timeout->tv_sec * 1000000000 +
					 (uint64_t)timeout->tv_nsec;

	return poll_until(pollfds, n,
			  ns < SIM_NEVER - sim_now_ns ? sim_now_ns + ns : SIM_NEVER);
}

int __wrap_fstat(int fd, struct stat *ret)
{
	if (fd < FIRST)
		return __real_fstat(fd, ret);
	*ret = (struct stat){ .st_mode = S_IFSOCK, .st_ino = fd_of(fd)->inode };
	return 0;
}

int __wrap_close(int fd)
{
	if (fd < FIRST)
		return __real_close(fd);
	fds_close(fd);
	return 0;
}

/* That of a wake-up, of datagrams, is as an eventfd, which can always be written. */
int __wrap_socket(int, int type, int)
{
	if (type & SOCK_DGRAM)
		return fd_new(KIND_EVENT);
	return fds_add_socket(socket_new(client_running()));
}

int __wrap_setsockopt(int, int, int, const void *, socklen_t)
{
	return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	int err;

	if (level != SOL_SOCKET || name != SO_ERROR) {
		errno = ENOPROTOOPT;
		return -1;
	}
	err = socket_error(fds_socket(fd));
	memcpy(value, &err, sizeof(err));
	*bytes = sizeof(err);
	return 0;
}

int __wrap_connect(int fd, const struct sockaddr *, socklen_t)
{
	socket_connect(fds_socket(fd));
	errno = EINPROGRESS;
	return -1;
}

int __wrap_getsockname(int, struct sockaddr *at, socklen_t *bytes)
{
	const struct sockaddr_in local = { .sin_family = AF_INET,
					   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	memcpy(at, &local, *bytes < sizeof(local) ? *bytes : sizeof(local));
	*bytes = sizeof(local);
	return 0;
}

/* What the daemon sends after its death, nobody sees. */
static bool sender_is_dead(void)
{
	return sim_actor == SIM_DAEMON && daemon_is_dead();
}

int __wrap_shutdown(int fd, int)
{
	if (!sender_is_dead())
		socket_shut(fds_socket(fd));
	return 0;
}

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int)
{
	if (sender_is_dead())
		return (ssize_t)bytes;
	return socket_send(fds_socket(fd), from, bytes);
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
	return socket_receive(fds_socket(fd), to, bytes, flags & MSG_PEEK);
}

/* Whatever time it is on this machine. */
struct timespec __wrap_clock_monotonic_timespec(uint64_t ns)
{
	return clock_timespec(ns);
}

/* A session has one thread here, so nobody would signal. */
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  clockid_t, const struct timespec *until)
{
	uint64_t until_ns =
		(uint64_t)until->tv_sec * 1000000000 + (uint64_t)until->tv_nsec;

	(void)pthread_mutex_unlock(mutex);
	client_wait_cond(cond, until_ns);
	(void)pthread_mutex_lock(mutex);
	return sim_now_ns < until_ns ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	clients_signal(cond);
	return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	(void)pthread_mutex_unlock(mutex);
	client_wait_cond(cond, SIM_NEVER);
	(void)pthread_mutex_lock(mutex);
	return 0;
}
