/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets a test see the clocks of a host that has been suspended. */
#ifndef TESTS_UNIT_SUSPENDED_H
#define TESTS_UNIT_SUSPENDED_H

#include <stdbool.h>

#define SUSPENDED_S 100000

/* From now on CLOCK_BOOTTIME of this process is SUSPENDED_S ahead, as after a suspension of that
 * time, and CLOCK_MONOTONIC is not; call it before there are threads.  False, with a line that says
 * so: there is no permission for a time namespace. */
bool unit_suspended(void);

#endif
