/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path: one ops table for servers and one for clients, implemented by verbs/ (RDMA)
 * and tcp/.  Callers do not know which implementation they use.
 *
 * Server side: a fabric_server listens on endpoints.  The daemon opens a fabric_session for
 * each (session, endpoint) that it serves.  A channel sends a hello and is admitted by the
 * token in it.  A memory region (mr) makes an exact range reachable with exact rights; its
 * rkey works in one session only.  All calls and all events are on the loop thread.  Slow
 * work runs on threads of the fabric, which report through the server's descriptor.
 *
 * Client side: a domain per (session, endpoint) holds the local memory regions; a cq belongs
 * to one queue; a channel carries operations of one queue to the server.
 *
 * Functions return 0 or -errno with err_text(); on failure ret_* is untouched. */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FABRIC_TOKEN_BYTES 16
#define FABRIC_ORIGIN_BYTES 8
#define FABRIC_TLS_KEY_BYTES 32
#define FABRIC_DEVICE_MAX 64
#define FABRIC_TEXT_MAX 128

/* Atomics need both. */
#define FABRIC_RIGHT_READ 1u
#define FABRIC_RIGHT_WRITE 2u

enum fabric_kind { FABRIC_TCP = 1, FABRIC_VERBS = 2 };

struct fabric_address {
	uint8_t family;    /* 4 or 6; 0: any address of both families */
	uint8_t bytes[16]; /* network order; an IPv4 address takes the first 4 */
	uint16_t port;     /* host order */
	/* client, link-local IPv6: index of the interface that leads to it; else 0 */
	uint32_t scope;
};

/* Endpoint flags; same values as WIRE_ENDPOINT_* in wire/msg.h. */
#define FABRIC_ENDPOINT_CONFIRM 1u
#define FABRIC_ENDPOINT_ATOMICS 2u
#define FABRIC_ENDPOINT_INBAND 4u
#define FABRIC_ENDPOINT_DIRECT 8u
#define FABRIC_ENDPOINT_TLS 32u

/* An address at which a server can be reached. */
struct fabric_endpoint {
	enum fabric_kind kind;
	struct fabric_address address;
	int node;              /* NUMA node of the device, -1 unknown */
	uint32_t flags;        /* FABRIC_ENDPOINT_* */
	unsigned channels_max; /* of the device at a time; 0: not known */
	/* "rxe0"; "" for tcp, and before there was a device */
	char device[FABRIC_DEVICE_MAX];
	/* verbs: nobody can connect there, as its device is not there or has no address; the rest
	 * is of before that */
	bool awaited;
};

/* Sent by a channel to be admitted; fits into the 56 bytes of rdma_cm's private data. */
struct fabric_hello {
	uint64_t session;
	uint32_t channel;
	uint8_t token[FABRIC_TOKEN_BYTES];
	/* of the address from which the client comes, see fabric_channel_params.name_source */
	uint8_t origin[FABRIC_ORIGIN_BYTES];
	/* set by the server, not on the wire: where the channel comes from, without port;
	 * family 0: not known */
	struct fabric_address peer;
	/* set by admit(): the client's control connection comes from this address, too */
	bool peer_verified;
};

#define FABRIC_VERSION 1 /* of hello, requests and responses */
#define FABRIC_HELLO_BYTES 44
#define FABRIC_HELLO_MAGIC "rmmh" /* its first bytes */
/* Encode with magic, length and version.  [any] */
void fabric_hello_encode(const struct fabric_hello *hello,
			 uint8_t buf[FABRIC_HELLO_BYTES]);
/* Decode; bytes after the hello are padding.  -EPROTO.  [any] */
int fabric_hello_decode(const uint8_t *buf, size_t bytes,
			struct fabric_hello *ret_hello);

/* Whether a channel's hello begins so.  [any] */
static inline bool fabric_hello_begins(const uint8_t *buf, size_t bytes)
{
	return bytes >= 4 && memcmp(buf, FABRIC_HELLO_MAGIC, 4) == 0;
}

/* How the session reaches a memory region of the server. */
struct fabric_key {
	uint64_t addr;
	uint64_t rkey;
};

/* How to use an RDMA device.  Where client and server both set a limit, the channel uses the
 * lower one. */
