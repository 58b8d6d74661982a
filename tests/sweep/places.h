/* SPDX-License-Identifier: BSD-3-Clause */
/* The backtrace of the call that has failed, with functions and lines. */
#ifndef TESTS_SWEEP_PLACES_H
#define TESTS_SWEEP_PLACES_H

#include "sweep/calls.h"

void places_print(const struct calls *calls);

#endif
