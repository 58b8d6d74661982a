/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/descriptors.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/err.h"

/* For listeners, RDMA devices, the ledger, the admin socket and the libraries. */
#define OTHERS 256
/* Of a pool: its memory, and that of a resize. */
#define POOL_DESCRIPTORS 2
/* Of a data thread: its epoll set, timer and mailbox, and one to spare. */
#define THREAD_DESCRIPTORS 4

int descriptors_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return err_errno(-errno, "getrlimit of RLIMIT_NOFILE");
	if (limit.rlim_cur == limit.rlim_max)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return err_errno(-errno, "setrlimit of RLIMIT_NOFILE");
	return 0;
}

uint64_t descriptors_limit(void)
{
	struct rlimit limit;

	/* fails only for an invalid address */
	return getrlimit(RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_cur;
}

/* Those that are neither for sessions, nor for their channels, nor for newcomers.  Connections
 * without a hello are limited on their own, at each port. */
static uint64_t other_descriptors(const struct config *config, unsigned n_tcp)
{
	return OTHERS + (uint64_t)POOL_DESCRIPTORS * config->n_pools +
	       (uint64_t)THREAD_DESCRIPTORS * config_tcp_threads(config) * n_tcp +
	       (uint64_t)config->connections_max * (1 + n_tcp);
}

struct descriptors_plan descriptors_divide(uint64_t limit, const struct config *config,
					   unsigned n_tcp)
{
	uint64_t others = other_descriptors(config, n_tcp);
	/* the process starts even if it can serve one session only */
	uint64_t left = limit > others + 2 ? limit - others : 2;
	unsigned newcomers = left / 8 < DESCRIPTORS_NEWCOMERS_MAX
				     ? (unsigned)(left / 8)
				     : DESCRIPTORS_NEWCOMERS_MAX;
	struct descriptors wanted = { .sessions = config->sessions_max }, fits;

	left -= newcomers;
	if (n_tcp)
		wanted.channels = wanted.sessions * config->channels_max;
	fits.sessions =
		left - (wanted.channels < left / 2 ? wanted.channels : left / 2);
	if (fits.sessions > wanted.sessions)
		fits.sessions = wanted.sessions;
	left -= fits.sessions;
	fits.channels = wanted.channels < left ? wanted.channels : left;
	return (struct descriptors_plan){ .wanted = wanted,
					  .needed = others + DESCRIPTORS_NEWCOMERS_MAX +
						    wanted.sessions + wanted.channels,
					  .newcomers = newcomers,
					  .fits = fits };
}