struct fabric_rdma_options {
	int mtu;              /* path MTU limit, bytes */
	int traffic_class;    /* of the packets, 0 to 255: DSCP times 4 */
	int service_level;    /* 0 to 15 */
	int ack_timeout;      /* 1 to 31: 4.096 us times two to the power of this */
	int retry_count;      /* of requests without an ACK; 0 to 6 */
	int rnr_retry_count;  /* after receiver-not-ready; 0 to 6 */
	int rd_atomic;        /* limit of outstanding reads and atomics per channel */
	int relaxed_ordering; /* 0, 1: PCI relaxed ordering of registered memory */
	/* enum fabric_connect; auto: rdma_cm on a server, the server's choice on a client */
	int connect;
	int gid_index; /* in the port's GID table, 0 to 255; FABRIC_CONNECT_DIRECT only */
	int pkey;      /* P_Key, 1 to 0xffff; FABRIC_CONNECT_DIRECT only */
};
#define FABRIC_OPTION_AUTO (-1) /* chosen by the device, the system or rdma_cm */
#define FABRIC_RDMA_OPTIONS_INIT                                                \
	{                                                                       \
		.mtu = FABRIC_OPTION_AUTO, .traffic_class = FABRIC_OPTION_AUTO, \
		.service_level = FABRIC_OPTION_AUTO,                            \
		.ack_timeout = FABRIC_OPTION_AUTO, .retry_count = 6,            \
		.rnr_retry_count = 6, .rd_atomic = FABRIC_OPTION_AUTO,          \
		.connect = FABRIC_OPTION_AUTO, .gid_index = FABRIC_OPTION_AUTO, \
		.pkey = FABRIC_OPTION_AUTO                                      \
	}

/* How the channels of an RDMA device are connected: by rdma_cm, or directly, with queue pair
 * attributes that are exchanged over the control connection (for fabrics without IP). */
enum fabric_connect { FABRIC_CONNECT_CM = 1, FABRIC_CONNECT_DIRECT = 2 };

/* The queue pair of one side of a channel that is connected directly. */
struct fabric_qp_info {
	uint32_t qpn; /* 24 bits */
	uint32_t psn; /* of its first packet, 24 bits, random */
	uint8_t gid[16];
	uint16_t lid; /* 0: not on InfiniBand */
	uint16_t pkey;
	uint16_t mtu; /* its limit, bytes */
	/* outstanding reads and atomics: requested by the client, granted by the server */
	uint8_t rd_atomic;
	uint8_t retry_count, rnr_retry_count;
	/* set by the server, not on the wire: the GID contains the address from which the
	 * client's control connection comes */
	bool gid_verified;
};

/* Parse an IPv4 or IPv6 address, or a GID that contains one, without port.  -EINVAL.  [any] */
int fabric_address_parse(const char *text, struct fabric_address *ret_address);

/* Parse the value of an option; its name is the member's name.
 *   -EINVAL, -ERANGE  with text that names the value
 *   -ENOENT           no option has this name  [any] */
int fabric_rdma_option_parse(const char *name, const char *value, int *ret_value);
/* The value as it is parsed into buf; returns buf.  [any] */
const char *fabric_rdma_option_format(const char *name, int value, char *buf,
				      size_t buf_bytes);
/* Parse into the member.  [any] */
int fabric_rdma_options_set(struct fabric_rdma_options *rdma_options, const char *name,
			    const char *value);

/* ---- server ---- */

struct fabric_server;  /* one fabric, all its endpoints */
struct fabric_session; /* server's side of one session on one endpoint */
struct fabric_mr;      /* a range that one fabric_session can reach */

