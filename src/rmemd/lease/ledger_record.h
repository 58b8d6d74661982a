/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases and attachments in the ledger, so that they outlast the process: put there before
 * anybody is told of them, and taken out before their memory is given back.  Here they are
 * staged; who answers a request commits.  Threads: [loop]. */
#ifndef RMEMD_LEASE_LEDGER_RECORD_H
#define RMEMD_LEASE_LEDGER_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "wire/msg.h"

struct attachment;
struct lease;
struct ledger_key;

/* ---- writing ---- */

/* As they are now.  -ENOMEM, -ENOSPC */
int lease_record(const struct lease *lease);
int attachment_record(const struct attachment *attachment);
/* Room for lease_record() of a lease that is recorded already, which then cannot fail until
 * the next commit.  -ENOMEM, -ENOSPC */
int lease_record_reserve(const struct lease *lease);

/* Not there: nothing.  While the table is being closed they stay. */
void lease_unrecord(const struct lease *lease);
void attachment_unrecord(const struct attachment *attachment);

/* ---- reading ---- */

/* The segments follow, then the tenant's name and the lease's, each ended by a zero. */
struct lease_head {
	uint32_t head_bytes;
	uint32_t n_segments;
	uint64_t bytes;
	uint64_t align;
	uint64_t owner;      /* session; 0: named */
	uint64_t granted_ms; /* these by the clock that only goes on, */
	uint64_t due_ms; /* which a restart of the process does not touch; 0: never */
	uint64_t ttl_ms;
	uint32_t generation;
	int32_t node;
	uint32_t home_kind;
	uint32_t placement;
	char home_device[FABRIC_DEVICE_MAX];
};

/* Of an extent what the segment uses: what it has behind that is cleaned after a restart. */
struct segment_row {
	uint64_t offset; /* in the pool */
	uint64_t bytes;
	uint64_t dirty;
	uint32_t pool;
	uint32_t unused;
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
};

/* -EBADMSG */
int lease_record_decode(const struct ledger_key *key, const void *data, size_t bytes,
			struct lease_record *ret_record);
int attachment_record_decode(const struct ledger_key *key, const void *data,
			     size_t bytes, struct attachment_head *ret_head);

#endif
