/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"

static int signal_fd = -1;

static void set_fill(sigset_t *set)
{
	(void)sigemptyset(set);
	(void)sigaddset(set, SIGINT);
	(void)sigaddset(set, SIGTERM);
	(void)sigaddset(set, SIGHUP);
}

int interrupt_catch(void)
{
	sigset_t set;

	set_fill(&set);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		return err_errno(-errno, "signalfd");
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_errno(-errno, "sigprocmask");
	return 0;
}

int interrupt_fd(void)
{
	return signal_fd;
}

bool interrupt_wait(int ms)
{
	struct pollfd pfd = { .fd = signal_fd, .events = POLLIN };

	/* poll() ignores a descriptor of -1 */
	return poll(&pfd, 1, ms) > 0;
}

void interrupt_die(void)
{
	struct signalfd_siginfo info;
	sigset_t set;

	if (signal_fd < 0 || read(signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	(void)signal((int)info.ssi_signo, SIG_DFL);
	(void)raise((int)info.ssi_signo);
	set_fill(&set);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}
