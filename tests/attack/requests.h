/* SPDX-License-Identifier: BSD-3-Clause */
/* Who asks for channels over RDMA without a connection, as bytes that say anything.  Over RoCE a
 * request is a datagram to the queue pair of the kernel's rdma_cm, over iWARP the first bytes of a
 * TCP connection. */
#ifndef TESTS_ATTACK_REQUESTS_H
#define TESTS_ATTACK_REQUESTS_H

#include "attack.h"

#define REQUEST_DATA_BYTES 56

/* The addresses are IPv4 ones, and RoCE's alone: over iWARP a connection is where it comes from. */
struct request {
	struct fabric_address from; /* address of the peer, as rdma_cm calls it */
	/* address of the GID that the queue pair is to answer to */
	struct fabric_address route;
	uint8_t data[REQUEST_DATA_BYTES];
};

/* From the daemon's own address. */
struct request request_new(void);

struct requests;

/* To the daemon's endpoint. */
struct requests *requests_open(const struct fabric_endpoint *endpoint);
/* Waits while too many are under way. */
void requests_send(struct requests *requests, const struct request *request);
void requests_close(struct requests *requests);

#endif
