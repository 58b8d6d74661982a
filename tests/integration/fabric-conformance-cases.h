/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the suite, in groups; each adds its own. */
#ifndef TESTS_FABRIC_CONFORMANCE_CASES_H
#define TESTS_FABRIC_CONFORMANCE_CASES_H

#include <check.h>

void transfer_cases(TCase *tcase);   /* bytes arrive */
void isolation_cases(TCase *tcase);  /* only where they may */
void atomic_cases(TCase *tcase);     /* compare-and-swap, fetch-and-add */
void inband_cases(TCase *tcase);     /* ping, fill, copy, CRC, notifications */
void withdrawal_cases(TCase *tcase); /* the end of exposures and of sessions */
void channel_cases(TCase *tcase);    /* admission and the end of channels */
void mixer_cases(TCase *tcase);      /* everything at once */

#endif