/* Events for the daemon; called from process() on the loop thread. */
struct fabric_server_events {
	/* A channel wants to connect to endpoint number `endpoint`.  Give its session, or -errno
	 * to refuse it, with text, both of which its client may see.  The callee compares the token
	 * in constant time and checks that the channel number was granted, and that the client may
	 * come from hello->peer.  If the channel is then not connected, channel_down() is
	 * called. */
	int (*admit)(void *ctx, unsigned endpoint, struct fabric_hello *hello,
		     struct fabric_session **ret_session);
	/* The key of an admitted channel, which its client has too.  -ENOMEM.  NULL: no
	 * endpoint is FABRIC_ENDPOINT_TLS. */
	int (*channel_key)(void *ctx, void *session_cookie, uint32_t channel,
			   uint8_t ret_key[FABRIC_TLS_KEY_BYTES]);
	/* Whose session this is: those of one tenant share turns and limits.  Called when the
	 * session is opened; values are only compared.  NULL: each is a tenant of its own. */
	const void *(*tenant)(void *ctx, void *session_cookie);
	/* An admitted channel is connected / has ended.  `why` is one line, "" when the
	 * client closed the channel.  Not called for channels ended by session_close(). */
	void (*channel_up)(void *ctx, void *session_cookie, uint32_t channel);
	void (*channel_down)(void *ctx, void *session_cookie, uint32_t channel,
			     const char *why);
	/* channel_connect() is done, after channel_up(), with the server's queue pair; or has
	 * failed, with err and text: the channel does not exist.  Not called for channels ended
	 * by channel_close() or session_close().  NULL: channel_connect() is not called. */
	void (*channel_connected)(void *ctx, void *session_cookie, uint32_t channel,
				  int err, const char *text,
				  const struct fabric_qp_info *ours);
	/* The server has refused this number of accesses or in-band requests of the session:
	 * wrong key, bounds or rights.  Over RDMA an access that the device refuses ends its
	 * channel; iWARP devices may not tell.  May be NULL. */
	void (*access_refused)(void *ctx, void *session_cookie, uint64_t n);
	/* reg_mr() is done, with the key; or has failed, with err and text: the mr does not
	 * exist. */
	void (*mr_registered)(void *ctx, void *mr_cookie, int err, const char *text,
			      const struct fabric_key *key);
	/* dereg_mr() is done: the key is dead, no access is in progress or will be.  Also
	 * called, before session_closed(), for each mr that session_close() deregistered. */
	void (*mr_deregistered)(void *ctx, void *mr_cookie);
	/* session_close() is done; the fabric_session is gone. */
	void (*session_closed)(void *ctx, void *session_cookie);
	/* The device of an endpoint was removed.  Its fabric_sessions have no resources any
	 * more: close them; open new ones after the device is back.  May be NULL. */
	void (*device_removed)(void *ctx, unsigned endpoint);
	/* The device of an endpoint failed or came back; for the log. */
	void (*endpoint_event)(void *ctx, unsigned endpoint, const char *text);
	/* A client sent a notification.  All its operations that completed before, and all
	 * writes before it on that channel, are in memory.  The mr belongs to that session
	 * and has FABRIC_RIGHT_WRITE.  May be called until mr_deregistered(), even after
	 * dereg_mr().  An mr keeps up to FABRIC_NOTIFICATIONS_MAX undelivered notifications,
	 * always with the latest one.  `lost`: number dropped directly before this one,
	 * UINT32_MAX: this number or more.  May be NULL. */
	void (*notified)(void *ctx, void *session_cookie, void *mr_cookie,
			 uint32_t value, uint32_t lost);
};

#define FABRIC_NOTIFICATIONS_MAX 128

/* How the server uses one RDMA device. */
struct fabric_device_params {
	char name[FABRIC_DEVICE_MAX];  /* "": each device without an entry */
	int port;                      /* of the device; FABRIC_OPTION_AUTO: any */
	struct fabric_address address; /* the only one to serve; family 0: choose */
	struct fabric_rdma_options rdma_options;
};

/* Parameters of a server; borrowed during open(). */
struct fabric_server_params {
	struct fabric_address listen; /* family 0: every address of this host */
	/* verbs: further addresses to listen at, with the port of `listen` */
	const struct fabric_address *extra_listen;
	unsigned n_extra_listen;
	/* verbs: the devices to serve, NULL-terminated, which are awaited if need be; NULL: all
	 * that are active */
	const char *const *devices;
	bool required; /* verbs: a device is awaited also if none is named, and there is none */
	const struct fabric_device_params *device_params; /* verbs */
	unsigned n_device_params;
	/* verbs: for this time a key that has died is not handed out again; 0: as the device
	 * does */
	uint64_t key_rest_ms;
	unsigned threads; /* tcp: data threads, >= 1 */
	bool tls;         /* tcp: channels are under TLS, with their channel_key() */
	unsigned backlog; /* limit of connections that wait to be admitted */
};

