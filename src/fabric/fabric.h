/* SPDX-License-Identifier: BSD-3-Clause */
/* What moves bytes: one ops table for servers and one for clients, implemented by verbs/
 * (RDMA) and tcp/.  Nothing above this header knows which one it talks to.
 *
 * Server side: a fabric_server listens on endpoints.  The daemon opens a fabric_session
 * per (session, endpoint) it serves; channels present themselves with a hello and are
 * admitted by token.  Memory becomes reachable for one session by an exposure: an exact
 * range with exact rights, whose key works in that session alone.  All calls and all news
 * are on the loop thread; what takes time runs on the fabric's own threads, which hand the
 * news over through the server's descriptor.
 *
 * Client side: a domain per (session, endpoint) holds what is registered; a cq belongs to
 * one queue; a channel carries operations of one queue to the server.
 *
 * Functions return 0 or -errno with err_text(), ret_* untouched on failure. */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FABRIC_TOKEN_BYTES 16
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
};

/* Endpoint flags: as WIRE_ENDPOINT_* in wire/msg.h. */
#define FABRIC_ENDPOINT_CONFIRM 1u
#define FABRIC_ENDPOINT_ATOMICS 2u
#define FABRIC_ENDPOINT_INBAND 4u
#define FABRIC_ENDPOINT_DIRECT 8u

/* A place where a server can be reached. */
struct fabric_endpoint {
	enum fabric_kind kind;
	struct fabric_address address;
	int node;                       /* NUMA node of the device, -1 unknown */
	uint32_t flags;                 /* FABRIC_ENDPOINT_* */
	char device[FABRIC_DEVICE_MAX]; /* "rxe0"; "" for tcp */
};

/* What a channel presents to be admitted; fits rdma_cm's 56 bytes of private data. */
struct fabric_hello {
	uint64_t session;
	uint32_t channel;
	uint8_t token[FABRIC_TOKEN_BYTES];
};

#define FABRIC_HELLO_BYTES 36
/* Encode for the wire, with magic, length and version.  [any] */
void fabric_hello_encode(const struct fabric_hello *hello,
			 uint8_t buf[FABRIC_HELLO_BYTES]);
/* Bytes behind the hello are padding and ignored.  -EPROTO.  [any] */
int fabric_hello_decode(const uint8_t *buf, size_t bytes,
			struct fabric_hello *ret_hello);

/* Where an exposed range is found by its session. */
struct fabric_key {
	uint64_t addr;
	uint64_t rkey;
};

/* How an RDMA device is to be used.  What both sides have a say in is settled for each
 * channel, at the lesser value.  */
struct fabric_rdma_options {
	int mtu;              /* of a channel's path, bytes at most */
	int traffic_class;    /* of its packets, 0 to 255: DSCP times 4 */
	int service_level;    /* 0 to 15 */
	int ack_timeout;      /* 1 to 31: 4.096 us times two to the power of this */
	int retry_count;      /* of requests that get no answer; 0 to 6 */
	int rnr_retry_count;  /* of sends the peer is not ready for; 0 to 6 */
	int rd_atomic;        /* reads and atomics of a channel under way at most */
	int relaxed_ordering; /* 0, 1: what a registration's PCI writes may do */
	int connect; /* enum fabric_connect; auto: a server's rdma_cm, a client's server */
	int gid_index; /* in the port's table, 0 to 255; FABRIC_CONNECT_DIRECT alone */
	int pkey; /* in the port's table, 1 to 0xffff; FABRIC_CONNECT_DIRECT alone */
};
#define FABRIC_OPTION_AUTO (-1) /* what the device, the system or rdma_cm says */
#define FABRIC_RDMA_OPTIONS_INIT                                                \
	{                                                                       \
		.mtu = FABRIC_OPTION_AUTO, .traffic_class = FABRIC_OPTION_AUTO, \
		.service_level = FABRIC_OPTION_AUTO,                            \
		.ack_timeout = FABRIC_OPTION_AUTO, .retry_count = 6,            \
		.rnr_retry_count = 6, .rd_atomic = FABRIC_OPTION_AUTO,          \
		.connect = FABRIC_OPTION_AUTO, .gid_index = FABRIC_OPTION_AUTO, \
		.pkey = FABRIC_OPTION_AUTO                                      \
	}

/* How the channels of an RDMA device are set up: by rdma_cm, or with what both sides tell
 * each other over the control connection, for fabrics without IP.  */
