/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a program and kills it with SIGKILL at its N-th step.  A step is a system call of any of
 * its threads that another host or the kernel's RDMA stack can notice: one that sends, receives,
 * connects, closes or controls a device.  A sweep of N kills a client at every point of the
 * protocol.
 *
 *   killstep N PROGRAM [ARG ...]
 *
 * Exit status: 0 the program was killed at step N (the last line names the call), 3 it ended
 * with success before, 1 it ended with failure, 2 bad usage or no ptrace. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	long number;
	const char *name;
} steps[] = {
	{ SYS_connect, "connect" }, { SYS_sendto, "sendto" },
	{ SYS_sendmsg, "sendmsg" }, { SYS_recvfrom, "recvfrom" },
	{ SYS_recvmsg, "recvmsg" }, { SYS_write, "write" },
	{ SYS_writev, "writev" },   { SYS_ioctl, "ioctl" },
	{ SYS_close, "close" },     { SYS_shutdown, "shutdown" },
};

static const char *step_name(long number)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i].number == number)
			return steps[i].name;
	return NULL;
}

static void child_run(char **argv)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) {
		perror("killstep: ptrace");
		_exit(2);
	}
	(void)execvp(argv[0], argv);
	perror("killstep: exec");
	_exit(2);
}

/* The number of the system call that a thread is about to enter, or -1. */
static long call_entered(pid_t thread)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) <= 0)
		return -1;
	return info.op == PTRACE_SYSCALL_INFO_ENTRY ? (long)info.entry.nr : -1;
}

/* Continue a stopped thread; it is no error if the thread has died. */
static void thread_continue(pid_t thread, int signal_number)
{
	(void)ptrace(PTRACE_SYSCALL, thread, NULL, (void *)(long)signal_number);
}

static int watch(pid_t child, unsigned long wanted)
{
	unsigned long seen = 0;
	int status;
	pid_t thread;

	while ((thread = waitpid(-1, &status, __WALL)) > 0) {
		int signal_number = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
		const char *name = NULL;

		if (thread == child && WIFEXITED(status))
			return WEXITSTATUS(status) == 0 ? 3 : 1;
		if (thread == child && WIFSIGNALED(status))
			return 1;
		if (!WIFSTOPPED(status))
			continue;
		if (signal_number == (SIGTRAP | 0x80))
			name = step_name(call_entered(thread));
		if (name && ++seen == wanted) {
			(void)printf("killed at step %lu: %s\n", seen, name);
			(void)kill(child, SIGKILL);
			while (waitpid(-1, &status, __WALL) > 0)
				;
			return 0;
		}
		/* the program gets its own signals, not those of ptrace */
		if ((signal_number & 0x7f) == SIGTRAP || signal_number == SIGSTOP)
			signal_number = 0;
		thread_continue(thread, signal_number);
	}
	return 1;
}

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	if (argc < 3) {
		(void)fprintf(stderr, "usage: killstep N PROGRAM [ARG ...]\n");
		return 2;
	}
	child = fork();
	if (child < 0) {
		perror("killstep: fork");
		return 2;
	}
	if (child == 0)
		child_run(argv + 2);
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		return 2;
	if (ptrace(PTRACE_SETOPTIONS, child, NULL,
		   (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
			    PTRACE_O_EXITKILL))) {
		perror("killstep: ptrace");
		return 2;
	}
	thread_continue(child, 0);
	return watch(child, strtoul(argv[1], NULL, 10));
}