enum fabric_transport { FABRIC_ROCE = 1, FABRIC_IWARP, FABRIC_INFINIBAND };

/* What an atomic operation is atomic with: atomics are not supported; operations of the same
 * device; all accesses, also those of the CPU. */
enum fabric_atomics {
	FABRIC_ATOMICS_NONE,
	FABRIC_ATOMICS_DEVICE,
	FABRIC_ATOMICS_GLOBAL
};

/* Attributes of an RDMA device; 0 or false where unknown. */
struct fabric_device_attr {
	enum fabric_transport transport;
	enum fabric_atomics atomics;
	bool write_immediate;
	bool relaxed_ordering; /* registrations may ask for it */
	bool on_demand_paging;
	uint32_t inline_bytes; /* limit of inline data of a work request */
	unsigned max_qp, max_qp_wr, max_sge;
	unsigned max_cq, max_cqe;
	unsigned max_mr;
	uint64_t max_mr_bytes;
	/* limits of outstanding reads and atomics of a queue pair: the peer's, its own */
	unsigned responder_resources, initiator_depth;
};

#define FABRIC_GIDS_MAX 32

struct fabric_gid {
	unsigned index;
	uint8_t bytes[16];
	const char *type; /* static: "RoCE v2" */
	bool served;      /* clients use it */
};

/* The current state of a port of an RDMA device. */
struct fabric_port_attr {
	unsigned number;
	const char *state;            /* static: "active"; NULL: unknown */
	unsigned active_mtu, max_mtu; /* bytes; 0: unknown */
	struct fabric_gid gids[FABRIC_GIDS_MAX];
	unsigned n_gids;    /* in gids[] */
	unsigned gids_more; /* number that did not fit into gids[] */
	/* in effect: a known MTU is never `auto` */
	struct fabric_rdma_options rdma_options;
};

/* What has gone through an endpoint: bytes of the streams, operations that were done, and
 * refused. */
struct fabric_traffic {
	uint64_t received_bytes, sent_bytes;
	uint64_t reads, writes, atomics, inband;
	uint64_t refused;
};

/* Counters of one endpoint for the status. */
struct fabric_endpoint_stats {
	uint64_t channels;   /* connected now */
	uint64_t tls_kernel; /* of those: under TLS in the kernel */
	uint64_t channels_ever;
	uint64_t refused;       /* channels not admitted */
	uint64_t errors;        /* channels that ended in an error */
	uint64_t exposures;     /* memory regions registered now */
	uint64_t exposed_bytes; /* sum of their lengths */
	/* tcp; verbs: zero, as devices move bytes on their own */
	struct fabric_traffic traffic;
};

/* Operations of clients on a memory region, and the bytes that they were about. */
struct fabric_mr_traffic {
	uint64_t operations, bytes;
};

struct fabric_server_ops {
	const char *name; /* in messages: "rdma", "tcp" */
	enum fabric_kind kind;

	/* Open devices, listen, start threads.  Borrows events and ctx until close().
	 *   -ENODEV      no device to serve, and none to wait for (verbs)
	 *   -EADDRINUSE  the port is taken; the text names address and port
	 *   -ENOMEM, -EMFILE, -EACCES ... */
	int (*open)(const struct fabric_server_params *params,
		    const struct fabric_server_events *events, void *ctx,
		    struct fabric_server **ret_server);
	/* End all sessions without events; join the threads. */
	void (*close)(struct fabric_server *server);

	/* Polls readable when process() has work.  Constant while open. */
	int (*fd)(const struct fabric_server *server);
	/* Deliver events; never blocks. */
	void (*process)(struct fabric_server *server);

	unsigned (*n_endpoints)(const struct fabric_server *server);
	/* Borrowed until close(); process() may change it. */
	const struct fabric_endpoint *(*endpoint)(const struct fabric_server *server,
						  unsigned endpoint);
	void (*stats)(const struct fabric_server *server, unsigned endpoint,
		      struct fabric_endpoint_stats *ret_stats);
	/* The attributes of the endpoint's device and port; *ret_attr is borrowed until
	 * close().  NULL: the fabric has no devices.  -ENODEV: it was removed. */
	int (*device)(const struct fabric_server *server, unsigned endpoint,
		      const struct fabric_device_attr **ret_attr,
		      struct fabric_port_attr *ret_port);

