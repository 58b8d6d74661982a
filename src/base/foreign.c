/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#define STEP 4096 /* no page is smaller */
#define PLACES (FOREIGN_PROBE_MAX / STEP + 1)

/* By a kernel without the call, or by a filter of seccomp(2). */
static bool is_refused(ssize_t result)
{
	return result < 0 && (errno == ENOSYS || errno == EPERM);
}

static ssize_t outcome(ssize_t result)
{
	return result < 0 ? -errno : result;
}

/* Slower, but every sandbox has pipes.  It is open for this copy alone, so that no file of the
 * program can have taken its number. */
static ssize_t copy_through_pipe(const struct iovec *to, size_t n_to,
				 const struct iovec *from, size_t n_from)
{
	ssize_t result;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return -errno;
	result = outcome(writev(fds[1], from, (int)n_from));
	if (result > 0)
		result = outcome(readv(fds[0], to, (int)n_to));
	(void)close(fds[0]);
	(void)close(fds[1]);
	return result;
}

/* What the kernel calls remote is the caller's: mappings of devices are refused there. */
ssize_t foreign_read(void *to, size_t bytes, const struct iovec *from, size_t n)
{
	const struct iovec own = { to, bytes };
	ssize_t result = process_vm_writev(getpid(), from, n, &own, 1, 0);

	return is_refused(result) ? copy_through_pipe(&own, 1, from, n)
				  : outcome(result);
}

/* A byte of each page. */
int foreign_probe(void *to, size_t bytes)
{
	char bytes_of[PLACES] = { 0 };
	struct iovec own = { bytes_of, 0 }, places[PLACES];
	size_t n = 0;
	ssize_t result;

	for (size_t at = 0; at < bytes - 1; at += STEP)
		places[n++] = (struct iovec){ (char *)to + at, 1 };
	places[n++] = (struct iovec){ (char *)to + bytes - 1, 1 };
	own.iov_len = n;
	result = process_vm_readv(getpid(), places, n, &own, 1, 0);
	result = is_refused(result) ? copy_through_pipe(places, n, &own, 1)
				    : outcome(result);
	if (result < 0)
		return (int)result;
	return (size_t)result == n ? 0 : -EFAULT;
}
