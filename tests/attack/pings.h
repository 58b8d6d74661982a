/* SPDX-License-Identifier: BSD-3-Clause */
/* The round trips of honest sessions that ping, in a file that two processes map. */
#ifndef TESTS_ATTACK_PINGS_H
#define TESTS_ATTACK_PINGS_H

#include <stdatomic.h>
#include <stdint.h>

#define PINGS_MAX (1u << 20)

struct pings {
	_Atomic uint32_t n; /* number of those begun: PINGS_MAX at most are kept */
	_Atomic uint32_t us[PINGS_MAX]; /* 0: not back yet */
};

#endif
