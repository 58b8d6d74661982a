/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of libevent that the daemon's loop needs, over this clock and these descriptors. */
#ifndef TESTS_SIMULATE_EVENTS_H
#define TESTS_SIMULATE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the loop would not sleep now. */
bool events_ready(void);
/* When the next timer expires. */
uint64_t events_due_ns(void);
/* A turn of the loop: those that are due, descriptors first. */
void events_turn(void);
/* The number of events. */
unsigned events_count(void);

#endif
