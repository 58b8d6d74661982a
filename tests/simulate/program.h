/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client does: sessions, leases, bytes and names at random, and what it must find. */
#ifndef TESTS_SIMULATE_PROGRAM_H
#define TESTS_SIMULATE_PROGRAM_H

/* Without a past. */
void program_init(void);
/* The client's main function, and that of its second thread. */
void program_run(unsigned client);
void mate_run(unsigned client);
/* Each client has as many leases as the daemon has of it. */
void program_check_owned(void);

#endif
