/* SPDX-License-Identifier: BSD-3-Clause */
/* The ledger's records of leases and attachments, which outlast the process: written before a
 * client is told of the lease, and removed before its memory is freed.  The functions stage the
 * changes; the caller that replies to a request commits.  Threads: [loop]. */
#ifndef RMEMD_LEASE_LEDGER_RECORD_H
#define RMEMD_LEASE_LEDGER_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "rmemd/lease/share.h"
#include "wire/msg.h"

struct attachment;
struct lease;
struct ledger_key;

/* ---- writing ---- */

/* Stage the present state.  -ENOMEM, -ENOSPC */
int lease_record(const struct lease *lease);
int attachment_record(const struct attachment *attachment);
/* Reserve room: until the next commit lease_record() of a recorded lease cannot fail.  -ENOMEM,
 * -ENOSPC */
int lease_record_reserve(const struct lease *lease);

/* Stage the removal of a record, if there is one.  No effect while the table is being closed.
 * Without the lease's record those of its attachments mean nothing. */
void lease_unrecord(const struct lease *lease);
void attachment_unrecord(const struct attachment *attachment);

/* ---- reading ---- */

/* Followed by the segments, the tenant's name and the lease's name, each name ended by a zero, the
 * shares, and the name and the address of the client that made it, ended by zeros too. */
struct lease_head {
	uint32_t head_bytes;
	uint32_t n_segments;
	uint64_t bytes;
	uint64_t align;
	uint64_t owner; /* session; 0: named */
	/* time by the monotonic clock, which a restart of the process keeps */
	uint64_t granted_ms;
	uint64_t due_ms; /* by that clock; 0: never */
	uint64_t ttl_ms;
	uint32_t generation;
	int32_t node;
	uint32_t atomic_kind;
	uint32_t placement;
	char atomic_device[FABRIC_DEVICE_MAX];
	uint32_t n_shares;
	uint32_t visited;
	uint64_t creator; /* session; 0: not known, and there are no texts of it */
};

/* The part of an extent that the segment uses; the rest is cleaned after a restart. */
struct segment_row {
	uint64_t offset; /* in the pool */
	uint64_t bytes;
	uint64_t dirty;
	uint32_t pool;
	uint32_t unused;
};

/* A tenant that may attach the lease. */
struct share_row {
	char tenant[WIRE_LABEL_MAX];
	uint32_t rights;
};

struct attachment_head {
	uint32_t head_bytes;
	uint32_t rights;
	uint32_t watching;
	uint32_t unused;
};

struct lease_record {
	struct lease_head head;
	struct segment_row rows[WIRE_SEGMENTS_MAX];
	const char *tenant; /* in the value */
	const char *name;   /* "": ephemeral */
	struct share_row shares[SHARES_MAX];
	const char *creator, *creator_peer; /* in the value; NULL: not known */
};

/* -EBADMSG */
int lease_record_decode(const struct ledger_key *key, const void *data, size_t bytes,
			struct lease_record *ret_record);
int attachment_record_decode(const struct ledger_key *key, const void *data,
			     size_t bytes, struct attachment_head *ret_head);

#endif
