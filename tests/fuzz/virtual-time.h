/* SPDX-License-Identifier: BSD-3-Clause */
/* A clock that passes only while the program waits: poll(2), ppoll(2) and epoll_wait(2) that would
 * wait advance it instead, and let the timers of the kernel expire that are due.  Linked with
 * $(FUZZ_TIME). */
#ifndef TESTS_FUZZ_VIRTUAL_TIME_H
#define TESTS_FUZZ_VIRTUAL_TIME_H

#include <stdint.h>

/* Use the clock, and begin it again. */
void virtual_time_reset(void);
uint64_t virtual_time_ms(void);
void virtual_time_pass(uint64_t ms);

#endif
