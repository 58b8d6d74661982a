/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol: each message with its fields, their limits, and the protocol version
 * that introduced it.  Structures, encoder, decoder, names and the manual page follow this
 * table.
 *
 * A message grows at its end: `LATER` in its fields, and the new ones behind it.  A receiver
 * ignores what is behind the last field that it knows, and takes fields behind LATER that the
 * sender did not know as 0 or empty.  Items of lists never grow.  A new request is answered with
 * the error `unknown` by a server that does not know it, and a new event is ignored.
 *
 * A frame is a header of WIRE_HEADER_BYTES and a body, all little-endian:
 *
 *   u32 bytes     of the whole frame, header included
 *   u16 type      a message's number
 *   u16 zero
 *   u64 id        chosen by the client for a request: above 0, and higher than the ids
 *                 of all earlier requests of the session; a reply repeats it; 0 in events
 *
 * In a body STR is u16 length and text that is utf8_clean(), LIST is u16 count and items.
 * The reply to a request is ERROR, or the one that the table in wire/requests.h has.
 *
 * A request takes effect once.  After a lost connection the client resumes the session and first
 * sends its unanswered requests again, with their ids and in order.  The server repeats a reply
 * that it gave before; a repeated `lease` has the lease's present state.  A request fails with
 * `forgotten` if the server has already dropped its reply. */
#ifndef WIRE_MSG_H
#define WIRE_MSG_H

#include <stdint.h>
#include <string.h>

#define WIRE_MAGIC UINT32_C(0x6d656d72) /* "rmem" on the wire */
#define WIRE_VERSION_MIN 1
#define WIRE_VERSION_MAX 1
#define WIRE_HEADER_BYTES 16
#define WIRE_FRAME_MAX 65536

#define WIRE_TOKEN_BYTES 16
#define WIRE_SECRET_BYTES 32
#define WIRE_NAME_MAX 255
#define WIRE_LABEL_MAX 64
/* 16 addresses, and both ports of eight RDMA devices; an endpoint is a bit in masks of 32 */
#define WIRE_ENDPOINTS_MAX 32
/* Of a lease: with a key of each at every endpoint they take 38 KB of a frame; one that is twice as
 * long would not fit. */
#define WIRE_SEGMENTS_MAX 64
#define WIRE_KEYS_MAX (WIRE_SEGMENTS_MAX * WIRE_ENDPOINTS_MAX)
#define WIRE_ENTRIES_MAX 64
/* of all pages of a list: as many leases as a tenant may have */
#define WIRE_LISTED_MAX 16777216
#define WIRE_NOTICES_MAX 256
/* of a session, without a reply */
#define WIRE_REQUESTS_MAX 256
/* of notice.lost: this number or more */
#define WIRE_LOST_MAX UINT32_MAX
/* of welcome.fence_ms: a client waits up to twice that time for a server that does not answer */
#define WIRE_FENCE_MS_MAX 600000

/* Values of fields. */
enum wire_fabric { WIRE_FABRIC_AUTO = 0, WIRE_FABRIC_TCP = 1, WIRE_FABRIC_VERBS = 2 };
#define WIRE_RIGHT_READ 1u
#define WIRE_RIGHT_WRITE 2u
#define WIRE_RENAME_REPLACE 1u
/* detach.flags: nobody has used what was allocated; if no session has attached the lease since
 * then, it ends */
#define WIRE_DETACH_UNDO 1u
/* renew.flags: for as long as was given last, not ttl_ms */
#define WIRE_RENEW_SAME 1u
/* capabilities that this version knows: none yet */
#define WIRE_CAPABILITIES 0u
/* endpoint.flags: the device reports refused writes as done (iWARP); the client confirms
 * each write with a read on the same channel */
#define WIRE_ENDPOINT_CONFIRM 1u
/* the device has compare-and-swap and fetch-and-add */
#define WIRE_ENDPOINT_ATOMICS 2u
/* the server accepts in-band requests at this endpoint */
#define WIRE_ENDPOINT_INBAND 4u
/* data connections are set up by join_channel, not by rdma_cm; `port`, and the `address` of a
 * device without IP address, a GID, are those of the device's port */
