/* SPDX-License-Identifier: BSD-3-Clause */
/* What every unit test shares: run one suite, report by TAP. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <check.h>

/* Run the suite; the exit status is 0 when every case passed.  Frees the suite. */
int unit_main(Suite *suite);

#endif
