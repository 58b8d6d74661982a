/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong: the network, the daemon, its memory, the devices, the clients. */
#ifndef TESTS_SIMULATE_FAULTS_H
#define TESTS_SIMULATE_FAULTS_H

/* Perhaps something goes wrong in this step. */
void faults_step(void);
/* Nothing goes wrong any more. */
void faults_heal(void);

#endif
