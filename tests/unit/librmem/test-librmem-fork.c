/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fork finds while other threads are in calls of the library.  The linker calls the resolver
 * here instead of the C library's (-Wl,--wrap). */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/librmem/core-case.h"
#include "librmem/session/resolve.h"
#include "librmem/session/session.h"

/* ---- a resolver with a lock, as the C library's has one ---- */

static pthread_mutex_t resolver = PTHREAD_MUTEX_INITIALIZER;
static sem_t entered, go;
static bool waits_for_a_server;

typeof(getaddrinfo) __real_getaddrinfo, __wrap_getaddrinfo;

int __wrap_getaddrinfo(const char *restrict node, const char *restrict service,
		       const struct addrinfo *restrict hints,
		       struct addrinfo **restrict list)
{
	if (hints->ai_flags & AI_NUMERICHOST)
		return __real_getaddrinfo(node, service, hints, list);
	if (waits_for_a_server) {
		(void)sem_post(&entered);
		(void)sem_wait(&go);
		return EAI_AGAIN;
	}
	(void)pthread_mutex_lock(&resolver);
	(void)sem_post(&entered);
	/* the fork is not far */
	for (unsigned i = 0; i < 20; i++)
		sleep_1ms();
	(void)pthread_mutex_unlock(&resolver);
	return EAI_AGAIN;
}

static void *look_up(void *arg)
{
	struct addrinfo *list;

	(void)arg;
	ck_assert_int_eq(resolve_host("name.example", 1,
				      clock_now_ns() + 10000 * NS_PER_MS, &list),
			 -EHOSTUNREACH);
	return NULL;
}

/* Fork while a thread looks a name up; returns whether the child finds the resolver free. */
static bool fork_beside_lookup(void)
{
	pthread_t thread;
	int status;
	pid_t pid;

	ck_assert_int_eq(sem_init(&entered, 0, 0) | sem_init(&go, 0, 0), 0);
	/* the first session lets the library know of forks */
	open_with(0);
	ck_assert_int_eq(pthread_create(&thread, NULL, look_up, NULL), 0);
	(void)sem_wait(&entered);
	pid = fork();
	if (pid == 0)
		_exit(pthread_mutex_trylock(&resolver) != 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	(void)sem_post(&go);
	(void)pthread_join(thread, NULL);
	return status == 0;
}

/* ---- cases ---- */

START_TEST(fork__waits_for_a_lookup_that_has_just_begun)
{
	waits_for_a_server = false;
	ck_assert(fork_beside_lookup());
}
END_TEST

/* Else it would wait for ever. */
START_TEST(fork__does_not_wait_for_name_servers)
{
	waits_for_a_server = true;
	ck_assert(fork_beside_lookup());
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* it ends a forked child that starts threads */
/* The child's look-ups begin, whatever the parent's threads were doing. */
START_TEST(fork__leaves_the_child_a_resolver)
{
	int status;
	pid_t pid;

	waits_for_a_server = false;
	ck_assert_int_eq(sem_init(&entered, 0, 0), 0);
	open_with(0);
	pid = fork();
	if (pid == 0) {
		(void)alarm(10);
		(void)look_up(NULL);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST
#endif

static void *close_it(void *arg)
{
	rmem_close(arg);
	return NULL;
}

/* The server has not answered the bye yet. */
START_TEST(fork__during_a_close_leaves_the_child_no_descriptor)
{
	pthread_t thread;
	rmem *closing;
	int fds[3], status;
	pid_t pid;

	open_with(0);
	closing = stage.client;
	stage.client = NULL;
	fds[0] = closing->wake.epfd;
	fds[1] = closing->wake.fd;
	fds[2] = closing->timer_fd;
	proxy.hold = WIRE_TYPE_bye;
	ck_assert_int_eq(pthread_create(&thread, NULL, close_it, closing), 0);
	proxy_await(WIRE_TYPE_bye, 1);
	pid = fork();
	if (pid == 0) {
		for (unsigned i = 0; i < 3; i++)
			if (fcntl(fds[i], F_GETFD) >= 0)
				_exit(1);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	proxy_release();
	(void)pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("fork");

	tcase_add_test(tc, fork__waits_for_a_lookup_that_has_just_begun);
	tcase_add_test(tc, fork__does_not_wait_for_name_servers);
#ifndef __SANITIZE_THREAD__
	tcase_add_test(tc, fork__leaves_the_child_a_resolver);
#endif
	tcase_add_test(tc, fork__during_a_close_leaves_the_child_no_descriptor);
	return unit_main();
}