enum fabric_connect { FABRIC_CONNECT_CM = 1, FABRIC_CONNECT_DIRECT = 2 };

/* One side's end of a channel that is set up directly. */
struct fabric_qp_info {
	uint32_t qpn; /* of the queue pair, 24 bits */
	uint32_t psn; /* of the first packet it sends, 24 bits, random */
	uint8_t gid[16];
	uint16_t lid; /* 0: not on InfiniBand */
	uint16_t pkey;
	uint16_t mtu; /* bytes; what it takes at most */
	/* reads and atomics under way: the client's wish, and what the server serves */
	uint8_t rd_atomic;
	uint8_t retry_count, rnr_retry_count;
	/* the client's, as the server knows of its control connection: that comes from the
	 * address which the GID is.  Not on the wire */
	bool own;
};

/* Parse an IPv4 or IPv6 address, or a GID that is one; no port.  -EINVAL: neither.  [any] */
int fabric_address_parse(const char *text, struct fabric_address *ret_address);

/* Parse the value of the option that has this name, its member's.
 *   -EINVAL, -ERANGE  with text that names the value
 *   -ENOENT           no option has this name  [any] */
int fabric_rdma_option_parse(const char *name, const char *value, int *ret_value);
/* The same, into the member.  [any] */
int fabric_rdma_options_set(struct fabric_rdma_options *rdma_options, const char *name,
			    const char *value);

/* ---- server ---- */

struct fabric_server;  /* one fabric, all its endpoints */
struct fabric_session; /* server's side of one session on one endpoint */
struct fabric_mr;      /* one range made reachable for one fabric_session */

/* News for the daemon; called from process() on the loop thread. */
struct fabric_server_events {
	/* A channel presents itself at endpoint number `endpoint` of this server.  Return
	 * the session it belongs to, or NULL to refuse it.  The callee compares the token
	 * in constant time and checks that the channel number was granted. */
	struct fabric_session *(*admit)(void *ctx, unsigned endpoint,
					const struct fabric_hello *hello);
	/* A channel admitted is connected / is gone.  `why` is one line, "" when the
	 * client closed it in order.  Not called for channels ended by session_close. */
	void (*channel_up)(void *ctx, void *session_cookie, uint32_t channel);
	void (*channel_down)(void *ctx, void *session_cookie, uint32_t channel,
			     const char *why);
	/* expose() is done: the key, or err (with text) and the exposure is gone. */
	void (*mr_registered)(void *ctx, void *mr_cookie, int err, const char *text,
			      const struct fabric_key *key);
	/* withdraw() is done: the key is dead, no access is under way or will be.  Also
	 * called, before session_closed, for what session_close() withdrew. */
	void (*mr_deregistered)(void *ctx, void *mr_cookie);
	/* session_close() is done; the fabric_session is gone. */
	void (*session_closed)(void *ctx, void *session_cookie);
	/* An endpoint's device is removed: nothing of its sessions is left, and they are to be
	 * closed; others may be opened once it is back.  May be NULL. */
	void (*device_removed)(void *ctx, unsigned endpoint);
	/* An endpoint's device failed or came back; for the log. */
	void (*endpoint_event)(void *ctx, unsigned endpoint, const char *text);
	/* A client notifies: what it had completed before, and what it wrote before through
	 * the same channel, is placed.  The exposure is of that session, with
	 * FABRIC_RIGHT_WRITE.  May be called until withdrawn(), even after withdraw().  Of
	 * one exposure FABRIC_NOTIFICATIONS_MAX wait at most to be delivered, the latest always
	 * among them; `lost` counts those for which there was no room, before this one,
	 * UINT32_MAX: so many or more.  May be NULL: nobody is interested. */
	void (*notified)(void *ctx, void *session_cookie, void *mr_cookie,
			 uint32_t value, uint32_t lost);
};

#define FABRIC_NOTIFICATIONS_MAX 128

/* How one RDMA device is to be used. */
struct fabric_device_params {
	char name[FABRIC_DEVICE_MAX];  /* "": all that have none of their own */
	int port;                      /* of the device; FABRIC_OPTION_AUTO: any */
	struct fabric_address address; /* the only one to serve; family 0: the best */
	struct fabric_rdma_options rdma_options;
};