	/* Serve a session at an endpoint (verbs: allocate its protection domain). */
	int (*session_open)(struct fabric_server *server, unsigned endpoint,
			    void *cookie, struct fabric_session **ret_session);
	/* End a fabric_session: on return its channels are in ERROR (tcp: after the
	 * request in progress), and with them its keys reach nothing.  The caller deregisters each
	 * mr, at any time; when there is none left, session_closed() is called. */
	void (*session_close)(struct fabric_session *session);
	/* The session's client was heard: apply what its channels carry until until_ns
	 * (clock_now_ns()); before the first call without a limit.  Channels that are open when
	 * the last limit has passed end: their client has given them up, but bytes of them may
	 * wait in this host after a pause of the process.  NULL: nothing waits, as the device
	 * applies bytes when they arrive. */
	void (*session_extend)(struct fabric_session *session, uint64_t until_ns);
	/* End a channel at the client's request; no event.  On return none of its operations is
	 * applied any more.  An unknown number is ignored.
	 *   -EIO  its queue pair, or an earlier one, could not be stopped */
	int (*channel_close)(struct fabric_session *session, uint32_t channel);
	/* Connect a channel that the session was granted with the client's queue pair;
	 * channel_connected() follows.  admit() is not called.  On failure no event follows.
	 * NULL: no endpoint is FABRIC_ENDPOINT_DIRECT.
	 *   -EINVAL, -EACCES  `theirs` cannot be reached; the text says why
	 *   -EBUSY            another channel has this queue pair.  But if
	 *                     theirs->gid_verified is set, and was not set for the other
	 *                     channel, the other one ends */
	int (*channel_connect)(struct fabric_session *session, uint32_t channel,
			       const struct fabric_qp_info *theirs);

	/* Make [addr, addr + bytes) reachable; mr_registered() follows.  The memory must stay
	 * mapped until mr_deregistered().  On failure no event follows.  A fabric has this and
	 * dereg_mr(), or reg_mr_now() and dereg_mr_now(); the others are NULL. */
	int (*reg_mr)(struct fabric_session *session, void *addr, size_t bytes,
		      unsigned rights, void *cookie, struct fabric_mr **ret_mr);
	/* Make the mr unreachable; mr_deregistered() follows.  An outstanding mr_registered()
	 * is not called. */
	void (*dereg_mr)(struct fabric_mr *mr);
	/* reg_mr() without an event: on return the mr is reachable, and mr_registered() is not
	 * called. */
	int (*reg_mr_now)(struct fabric_session *session, void *addr, size_t bytes,
			  unsigned rights, void *cookie, struct fabric_mr **ret_mr,
			  struct fabric_key *ret_key);
	/* True: the key is dead, and mr_deregistered() is not called.  False: as dereg_mr(), also
	 * when notifications of the mr are pending.  Must not be called from notified(). */
	bool (*dereg_mr_now)(struct fabric_mr *mr);
	/* Add what went through the mr so far.  NULL: not known, as the device moves bytes on its
	 * own. */
	void (*mr_traffic)(const struct fabric_mr *mr, struct fabric_mr_traffic *sum);
};

/* ---- client ---- */

struct fabric_domain;   /* client's side of one session on one endpoint */
struct fabric_local_mr; /* local memory registered in a domain */
struct fabric_cq;       /* completions of one queue in one domain; [owner] */
struct fabric_channel;  /* one connection; [owner] unless said otherwise */

enum fabric_opcode {
	FABRIC_READ = 1,
	FABRIC_WRITE = 2,
	FABRIC_CAS = 3,
	FABRIC_FETCH_ADD = 4,
	/* In-band requests: the server executes them.  These numbers are on the wire. */
	FABRIC_PING = 5,   /* no range */
	FABRIC_FILL = 6,   /* fill the range with a pattern */
	FABRIC_COPY = 7,   /* copy to the range from another range of the session */
	FABRIC_CRC = 8,    /* CRC of the range, see base/crc32c.h */
	FABRIC_NOTIFY = 9, /* notify the daemon about an offset in the range */
};

/* Optional capabilities of a domain. */
enum fabric_capability { FABRIC_CAN_ATOMICS = 1, FABRIC_CAN_INBAND = 2 };