#define WIRE_ENDPOINT_DIRECT 8u
/* some memory is lent through this endpoint but not through all RDMA devices: to reach all memory a
 * client needs a channel here */
#define WIRE_ENDPOINT_SOLE 16u
/* data connections are under TLS 1.3 once their hello is answered, with a key of the session and
 * the channel */
#define WIRE_ENDPOINT_TLS 32u
/* placement of memory */
enum wire_placement {
	WIRE_PLACE_NODE = 0,       /* on a node, or any */
	WIRE_PLACE_DEVICE = 1,     /* on the node of a device */
	WIRE_PLACE_INTERLEAVE = 2, /* in stripes over all nodes */
};
enum wire_reason {
	WIRE_REASON_FREED = 1,   /* it was freed */
	WIRE_REASON_EXPIRED = 2, /* its time to live is over */
	/* the administrator revoked it, or ended the session */
	WIRE_REASON_REVOKED = 3,
	WIRE_REASON_SHUTDOWN = 4,  /* the server stops */
	WIRE_REASON_TRIMMED = 5,   /* the lease became shorter */
	WIRE_REASON_GROWN = 6,     /* the lease became longer */
	WIRE_REASON_UNREACHED = 7, /* it is not lent through an endpoint any more */
	WIRE_REASON_REPLACED = 8,  /* another session gave its name to another lease */
	/* the tenant that owns it shares it no longer, or with fewer rights */
	WIRE_REASON_UNSHARED = 9,
};

/* Items of lists: name, fields. */
#define WIRE_FIELDS_endpoint(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U8(fabric)                                                          \
	U8(version) /* of the channels there */                             \
	U8(family)  /* 4 or 6 */                                            \
	RAW(address, 16)                                                    \
	U16(port)                                                           \
	I32(node) /* NUMA node, -1 unknown */                               \
	U32(flags)                                                          \
	STR(device, WIRE_LABEL_MAX)

#define WIRE_FIELDS_segment(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(bytes) /* that the lease uses */                               \
	I32(node)                                                          \
	U64(page_bytes)                                                    \
	U32(endpoints) /* that lend it, a bit each; 0: none at present */

/* The rkey of one segment at one endpoint. */
#define WIRE_FIELDS_key(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U8(segment)                                                    \
	U8(endpoint)                                                   \
	U64(addr)                                                      \
	U64(rkey)

#define WIRE_FIELDS_entry(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                       \
	U64(bytes)                                                       \
	U64(age_ms)                                                      \
	U64(ttl_ms) /* left; 0: no limit */                              \
	U32(sessions)                                                    \
	U32(segments)                                                    \
	STR(name, WIRE_NAME_MAX)

/* A notification of a lease that the session watches. */
#define WIRE_FIELDS_notice(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                        \
	U32(value)                                                        \
	U32(lost) /* notices of this lease dropped before this one, for lack of room */

/* One side of a data connection: its queue pair, its address on the fabric, and its limits;
 * the lower limit of both sides holds. */
#define WIRE_END(U8, U16, U32, RAW)                 \
	U32(qpn)                                    \
	U32(psn) /* of the first packet it sends */ \
	RAW(gid, 16)                                \
	U16(lid) /* 0: not on InfiniBand */         \
	U16(pkey)                                   \
	U16(mtu)                                    \
	U8(rd_atomic)                               \
	U8(retry_count)                             \
	U8(rnr_retry_count)
/* Copy the end from one message to another. */
#define WIRE_END_COPY(to, from)                                  \
	do {                                                     \
		(to)->qpn = (from)->qpn;                         \
		(to)->psn = (from)->psn;                         \
		memcpy((to)->gid, (from)->gid, 16);              \
		(to)->lid = (from)->lid;                         \
		(to)->pkey = (from)->pkey;                       \
		(to)->mtu = (from)->mtu;                         \
		(to)->rd_atomic = (from)->rd_atomic;             \
		(to)->retry_count = (from)->retry_count;         \
		(to)->rnr_retry_count = (from)->rnr_retry_count; \
	} while (0)

