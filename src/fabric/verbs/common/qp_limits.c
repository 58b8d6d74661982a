/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/qp_limits.h"

#include <endian.h>
#include <string.h>

#include "fabric/verbs/common/cm.h"

#define LIMITS_MAGIC UINT32_C(0x746d6d72) /* "rmmt" on the wire */

struct limits_wire {
	uint32_t magic;
	uint16_t mtu;
	uint8_t retries;
	uint8_t rnr;
} __attribute__((packed));

_Static_assert(sizeof(struct limits_wire) == VERBS_QP_LIMITS_BYTES,
	       "terms on the wire");
_Static_assert(FABRIC_HELLO_BYTES + VERBS_QP_LIMITS_BYTES <= VERBS_PRIVATE_BYTES,
	       "hello and terms fit into private data");

struct verbs_qp_limits
verbs_qp_limits_of(const struct fabric_rdma_options *rdma_options)
{
	return (struct verbs_qp_limits){
		.mtu = rdma_options->mtu == FABRIC_OPTION_AUTO
			       ? UINT16_MAX
			       : (uint16_t)rdma_options->mtu,
		.retry_count = (uint8_t)rdma_options->retry_count,
		.rnr_retry_count = (uint8_t)rdma_options->rnr_retry_count,
	};
}

static uint8_t lesser(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

struct verbs_qp_limits verbs_qp_limits_min(const struct verbs_qp_limits *a,
					   const struct verbs_qp_limits *b)
{
	return (struct verbs_qp_limits){
		.mtu = a->mtu < b->mtu ? a->mtu : b->mtu,
		.retry_count = lesser(a->retry_count, b->retry_count),
		.rnr_retry_count = lesser(a->rnr_retry_count, b->rnr_retry_count),
	};
}

void verbs_qp_limits_encode(const struct verbs_qp_limits *limits,
			    uint8_t buf[VERBS_QP_LIMITS_BYTES])
{
	const struct limits_wire wire = {
		.magic = htole32(LIMITS_MAGIC),
		.mtu = htole16(limits->mtu),
		.retries = limits->retry_count,
		.rnr = limits->rnr_retry_count,
	};

	memcpy(buf, &wire, sizeof(wire));
}

struct verbs_qp_limits verbs_qp_limits_decode(const uint8_t *buf, size_t bytes)
{
	const struct verbs_qp_limits none = { UINT16_MAX, VERBS_RETRIES,
					      VERBS_RETRIES };
	struct verbs_qp_limits limits;
	struct limits_wire wire;

	if (bytes < sizeof(wire))
		return none;
	memcpy(&wire, buf, sizeof(wire));
	if (le32toh(wire.magic) != LIMITS_MAGIC)
		return none;
	limits = (struct verbs_qp_limits){ le16toh(wire.mtu), wire.retries, wire.rnr };
	/* a peer may ask for less, not for ever */
	return verbs_qp_limits_min(&limits, &none);
}
