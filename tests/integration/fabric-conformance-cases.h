/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups of cases; each function adds its cases to the suite. */
#ifndef TESTS_FABRIC_CONFORMANCE_CASES_H
#define TESTS_FABRIC_CONFORMANCE_CASES_H

#include <check.h>

void transfer_cases(TCase *tcase);       /* bytes arrive */
void isolation_cases(TCase *tcase);      /* rights, rkeys and bounds */
void atomic_cases(TCase *tcase);         /* compare-and-swap, fetch-and-add */
void inband_cases(TCase *tcase);         /* ping, fill, copy, CRC, notifications */
void deregistration_cases(TCase *tcase); /* the end of memory regions and of sessions */
void channel_cases(TCase *tcase);        /* admission and the end of channels */
void mixer_cases(TCase *tcase);          /* random operations of several sessions */

#endif
