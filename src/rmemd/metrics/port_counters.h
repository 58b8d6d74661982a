/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's counters of RDMA ports, in sysfs: one-sided operations do not pass the daemon.
 * Reading them may ask the firmware of a device, so a thread does it, each 15 s, or as often as
 * somebody asks.  They count the traffic of all programs of the host.  Threads: [loop]. */
#ifndef RMEMD_METRICS_PORT_COUNTERS_H
#define RMEMD_METRICS_PORT_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "wire/msg.h"

#define PORT_COUNTERS_SYSFS "/sys/class/infiniband"
/* What a device does not count. */
#define PORT_COUNTER_NONE UINT64_MAX

struct port_id {
	char device[FABRIC_DEVICE_MAX];
	unsigned number;
};

/* "Retries" are of requests of this host, but `duplicates` and `out_of_order`, which are what it
 * sees of those of others. */
struct port_numbers {
	uint64_t up; /* 1 or 0 */
	uint64_t received_bytes, sent_bytes, received_packets, sent_packets;
	uint64_t reads, writes, atomics, sends; /* received requests */
	uint64_t retries_timeout, retries_sequence, retries_rnr;
	uint64_t duplicates, out_of_order, retries_exceeded;
	uint64_t access_errors, length_errors, discards, receive_errors, link_downed;
	uint64_t cnp_sent, cnp_handled, ecn_marked;
};

struct port_counters;

/* Start the thread for these ports, of which each is once.  sysfs: PORT_COUNTERS_SYSFS, except in
 * tests.  -EAGAIN, -ENOMEM with text */
int port_counters_open(const char *sysfs, const struct port_id *ports, unsigned n,
		       struct port_counters **ret_counters);
/* Joins the thread.  NULL: nothing. */
void port_counters_close(struct port_counters *counters);

unsigned port_counters_n(const struct port_counters *counters);
const struct port_id *port_counters_id(const struct port_counters *counters,
				       unsigned i);
/* The last reading; never blocks.  All is PORT_COUNTER_NONE if there is none of the last seconds:
 * the kernel does not answer. */
void port_counters_get(struct port_counters *counters, unsigned i,
		       struct port_numbers *ret_numbers);

#endif