/* The common part of the operations of a batch: opcode, remote range, local mr. */
struct fabric_batch {
	enum fabric_opcode opcode;
	/* NULL if !needs_local_mr, or for writes up to inline_max() */
	struct fabric_local_mr *region;
	uint64_t remote_addr;
	uint64_t rkey;
};

static inline struct fabric_batch fabric_batch_of(enum fabric_opcode opcode,
						  struct fabric_local_mr *region,
						  const struct fabric_key *key)
{
	return (struct fabric_batch){ opcode, region, key->addr, key->rkey };
}

/* One operation of a batch.  may_alias: callers may pass equal members of a structure of their
 * own. */
struct __attribute__((may_alias)) fabric_op {
	uint64_t offset; /* from the batch's remote_addr */
	void *addr;      /* local */
	uint64_t bytes;  /* > 0, at most max_bytes */
};

/* A scatter/gather element: one of several local ranges of an operation. */
struct fabric_sge {
	void *addr;
	uint64_t bytes;                 /* > 0 */
	struct fabric_local_mr *region; /* NULL if !needs_local_mr */
};

/* Operands of an atomic. */
struct fabric_atomic {
	uint64_t compare; /* FABRIC_CAS: the expected value */
	uint64_t operand; /* FABRIC_CAS: the new value; FABRIC_FETCH_ADD: the addend */
};

#define FABRIC_ATOMIC_BYTES 8

/* Operands of an in-band request. */
struct fabric_inband_request {
	struct fabric_key source; /* FABRIC_COPY: first byte and rkey of the source */
	uint64_t pattern; /* FABRIC_FILL: 8 bytes, repeated from the range's start */
	uint32_t value;   /* FABRIC_NOTIFY */
};

/* Limits of what a server executes, which clients are told: the bytes of a read or write over TCP,
 * and of an in-band request's range. */
#define FABRIC_STREAM_BYTES_MAX (UINT32_C(1) << 20)
#define FABRIC_INBAND_BYTES_MAX (UINT32_C(256) << 10)

/* A completion.  The operations of a channel complete in the order they were posted. */
struct fabric_wc {
	void *owner; /* of the channel */
	unsigned n;  /* it completes this number of the oldest operations */
	/* 0; -ESTALE with n 0: the channel works, but is to be replaced once nothing is outstanding
	 * on it, as its key of TLS wears out; -EACCES refused by the server; -ECONNRESET flushed,
	 * or the peer is gone; -ETIMEDOUT transport retries exceeded; -EFAULT local memory; -EIO
	 * other errors */
	int status;
	uint32_t vendor;  /* vendor error when status is not 0 */
	const char *text; /* static: the completion status in words; NULL when 0 */
};

struct fabric_channel_params {
	struct fabric_hello hello;
	/* Give the hello its origin: the channel will come from this local address.  Called once
	 * that is known, before the hello is sent.  NULL: the hello is complete. */
	void (*name_source)(void *ctx, const struct fabric_address *source,
			    struct fabric_hello *hello);
	void *name_source_ctx;
	/* FABRIC_ENDPOINT_TLS: the channel's key, which the server has too */
	uint8_t tls_key[FABRIC_TLS_KEY_BYTES];
	unsigned depth; /* limit of outstanding operations */
	unsigned timeout_ms;
	unsigned
		silence_ms; /* tcp: the channel ends when its peer acknowledges nothing for this
			      * time; 0: for half a minute */
	/* connect() fails soon, with -ECANCELED, when another thread sets it; NULL: never.  Over
	 * siw a system call that connects is finished first */
	const atomic_bool *cancelled;
	void *owner; /* returned in its completions */
	/* FABRIC_ENDPOINT_DIRECT: send this queue pair's attributes to the server and receive
	 * the server's; blocks at most timeout_ms. */
	int (*exchange)(void *ctx, const struct fabric_qp_info *ours,
			unsigned timeout_ms, struct fabric_qp_info *ret_theirs);
	void *exchange_ctx;
};

