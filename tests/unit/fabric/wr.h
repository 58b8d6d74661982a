/* SPDX-License-Identifier: BSD-3-Clause */
/* Single operations of a fabric: each has all its parameters in one structure, and a
 * completion of its own with its cookie. */
#ifndef TESTS_WR_H
#define TESTS_WR_H

#include <stdatomic.h>

#include "fabric/client.h"

struct wr {
	enum fabric_opcode opcode;
	uint32_t bytes;
	void *addr;
	struct fabric_local_mr *region;
	uint64_t remote_addr;
	uint64_t rkey;
	uint64_t cookie;
	struct fabric_atomic atomic;     /* of FABRIC_CAS and FABRIC_FETCH_ADD */
	const struct fabric_sge *slices; /* instead of addr, if not NULL */
	unsigned n_slices;
	struct fabric_inband_request request; /* of in-band requests */
};

struct wc {
	struct fabric_channel *channel;
	uint64_t cookie;
	int status;
	uint32_t vendor;
	const char *text;
};

/* The number of completions that only asked for another channel, which wr_poll() does not
 * return. */
extern _Atomic unsigned wr_worn;

/* These call the functions of the ops table; wr_post() posts a single read or write
 * with post_one(), others with a prepare call for each operation and post(). */
int wr_connect(const struct fabric_client_ops *ops, struct fabric_cq *cq,
	       const struct fabric_channel_params *params,
	       struct fabric_channel **ret_channel);
int wr_post(const struct fabric_client_ops *ops, struct fabric_channel *channel,
	    const struct wr *wrs, unsigned n);
int wr_poll(const struct fabric_client_ops *ops, struct fabric_cq *cq, struct wc *wcs,
	    unsigned n);

#endif
