/* SPDX-License-Identifier: BSD-3-Clause */
/* What a data thread has moved, counted by it alone and read by the loop. */
#ifndef FABRIC_TCP_TRAFFIC_H
#define FABRIC_TCP_TRAFFIC_H

#include <stdatomic.h>
#include <stdint.h>

struct tcp_traffic {
	/* of the streams, without what TLS adds */
	_Atomic uint64_t received_bytes, sent_bytes;
	_Atomic uint64_t reads, writes, atomics, inband; /* done */
	_Atomic uint64_t refused;
};

/* [data thread]: no other one writes, so this needs no locked instruction. */
static inline void tcp_traffic_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter,
			      atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

#endif