/* How a client uses its devices; verbs only. */
struct fabric_client_params {
	/* local address to use, without port; family 0: any that reaches the server */
	struct fabric_address source;
	/* local address from which IP reaches the server; family 0: unknown */
	struct fabric_address route_source;
	struct fabric_rdma_options rdma_options;
	/* domain_open() fails soon, with -ECANCELED, when another thread sets it; NULL: never */
	const atomic_bool *cancelled;
};
#define FABRIC_CLIENT_PARAMS_INIT                        \
	{                                                \
		.rdma_options = FABRIC_RDMA_OPTIONS_INIT \
	}

struct fabric_client_ops {
	const char *name;
	enum fabric_kind kind;
	bool needs_local_mr; /* operations need registered memory */
	uint32_t max_bytes;  /* limit of one operation */
	/* While a channel has so many bytes of large operations, no other one is posted there, so
	 * that a small one waits for these bytes at most.  0: no limit, as the device moves them
	 * while the program does something else */
	uint32_t large_max;

	/* Whether this host has a device for the fabric; cheap, may be outdated.  NULL: the
	 * fabric needs no device.  [any] */
	bool (*device_present)(void);
	/* 0, or -ENODEV with a text why this host cannot use the fabric.  NULL: it can.  [any] */
	int (*available)(void);

	/* Find the device that reaches the endpoint and open a domain on it; blocks.  params
	 * NULL: FABRIC_CLIENT_PARAMS_INIT.  [any] */
	int (*domain_open)(const struct fabric_endpoint *endpoint,
			   const struct fabric_client_params *params,
			   unsigned timeout_ms, struct fabric_domain **ret_domain);
	void (*domain_close)(struct fabric_domain *domain);
	/* Whether the domain's device is being removed; the kernel waits until this process
	 * closes it.  Close the domain.  If that takes long, abort all its channels and call
	 * domain_disassociate(): after that neither device nor network reaches local memory.
	 * All objects must still be freed.  NULL: the fabric has no devices.
	 * [one thread at a time] */
	bool (*domain_removed)(struct fabric_domain *domain);
	void (*domain_disassociate)(struct fabric_domain *domain);
	/* Whether the process keeps the device open after domain_close(), and then cannot learn
	 * of the device's removal.  If so, close an unused domain only after another one was
	 * opened.  [any] */
	bool (*domain_holds_device)(const struct fabric_domain *domain);
	/* Name of the local device, "" for tcp; borrowed. */
	const char *(*domain_device)(const struct fabric_domain *domain);
	/* 0, or -ENOTSUP with a text that names the local or remote device and what it
	 * lacks.  [any] */
	int (*domain_supports)(const struct fabric_domain *domain,
			       enum fabric_capability capability);

	/* Limit of a write whose local memory needs no region: the request carries the bytes.
	 * NULL if !needs_local_mr. */
	uint32_t (*inline_max)(const struct fabric_channel *channel);

	/* Limit of scatter/gather elements per operation, >= 1.  [any] */
	unsigned (*sge_max)(const struct fabric_domain *domain,
			    enum fabric_opcode opcode);

	/* Register [addr, addr + bytes) for local access.  -ENOMEM, -EFAULT.  The three are NULL
	 * if !needs_local_mr.  [any] */
	int (*reg_mr)(struct fabric_domain *domain, void *addr, size_t bytes,
		      struct fabric_local_mr **ret_region);
	/* Register `bytes` of a dma-buf from `offset` on, which operations name by the addresses
	 * from `addr` on.  Only the device accesses them; prepare() and prepare_sges() take the
	 * region, the other functions do not.
	 *   -ENOTSUP  the device, which the text names, cannot  [any] */
	int (*reg_dmabuf_mr)(struct fabric_domain *domain, int fd, uint64_t offset,
			     void *addr, size_t bytes,
			     struct fabric_local_mr **ret_region);
	void (*dereg_mr)(struct fabric_local_mr *region);

	/* `depth`: sum of the depths of all its channels. */
	int (*cq_create)(struct fabric_domain *domain, unsigned depth,
			 struct fabric_cq **ret_cq);
	/* Free its channels first. */
	void (*cq_free)(struct fabric_cq *cq);
	/* Readable, after cq_arm(), when poll() may return completions. */
	int (*cq_fd)(const struct fabric_cq *cq);
	/* Make the descriptor readable at the next completion, and not readable now.  Then call
	 * poll() once more, for completions that arrived in between. */
	int (*cq_arm)(struct fabric_cq *cq);