/* How a server is to be set up; borrowed during open(). */
struct fabric_server_params {
	struct fabric_address listen; /* family 0: every address of this host */
	/* verbs: more addresses; the port is that of listen */
	const struct fabric_address *also;
	unsigned n_also;
	/* verbs: only these devices, NULL-terminated; NULL: all that are active */
	const char *const *devices;
	const struct fabric_device_params *device_params; /* verbs; may be none */
	unsigned n_device_params;
	unsigned threads; /* tcp: data threads, >= 1 */
	unsigned backlog; /* connections waiting to be admitted, at most */
};

enum fabric_transport { FABRIC_ROCE = 1, FABRIC_IWARP, FABRIC_INFINIBAND };

/* Among what atomic operations are atomic: nothing, as there are none; those of the same
 * device; all, the CPU's too. */
enum fabric_atomics {
	FABRIC_ATOMICS_NONE,
	FABRIC_ATOMICS_DEVICE,
	FABRIC_ATOMICS_GLOBAL
};

/* What an RDMA device can do.  What cannot be found out is 0 or false. */
struct fabric_device_attr {
	enum fabric_transport transport;
	enum fabric_atomics atomics;
	bool write_immediate;
	bool relaxed_ordering; /* registrations that ask for it are taken */
	bool on_demand_paging;
	uint32_t inline_bytes; /* of a request, at most */
	unsigned max_qp, max_qp_wr, max_sge;
	unsigned max_cq, max_cqe;
	unsigned max_mr;
	uint64_t max_mr_bytes;
	/* reads and atomics of a queue pair under way: the peer's, and its own */
	unsigned responder_resources, initiator_depth;
};

#define FABRIC_GIDS_MAX 32

struct fabric_gid {
	unsigned index;
	uint8_t bytes[16];
	const char *type; /* static: "RoCE v2" */
	bool served;      /* the endpoint's address */
};

/* A port of an RDMA device, as it stands now. */
struct fabric_port_attr {
	unsigned number;
	const char *state;            /* static: "active"; NULL: not known */
	unsigned active_mtu, max_mtu; /* bytes; 0: not known */
	struct fabric_gid gids[FABRIC_GIDS_MAX];
	unsigned n_gids;    /* in gids[] */
	unsigned gids_more; /* there was no room for */
	struct fabric_rdma_options
		rdma_options; /* in effect: an MTU that is known is never `auto` */
};

/* Counters and facts of one endpoint for the status. */
struct fabric_endpoint_stats {
	uint64_t channels; /* connected now */
	uint64_t channels_ever;
	uint64_t refused;       /* channels not admitted */
	uint64_t errors;        /* channels that ended in an error */
	uint64_t exposures;     /* registrations now */
	uint64_t exposed_bytes; /* now */
};

struct fabric_server_ops {
	const char *name; /* for people: "rdma", "tcp" */
	enum fabric_kind kind;

	/* Open devices, listen, start threads.  Borrows events and ctx until close().
	 *   -ENODEV      no device to serve (verbs)
	 *   -EADDRINUSE  the port is taken; the text names address and port
	 *   -ENOMEM, -EMFILE, -EACCES ... */
	int (*open)(const struct fabric_server_params *params,
		    const struct fabric_server_events *events, void *ctx,
		    struct fabric_server **ret_server);
	/* End everything that is left, without news; joins the threads. */
	void (*close)(struct fabric_server *server);

	/* Polls readable when process() has work.  Constant while open. */
	int (*fd)(const struct fabric_server *server);
	/* Deliver what is due; never blocks. */
	void (*process)(struct fabric_server *server);

	unsigned (*n_endpoints)(const struct fabric_server *server);
	/* Borrowed until close(); process() may change it. */
	const struct fabric_endpoint *(*endpoint)(const struct fabric_server *server,
						  unsigned endpoint);
	void (*stats)(const struct fabric_server *server, unsigned endpoint,
		      struct fabric_endpoint_stats *ret_stats);
	/* What the endpoint's device can do, and a look at its port.  NULL: there are no
	 * devices.  -ENODEV: it was removed.  Borrowed until close(). */
	int (*device)(const struct fabric_server *server, unsigned endpoint,
		      const struct fabric_device_attr **ret_attr,
		      struct fabric_port_attr *ret_port);