/* Messages: fields. */
#define WIRE_FIELDS_hello(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER)       \
	U32(magic)                                                             \
	U16(version_min)                                                       \
	U16(version_max)                                                       \
	U32(capabilities) /* WIRE_CAPABILITY_*, those that the client knows */ \
	STR(tenant, WIRE_LABEL_MAX)                                            \
	STR(client, WIRE_LABEL_MAX)                                            \
	U64(resume)                  /* session to resume, 0: a new one */     \
	RAW(token, WIRE_TOKEN_BYTES) /* of that session */                     \
	U8(channel) /* the fabric of a first data connection; 0: none */

#define WIRE_FIELDS_welcome(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER)       \
	U16(version)                                                             \
	U32(capabilities) /* those that both know */                             \
	U64(session)                                                             \
	RAW(token, WIRE_TOKEN_BYTES)   /* to resume the session */               \
	RAW(secret, WIRE_SECRET_BYTES) /* of this connection; admits channels */ \
	U8(resumed)                                                              \
	U32(heartbeat_ms)                                                        \
	U32(fence_ms)                                                            \
	U32(grace_ms)                                                            \
	U32(channels_max)                                                        \
	U64(lease_bytes_max)                                                     \
	/* of requests; while a session lives they do not become lower */        \
	U32(requests_max)        /* without a reply */                           \
	U32(stream_bytes_max)    /* of a read or write over TCP */               \
	U32(inband_bytes_max)    /* of the range of an in-band request */        \
	U32(inband_requests_max) /* of a channel over RDMA, without an answer */ \
	STR(server, WIRE_LABEL_MAX)                                              \
	LIST(endpoints, endpoint, WIRE_ENDPOINTS_MAX)                            \
	U32(channel) /* granted to a new session that asked for it; 0: none */   \
	U8(endpoint) /* through this one */

#define WIRE_FIELDS_open_channel(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U8(endpoint)
/* The current address of the endpoint, as in the welcome. */
#define WIRE_FIELDS_channel(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U32(channel)                                                       \
	U8(family)                                                         \
	RAW(address, 16)                                                   \
	U16(port)
#define WIRE_FIELDS_close_channel(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U32(channel)

#define WIRE_FIELDS_join_channel(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U32(channel)                                                            \
	WIRE_END(U8, U16, U32, RAW)
#define WIRE_FIELDS_joined(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	WIRE_END(U8, U16, U32, RAW)
#define WIRE_FIELDS_channel_ended(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U32(channel)

#define WIRE_FIELDS_allocate(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER)                 \
	U64(bytes)                                                                          \
	U64(align)                                                                          \
	I32(node)                                                                           \
	U64(ttl_ms)                                                                         \
	STR(name, WIRE_NAME_MAX)                                                            \
	U8(placement)                                                                       \
	STR(device, WIRE_LABEL_MAX) /* of WIRE_PLACE_DEVICE, else empty */                  \
	/* endpoints that the session uses or will use, a bit each; 0: those of channels */ \
	U32(reach)

/* The reply to allocate, attach and resize.  Keys are for the endpoints through which the
 * session has, or had, a channel. */
#define WIRE_FIELDS_lease(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                       \
	U32(generation) /* rises with each resize */                     \
	U8(rights)                                                       \
	U64(bytes)                                                       \
	U64(ttl_ms)                                                      \
	STR(name, WIRE_NAME_MAX)                                         \
	LIST(segments, segment, WIRE_SEGMENTS_MAX)                       \
	LIST(keys, key, WIRE_KEYS_MAX)                                   \
	/* as requested; the segments tell the actual nodes */           \
	U8(placement)                                                    \
	I32(node) /* of WIRE_PLACE_DEVICE that of the device; -1: any */

#define WIRE_FIELDS_free(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) U64(lease)
/* By name; or by id, to get the keys of an attached lease again. */
#define WIRE_FIELDS_attach(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                        \
	U8(rights)                                                        \
	STR(name, WIRE_NAME_MAX)                                          \
	U32(reach)                  /* as in allocate */                  \
	STR(tenant, WIRE_LABEL_MAX) /* that shares it; "": its own */
#define WIRE_FIELDS_detach(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                        \
	U32(flags) /* WIRE_DETACH_* */
