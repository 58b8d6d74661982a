/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of a fabric one by one: each is described whole, has a cookie, and ends in a
 * completion of its own that brings the cookie back. */
#ifndef TESTS_WR_H
#define TESTS_WR_H

#include "fabric/fabric.h"

struct wr {
	enum fabric_opcode opcode;
	uint32_t bytes;
	void *addr;
	struct fabric_local_mr *region;
	uint64_t remote_addr;
	uint64_t rkey;
	uint64_t cookie;
	struct fabric_atomic atomic;     /* of FABRIC_CAS and FABRIC_FETCH_ADD */
	const struct fabric_sge *slices; /* several, in the place of addr; else NULL */
	unsigned n_slices;
	struct fabric_inband_request request; /* of an in-band one */
};

struct wc {
	struct fabric_channel *channel;
	uint64_t cookie;
	int status;
	uint32_t vendor;
	const char *text;
};

/* As the functions of the ops table; a batch is a put for each operation and a post, or, of one
 * read or write, a post_one. */
int wr_connect(const struct fabric_client_ops *ops, struct fabric_cq *cq,
	       const struct fabric_channel_params *params,
	       struct fabric_channel **ret_channel);
int wr_post(const struct fabric_client_ops *ops, struct fabric_channel *channel,
	    const struct wr *wrs, unsigned n);
int wr_poll(const struct fabric_client_ops *ops, struct fabric_cq *cq, struct wc *wcs,
	    unsigned n);

#endif