	/* Begin to serve a session at an endpoint (verbs: its protection domain). */
	int (*session_open)(struct fabric_server *server, unsigned endpoint,
			    void *cookie, struct fabric_session **ret_session);
	/* End it: its channels go to ERROR before this returns (tcp: as soon as their
	 * thread sees it), then every exposure is withdrawn, then session_closed. */
	void (*session_close)(struct fabric_session *session);
	/* End one channel of it, as the client asked; no news.  On return nothing of it is
	 * applied any more.  Unknown numbers: nothing.
	 *   -EIO  the device does not let go of it, or of an earlier one */
	int (*channel_close)(struct fabric_session *session, uint32_t channel);
	/* Connect a channel, which the session was granted, with the client's end; gives this
	 * one's.  Without admit(); channel_up() is called before it returns.  NULL: no
	 * endpoint is FABRIC_ENDPOINT_DIRECT.
	 *   -EINVAL, -EACCES  that end cannot be reached from here, the text says why
	 *   -EBUSY            it is another channel's, unless only this client's GID is its
	 *                     own: then that channel goes down */
	int (*channel_connect)(struct fabric_session *session, uint32_t channel,
			       const struct fabric_qp_info *theirs,
			       struct fabric_qp_info *ret_ours);

	/* Make [addr, addr + bytes) reachable; ends in exposed().  The memory must stay
	 * mapped until withdrawn().  On failure nothing will be called. */
	int (*reg_mr)(struct fabric_session *session, void *addr, size_t bytes,
		      unsigned rights, void *cookie, struct fabric_mr **ret_mr);
	/* Make it unreachable; ends in withdrawn(), also when exposed() is still to come
	 * (that is then not called). */
	void (*dereg_mr)(struct fabric_mr *exposure);
	/* The same where nothing is to be waited for.  NULL, both: there always is.
	 * reg_mr_now: it is reachable on return, and exposed() is not called. */
	int (*reg_mr_now)(struct fabric_session *session, void *addr, size_t bytes,
			  unsigned rights, void *cookie, struct fabric_mr **ret_mr,
			  struct fabric_key *ret_key);
	/* True: it is as after withdrawn(), which is not called.  False: as withdraw().
	 * Not from notified(). */
	bool (*dereg_mr_now)(struct fabric_mr *exposure);
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
	/* In-band requests: the server does them, near its memory. */
	FABRIC_PING = 5,   /* nothing; of no range */
	FABRIC_FILL = 6,   /* the range, with a pattern */
	FABRIC_COPY = 7,   /* the range, from another one of the session */
	FABRIC_CRC = 8,    /* of the range, see base/crc32c.h */
	FABRIC_NOTIFY = 9, /* the daemon; a place in the range, no bytes */
};

/* What not every domain can do. */
enum fabric_capability { FABRIC_CAN_ATOMICS = 1, FABRIC_CAN_INBAND = 2 };

/* What operations have in common: a range that is exposed, a region for local memory. */
struct fabric_batch {
	enum fabric_opcode opcode;
	struct fabric_local_mr *region; /* NULL where !needs_local_mr */
	uint64_t remote_addr;
	uint64_t rkey;
};

static inline struct fabric_batch fabric_batch_of(enum fabric_opcode opcode,
						  struct fabric_local_mr *region,
						  const struct fabric_key *key)
{
	return (struct fabric_batch){ opcode, region, key->addr, key->rkey };
}

/* One of them, small enough to be carried by one channel.  As it may lie inside of a
 * structure of the caller's, it may be named by this type whatever it is there. */
struct __attribute__((may_alias)) fabric_op {
	uint64_t offset; /* from the run's remote_addr */
	void *addr;
	uint64_t bytes; /* > 0, at most max_bytes */
};

/* A piece of local memory of an operation that has several. */
struct fabric_sge {
	void *addr;
	uint64_t bytes;                 /* > 0 */
	struct fabric_local_mr *region; /* NULL where !needs_local_mr */
};

/* What an atomic works with, besides the 8 bytes at its place. */
struct fabric_atomic {
	uint64_t compare; /* FABRIC_CAS: only if these are there */
	uint64_t operand; /* FABRIC_CAS: what is put there; FABRIC_FETCH_ADD: added */
};

#define FABRIC_ATOMIC_BYTES 8

/* What an in-band request works with, besides its range. */
struct fabric_inband_request {
	struct fabric_key source; /* FABRIC_COPY: where it begins, and the key to it */
	uint64_t
		pattern; /* FABRIC_FILL: 8 bytes as they lie in memory, the first of them at
			   * the range's first byte, and so on */
	uint32_t value; /* FABRIC_NOTIFY */
};