#define WIRE_FIELDS_renew(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                       \
	U64(ttl_ms)                                                      \
	U32(flags) /* WIRE_RENEW_* */
#define WIRE_FIELDS_rename(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                        \
	U32(flags)                                                        \
	STR(name, WIRE_NAME_MAX)
#define WIRE_FIELDS_resize(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                        \
	U64(bytes)                                                        \
	U32(reach) /* as in allocate */
#define WIRE_FIELDS_remove(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	STR(name, WIRE_NAME_MAX)
#define WIRE_FIELDS_stat(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	STR(name, WIRE_NAME_MAX)                                        \
	STR(tenant, WIRE_LABEL_MAX) /* that shares it; "": its own */
/* A named lease of the session's tenant, with another tenant. */
#define WIRE_FIELDS_share(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                       \
	U8(rights) /* 0: end the share */                                \
	STR(tenant, WIRE_LABEL_MAX)
#define WIRE_FIELDS_list(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(after) /* a lease id: continue after it */                  \
	STR(prefix, WIRE_NAME_MAX)
/* The reply to stat (one entry) and list; more: list again after the last entry. */
#define WIRE_FIELDS_entries(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U8(more)                                                           \
	LIST(entries, entry, WIRE_ENTRIES_MAX)
/* The session is about to post atomics on the lease through this endpoint. */
#define WIRE_FIELDS_fix_atomic_device(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                                   \
	U8(endpoint)
/* The reply: the one device that executes the atomics of this lease until the lease ends.
 * Atomics through another fabric or device are not atomic with those. */
#define WIRE_FIELDS_atomic_device(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U8(fabric) /* WIRE_FABRIC_TCP or WIRE_FABRIC_VERBS */                    \
	STR(device, WIRE_LABEL_MAX)
/* Start, or stop, to send the lease's notifications to this session. */
#define WIRE_FIELDS_watch(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) U64(lease)
#define WIRE_FIELDS_unwatch(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) U64(lease)
#define WIRE_FIELDS_ping(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER)
#define WIRE_FIELDS_bye(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER)

#define WIRE_FIELDS_error(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U32(code) /* WIRE_CODE_* of wire/errors.h */                     \
	STR(text, WIRE_NAME_MAX)
#define WIRE_FIELDS_ok(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER)

#define WIRE_FIELDS_revoked(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                         \
	U8(reason)
#define WIRE_FIELDS_changed(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                         \
	U8(reason)
/* deadline_ms: from now; 0: it stops now; UINT32_MAX: not before its last lease is gone */
#define WIRE_FIELDS_draining(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U32(deadline_ms)
#define WIRE_FIELDS_serving(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER)
#define WIRE_FIELDS_fenced(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER)
/* The lease has memory in the part that a shrinking pool gives up.  The last message about a lease
 * counts.  After wait_ms the lease ends if revoke is set; otherwise the pool keeps its size. */
#define WIRE_FIELDS_shrinking(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	U64(lease)                                                           \
	U64(bytes) /* wanted back; 0: none any more */                       \
	U64(wait_ms)                                                         \
	U8(revoke)
#define WIRE_FIELDS_closing(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) U8(reason)
#define WIRE_FIELDS_notified(U8, U16, U32, U64, I32, STR, RAW, LIST, LATER) \
	LIST(notices, notice, WIRE_NOTICES_MAX)

#define WIRE_ITEMS(I) I(endpoint) I(segment) I(key) I(entry) I(notice)

