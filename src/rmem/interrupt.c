/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"

static sigset_t signals;
static int signal_fd = -1;

int interrupt_catch(void)
{
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGHUP);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		return err_errno(-errno, "signalfd");
	if (sigprocmask(SIG_BLOCK, &signals, NULL))
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

	if (signal_fd < 0 || read(signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	(void)signal((int)info.ssi_signo, SIG_DFL);
	(void)raise((int)info.ssi_signo);
	(void)sigprocmask(SIG_UNBLOCK, &signals, NULL);
}