	/* Connect; blocks at most timeout_ms.  -EACCES or another error of the server, -ETIMEDOUT,
	 * -ECONNREFUSED ...  [any]; the channel then belongs to the owner of cq. */
	int (*connect)(struct fabric_cq *cq, const struct fabric_channel_params *params,
		       struct fabric_channel **ret_channel);
	/* Prepare up to n operations, each `stride` bytes after the previous one, for the next
	 * post(); returns the number prepared, less than n when the channel is full.  Between
	 * prepare and post() only more prepare calls are allowed on the channel, and no
	 * poll(). */
	unsigned (*prepare)(struct fabric_channel *channel,
			    const struct fabric_batch *batch,
			    const struct fabric_op *ops, size_t stride, unsigned n);
	/* Prepare one read or write with up to sge_max() scatter/gather elements instead of
	 * the op's addr and the batch's region.  Returns 1, or 0 when the channel is full.
	 * NULL if sge_max() is 1.
	 *   -ENOMEM  first such operation of a channel */
	int (*prepare_sges)(struct fabric_channel *channel,
			    const struct fabric_batch *batch,
			    const struct fabric_op *op, const struct fabric_sge *sges,
			    unsigned n);
	/* Prepare one atomic; the old value goes to the op's addr.  Returns 1, or 0 when the
	 * channel is full.
	 *   -EINVAL   the address is not a multiple of FABRIC_ATOMIC_BYTES
	 *   -ENOTSUP  see domain_supports() */
	int (*prepare_atomic)(struct fabric_channel *channel,
			      const struct fabric_batch *batch,
			      const struct fabric_op *op,
			      const struct fabric_atomic *atomic);
	/* Limit of outstanding in-band requests per channel; its depth may be lower. */
	unsigned inband_max;
	/* Prepare one in-band request for up to FABRIC_INBAND_BYTES_MAX bytes; 0 for requests
	 * without a range.  The result of FABRIC_CRC goes to the op's addr, a uint32_t that
	 * needs no mr; other requests have no addr.  Returns 1, or 0 when the channel is
	 * full.
	 *   -ENOTSUP  see domain_supports() */
	int (*prepare_inband)(struct fabric_channel *channel,
			      const struct fabric_batch *batch,
			      const struct fabric_op *op,
			      const struct fabric_inband_request *request);
	/* Post all prepared operations; returns the number posted, or -ECONNRESET.  If some
	 * are not posted, they are dropped and the channel is dead: posted operations may not
	 * complete.  Otherwise each operation completes exactly once through poll(). */
	int (*post)(struct fabric_channel *channel);
	/* prepare() one operation and post() it, on a channel with no prepared operations:
	 * 1, or 0 when the channel is full, or -ECONNRESET.  On a channel that was connected
	 * directly a write may have no bytes: it reaches the peer's device, and no memory. */
	int (*post_one)(struct fabric_channel *channel, enum fabric_opcode opcode,
			struct fabric_local_mr *region, const struct fabric_key *key,
			const struct fabric_op *op);
	/* Return up to n completions; never blocks.  After an error other than -EACCES the
	 * channel is dead and all its outstanding operations complete in error. */
	int (*poll)(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n);
	/* All outstanding operations complete in error soon; the local device applies none of
	 * them any more.  [any] while the channel exists. */
	void (*abort)(struct fabric_channel *channel);
	/* Readable when the peer has ended the channel: call alive().  -1: poll() reports
	 * it.  alive() aborts a channel whose peer is gone.  [service thread] */
	int (*alive_fd)(const struct fabric_channel *channel);
	bool (*alive)(struct fabric_channel *channel);
	/* Disconnect and free; unpolled completions are lost. */
	void (*channel_free)(struct fabric_channel *channel);
	/* In the child of a fork(), instead: close this process's copies of the channel's
	 * descriptors, as far as they are the channel's alone.  The connection is the parent's
	 * and goes on. */
	void (*channel_leave)(const struct fabric_channel *channel);
};

extern const struct fabric_server_ops fabric_tcp_server;
extern const struct fabric_server_ops fabric_verbs_server;
extern const struct fabric_client_ops fabric_tcp_client;
extern const struct fabric_client_ops fabric_verbs_client;

#endif
