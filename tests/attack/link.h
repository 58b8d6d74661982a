/* SPDX-License-Identifier: BSD-3-Clause */
/* A data channel of a peer, over the fabric under attack, that can ask for any address and key. */
#ifndef TESTS_ATTACK_LINK_H
#define TESTS_ATTACK_LINK_H

#include "peer.h"

#define LINK_BYTES 8192

struct link {
	struct peer *peer;
	const struct fabric_client_ops *ops;
	struct fabric_domain *domain;
	struct fabric_cq *cq;
	struct fabric_channel *channel; /* NULL: none */
	uint8_t *memory;                /* LINK_BYTES */
	struct fabric_local_mr *region;
	bool can_atomics;
	bool iwarp;
	unsigned reconnects;
};

/* The endpoint of the peer's server that links use. */
struct fabric_endpoint link_endpoint(const struct peer *peer);
/* Without a channel. */
struct link *link_open(struct peer *peer);
/* With one. */
struct link *link_connect(struct peer *peer);
void link_close(struct link *link);
/* Whether the server admits a channel with this hello, which becomes the link's; -errno. */
int link_admit(struct link *link, const struct fabric_hello *hello);

/* Run one operation between the link's memory and remote memory; the status of its completion.  A
 * channel that has ended is replaced before the operation. */
int link_run(struct link *link, enum fabric_opcode opcode, struct fabric_key key,
	     uint64_t bytes);
int link_copy(struct link *link, struct fabric_key to, struct fabric_key from,
	      uint64_t bytes);
/* Read n bytes with many keys, those of key.rkey ^ from ... key.rkey ^ (to - 1); returns how many
 * were refused.  TCP alone, where a refused access does not end the channel. */
unsigned link_guess(struct link *link, struct fabric_key key, unsigned from,
		    unsigned to);
/* The same on the channel as it is: after its server has ended it, -ECONNRESET. */
int link_run_once(struct link *link, enum fabric_opcode opcode, struct fabric_key key,
		  uint64_t bytes);

#endif
