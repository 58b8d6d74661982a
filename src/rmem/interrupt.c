/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/interrupt.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rmem/rmem.h>

#include "base/err.h"

/* time to end in order after a signal: a call of the library may wait for a silent server */
#define END_S 5

static int event_fd = -1;
static volatile sig_atomic_t caught; /* the signal that came; 0: none */
static char litter[PATH_MAX];        /* "": none */

static void die(int signo)
{
	sigset_t set;

	if (litter[0])
		(void)unlink(litter);
	(void)signal(signo, SIG_DFL);
	(void)raise(signo);
	/* it is blocked while its handler runs */
	(void)sigemptyset(&set);
	(void)sigaddset(&set, signo);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void on_signal(int signo)
{
	int saved = errno;
	uint64_t one = 1;

	if (caught)
		die(signo == SIGALRM ? caught : signo);
	caught = signo;
	(void)!write(event_fd, &one, sizeof(one));
	(void)alarm(END_S);
	errno = saved;
}

/* SIGHUP stays ignored after nohup(1). */
static int handle(int signo)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction before;

	if (sigaction(signo, NULL, &before))
		return err_errno(-errno, "sigaction");
	if (signo == SIGHUP && before.sa_handler == SIG_IGN)
		return 0;
	return sigaction(signo, &action, NULL) ? err_errno(-errno, "sigaction") : 0;
}

int interrupt_catch(const char *temporary)
{
	static const int signals[] = { SIGALRM, SIGINT, SIGTERM, SIGHUP };
	int err = 0;

	event_fd = eventfd(0, EFD_CLOEXEC);
	if (event_fd < 0)
		return err_errno(-errno, "eventfd");
	(void)snprintf(litter, sizeof(litter), "%s", temporary);
	for (size_t i = 0; !err && i < sizeof(signals) / sizeof(signals[0]); i++)
		err = handle(signals[i]);
	return err;
}

int interrupt_fd(void)
{
	return event_fd;
}

bool interrupt_wait(int ms)
{
	struct pollfd pfd = { .fd = event_fd, .events = POLLIN };

	/* poll() ignores a descriptor of -1 */
	return poll(&pfd, 1, ms) > 0 || caught;
}

static int has_caught(void *ctx)
{
	(void)ctx;
	return caught;
}

void interrupt_calls(void)
{
	rmem_thread_interrupt(has_caught, NULL);
}

void interrupt_die(void)
{
	if (caught)
		die(caught);
}
