/* SPDX-License-Identifier: BSD-3-Clause */
/* main() of the unit tests: one suite with TAP output. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <check.h>

/* Add a case to the suite, with checked fixtures or NULL. */
TCase *unit_case(const char *name, SFun setup, SFun teardown);
/* Run the suite; returns the exit status, 0 when every case passed. */
int unit_main(void);

#endif
