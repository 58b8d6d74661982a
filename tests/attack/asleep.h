/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the daemon's main loop waits for an RDMA device: another thread looks again and again at
 * the call of the kernel in which it sleeps. */
#ifndef TESTS_ATTACK_ASLEEP_H
#define TESTS_ATTACK_ASLEEP_H

#include <stdint.h>

struct asleep {
	uint64_t looks;
	uint64_t found; /* it slept in a call of a device */
};

void asleep_begin(uint64_t pid);
struct asleep asleep_end(void);

#endif
