/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules of nftables do to the first packet of a new connection from another host.  Only
 * what a rule says for certain counts: one that depends on the packet's sender, interface or
 * anything else that is not known here may match or not.  Threads: [any]. */
#ifndef RMEMCTL_DOCTOR_RULESET_H
#define RMEMCTL_DOCTOR_RULESET_H

#include <jansson.h>
#include <stdbool.h>

enum ruleset_fate {
	RULESET_ACCEPTED,
	RULESET_PARTLY, /* dropped, unless a rule accepts it that depends on the sender */
	RULESET_DROPPED
};

/* A packet that arrives for this host. */
struct ruleset_packet {
	bool udp; /* else TCP */
	unsigned port;
};

#define RULESET_TEXT_BYTES 256

struct ruleset_result {
	enum ruleset_fate fate;
	/* if the packet is dropped, else "": */
	char hook
		[RULESET_TEXT_BYTES]; /* the chain that drops it, "inet filter input" */
	char why[RULESET_TEXT_BYTES]; /* the rule or policy */
};

/* Judge the answer to `list ruleset` in JSON. */
struct ruleset_result ruleset_judge(const json_t *ruleset,
				    const struct ruleset_packet *packet);

#endif
