/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors without a kernel: events, timers, sets of them (epoll), and sockets.  The linker
 * leads the calls of daemon and library here (-Wl,--wrap); other descriptors are the kernel's. */
#ifndef TESTS_SIMULATE_FDS_H
#define TESTS_SIMULATE_FDS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "simulate/network.h"

/* Put a socket under a descriptor, which owns it. */
int fds_add_socket(struct socket *socket);
struct socket *fds_socket(int fd);
void fds_close(int fd);
/* The events of poll() that are due. */
short fds_events(int fd);
/* When the descriptor will have events, without anybody's doing; SIM_NEVER: it will not. */
uint64_t fds_due_ns(int fd);
/* The number of open descriptors. */
unsigned fds_count(void);

#endif