/* The longest range of one. */
#define FABRIC_INBAND_BYTES_MAX (UINT32_C(256) << 10)

/* How operations ended.  Those of a channel end in the order in which they were posted. */
struct fabric_wc {
	void *owner; /* of the channel */
	unsigned n;  /* so many of its operations, the oldest */
	/* 0; -EACCES refused by the server; -ECONNRESET flushed or the peer is gone;
	 * -ETIMEDOUT the transport gave up retrying; -EFAULT local memory; -EIO else */
	int status;
	uint32_t vendor;  /* when that is not 0 */
	const char *text; /* static: the completion status in words; NULL when 0 */
};

struct fabric_channel_params {
	struct fabric_hello hello;
	unsigned depth; /* operations outstanding at most */
	unsigned timeout_ms;
	void *owner; /* comes with its completions */
	/* FABRIC_ENDPOINT_DIRECT: tell the server of this end, and learn of its own; blocks
	 * at most timeout_ms. */
	int (*exchange)(void *ctx, const struct fabric_qp_info *ours,
			unsigned timeout_ms, struct fabric_qp_info *ret_theirs);
	void *exchange_ctx;
};

/* How a client is to use its devices; verbs only. */
struct fabric_client_params {
	struct fabric_address
		source;             /* of this host, the port does not count; family 0:
				       * the one that leads to the server */
	struct fabric_address near; /* that one, where the caller knows it; family 0:
				       * it is to be found */
	struct fabric_rdma_options rdma_options;
};
#define FABRIC_CLIENT_PARAMS_INIT                        \
	{                                                \
		.rdma_options = FABRIC_RDMA_OPTIONS_INIT \
	}

struct fabric_client_ops {
	const char *name;
	enum fabric_kind kind;
	bool needs_local_mr; /* operations need registered memory */
	uint32_t max_bytes;  /* of one operation */

	/* Whether this host seems to have a device for the fabric: a guess that costs
	 * nothing.  NULL: it needs none.  [any] */
	bool (*device_present)(void);
	/* Why this host cannot use the fabric at all (-ENODEV with text), or 0.  [any] */
	int (*available)(void);

	/* Find the device that reaches the endpoint and prepare it; blocks.  params may be
	 * NULL: FABRIC_CLIENT_PARAMS_INIT.  [any] */
	int (*domain_open)(const struct fabric_endpoint *endpoint,
			   const struct fabric_client_params *params,
			   unsigned timeout_ms, struct fabric_domain **ret_domain);
	void (*domain_close)(struct fabric_domain *domain);
	/* Whether its device is being removed: it is to be closed, and what is left of it cut
	 * off where that takes long, as the kernel waits.  All of its channels are aborted
	 * before, and after domain_disassociate() neither device nor network reaches local memory any
	 * more; what is to be freed is freed all the same.  NULL: there are no devices.
	 * [one thread at a time] */
	bool (*domain_removed)(struct fabric_domain *domain);
	void (*domain_disassociate)(struct fabric_domain *domain);
	/* Whether the process has the device also behind domain_close(), where nobody is told
	 * of its removal any more: a domain that is left is closed once there is another.
	 * [any] */
	bool (*domain_holds_device)(const struct fabric_domain *domain);
	/* The local device's name, "" for tcp; borrowed. */
	const char *(*domain_device)(const struct fabric_domain *domain);
	/* 0, or -ENOTSUP with a text that names the device, this host's or the server's,
	 * and what it lacks.  [any] */
	int (*domain_supports)(const struct fabric_domain *domain,
			       enum fabric_capability capability);

	/* Pieces of local memory that one operation may have, >= 1.  [any] */
	unsigned (*sge_max)(const struct fabric_domain *domain,
			    enum fabric_opcode opcode);

	/* Register [addr, addr + bytes) for local access; stays the caller's.
	 * -ENOMEM, -EFAULT.  [any] */
	int (*reg_mr)(struct fabric_domain *domain, void *addr, size_t bytes,
		      struct fabric_local_mr **ret_region);
	void (*dereg_mr)(struct fabric_local_mr *region);