/* M(name, number, since version, purpose) */
#define WIRE_REQUESTS(M)                                                          \
	M(hello, 0x01, 1, "open or resume a session; first on a connection")      \
	M(open_channel, 0x02, 1, "ask for a data connection through an endpoint") \
	M(close_channel, 0x03, 1, "end a data connection")                        \
	M(allocate, 0x04, 1, "borrow memory")                                     \
	M(free, 0x05, 1, "end a lease")                                           \
	M(attach, 0x06, 1, "make a lease reachable for this session")             \
	M(detach, 0x07, 1, "end the access of this session to a lease")           \
	M(renew, 0x08, 1, "start a lease's time to live again")                   \
	M(rename, 0x09, 1, "name a lease")                                        \
	M(resize, 0x0a, 1, "make a lease longer or shorter")                      \
	M(remove, 0x0b, 1, "end a lease by its name")                             \
	M(stat, 0x0c, 1, "describe a named lease")                                \
	M(list, 0x0d, 1, "describe the tenant's named leases")                    \
	M(ping, 0x0e, 1, "heartbeat; renews the session")                         \
	M(bye, 0x0f, 1, "end the session")                                        \
	M(fix_atomic_device, 0x10, 1,                                             \
	  "learn or choose the device of a lease's atomics")                      \
	M(watch, 0x11, 1, "start the notifications of a lease")                   \
	M(unwatch, 0x12, 1, "stop them")                                          \
	M(join_channel, 0x13, 1, "connect a data connection's queue pairs")       \
	M(share, 0x14, 1, "let another tenant attach a lease")
#define WIRE_REPLIES(M)                                          \
	M(error, 0x40, 1, "the request failed")                  \
	M(ok, 0x41, 1, "the request is done")                    \
	M(welcome, 0x42, 1, "answers hello")                     \
	M(channel, 0x43, 1, "answers open_channel")              \
	M(lease, 0x44, 1, "answers allocate, attach and resize") \
	M(entries, 0x45, 1, "answers stat and list")             \
	M(atomic_device, 0x46, 1, "answers fix_atomic_device")   \
	M(joined, 0x47, 1, "answers join_channel")
#define WIRE_EVENTS(M)                                                           \
	M(revoked, 0x80, 1, "a lease has ended")                                 \
	M(changed, 0x81, 1, "a lease's segments changed: attach it again by id") \
	M(draining, 0x82, 1, "the server will stop; move the data")              \
	M(closing, 0x83, 1, "the server ends the session")                       \
	M(notified, 0x84, 1, "notifications of leases that are watched")         \
	M(channel_ended, 0x85, 1, "a data connection over RDMA has ended")       \
	M(shrinking, 0x86, 1, "the server wants memory of a lease back")         \
	M(serving, 0x87, 1, "the server will not stop after all")                \
	M(fenced, 0x88, 1, "the session is fenced: resume it")
#define WIRE_MESSAGES(M) WIRE_REQUESTS(M) WIRE_REPLIES(M) WIRE_EVENTS(M)

/* Structures. */
#define WIRE_C_U8(name) uint8_t name;
#define WIRE_C_U16(name) uint16_t name;
#define WIRE_C_U32(name) uint32_t name;
#define WIRE_C_U64(name) uint64_t name;
#define WIRE_C_I32(name) int32_t name;
#define WIRE_C_STR(name, max) char name[(max) + 1];
#define WIRE_C_RAW(name, n) uint8_t name[n];
#define WIRE_C_LIST(name, item, max) \
	uint16_t n_##name;           \
	struct wire_##item name[max];
#define WIRE_STRUCT(type)                                                             \
	struct wire_##type {                                                          \
		WIRE_FIELDS_##type(WIRE_C_U8, WIRE_C_U16, WIRE_C_U32, WIRE_C_U64,     \
				   WIRE_C_I32, WIRE_C_STR, WIRE_C_RAW, WIRE_C_LIST, ) \
	};
#define WIRE_MESSAGE_STRUCT(name, number, since, text) WIRE_STRUCT(name)

WIRE_ITEMS(WIRE_STRUCT)
WIRE_MESSAGES(WIRE_MESSAGE_STRUCT)

#define WIRE_ENUM(name, number, since, text) WIRE_TYPE_##name = (number),
enum wire_type { WIRE_MESSAGES(WIRE_ENUM) };

struct wire_msg {
	enum wire_type type;
	uint64_t id;
#define WIRE_MEMBER(name, number, since, text) struct wire_##name name;
	union {
		WIRE_MESSAGES(WIRE_MEMBER)
	};
};

/* The first n endpoints of a list, a bit each. */
static inline uint32_t wire_endpoint_bits(unsigned n)
{
	return (uint32_t)((UINT64_C(1) << n) - 1);
}

/* A type's name; NULL: no message has this number. */
const char *wire_type_name(unsigned number);

#endif