	/* Room for `depth` completions of all its channels together. */
	int (*cq_create)(struct fabric_domain *domain, unsigned depth,
			 struct fabric_cq **ret_cq);
	/* After its channels. */
	void (*cq_free)(struct fabric_cq *cq);
	/* Readable, once armed, when poll() may have something. */
	int (*cq_fd)(const struct fabric_cq *cq);
	/* Ask for the descriptor to turn readable at the next completion; poll once more
	 * after it, for what came in between.  Consumes what made it readable. */
	int (*cq_arm)(struct fabric_cq *cq);

	/* Connect; blocks at most timeout_ms.  [any]; the channel then belongs to the
	 * queue of cq.  -EACCES refused by the server, -ETIMEDOUT, -ECONNREFUSED ... */
	int (*connect)(struct fabric_cq *cq, const struct fabric_channel_params *params,
		       struct fabric_channel **ret_channel);
	/* Take up to n operations, each `stride` bytes behind the one before, for the next
	 * post(); returns how many there was room for.  Nothing but more of the same is
	 * done to the channel, or polled, until then. */
	unsigned (*prepare)(struct fabric_channel *channel,
			    const struct fabric_batch *run,
			    const struct fabric_op *parts, size_t stride, unsigned n);
	/* The same for one read or write between a part and several slices, instead of the
	 * part's addr and the run's region: sge_max() at most.  Returns 1, or 0 when
	 * there is no room.  NULL where sge_max() is 1.
	 *   -ENOMEM  for the channel's first one */
	int (*prepare_sges)(struct fabric_channel *channel,
			    const struct fabric_batch *run,
			    const struct fabric_op *part,
			    const struct fabric_sge *slices, unsigned n);
	/* The same for one atomic, whose old value goes to the FABRIC_ATOMIC_BYTES of the
	 * part.  Returns 1, or 0 when there is no room.
	 *   -EINVAL   its place is not a multiple of FABRIC_ATOMIC_BYTES
	 *   -ENOTSUP  as domain_supports() */
	int (*prepare_atomic)(struct fabric_channel *channel,
			      const struct fabric_batch *run,
			      const struct fabric_op *part,
			      const struct fabric_atomic *atomic);
	/* In-band requests that a channel has outstanding at most; its depth may be less. */
	unsigned inband_max;
	/* The same for one in-band request, of the part's range, FABRIC_INBAND_BYTES_MAX at
	 * most, or 0 for those that have none.  A FABRIC_CRC's result goes to the part's
	 * addr, a uint32_t of the caller's that needs no region; the others have no addr.
	 * Returns 1, or 0 when there is no room.
	 *   -ENOTSUP  as domain_supports() */
	int (*prepare_inband)(struct fabric_channel *channel,
			      const struct fabric_batch *run,
			      const struct fabric_op *part,
			      const struct fabric_inband_request *request);
	/* Post all that was put, as one batch; returns how many operations were taken, or
	 * -ECONNRESET.  When that is not all, the others are forgotten and the channel is
	 * dead: those taken may not end through poll(), where otherwise each does exactly
	 * once. */
	int (*post)(struct fabric_channel *channel);
	/* put() of one operation and post(), on a channel where nothing else is put: 1, or 0
	 * when there is no room, or -ECONNRESET. */
	int (*post_one)(struct fabric_channel *channel, enum fabric_opcode opcode,
			struct fabric_local_mr *region, const struct fabric_key *key,
			const struct fabric_op *part);
	/* Take up to n completions, each for one operation or for several that ended alike;
	 * never blocks.  After one with an error other than -EACCES the channel is dead:
	 * everything outstanding on it ends in error. */
	int (*poll)(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n);
	/* Everything outstanding completes in error soon; nothing is applied any more by
	 * this host's device.  [any] while the channel exists. */
	void (*abort)(struct fabric_channel *channel);
	/* Polls readable when the peer has ended the channel; -1 when poll() shows it by
	 * itself.  alive() then tells, and aborts a channel whose peer is gone.  [service
	 * thread] */
	int (*alive_fd)(const struct fabric_channel *channel);
	bool (*alive)(struct fabric_channel *channel);
	/* Disconnect and free; completions not yet polled are lost. */
	void (*channel_free)(struct fabric_channel *channel);
};

extern const struct fabric_server_ops fabric_tcp_server;
extern const struct fabric_server_ops fabric_verbs_server;
extern const struct fabric_client_ops fabric_tcp_client;
extern const struct fabric_client_ops fabric_verbs_client;

#endif
