/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path of a server: one table of functions, implemented by verbs/ (RDMA) and tcp/.  The
 * daemon does not know which implementation it uses.
 *
 * A fabric_server listens on endpoints.  The daemon opens a fabric_session for each (session,
 * endpoint) that it serves.  A channel sends a hello and is admitted by the token in it.  A memory
 * region (mr) makes an exact range reachable with exact rights; its rkey works in one session
 * only.  All calls and all events are on the loop thread.  Slow work runs on threads of the
 * fabric, which report through the server's descriptor.
 *
 * Functions return 0 or -errno with err_text(); on failure ret_* is untouched. */
#ifndef FABRIC_SERVER_H
#define FABRIC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/device.h"
#include "fabric/fabric.h"
#include "fabric/hello.h"
#include "fabric/rdma_options.h"

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
	/* A reg_mr() that returned 0 is done, with the key; or has failed, with err and text: the
	 * mr does not exist. */
	void (*mr_registered)(void *ctx, void *mr_cookie, int err, const char *text,
			      const struct fabric_key *key);
	/* A dereg_mr() that returned false is done: the key is dead, no access is in progress or
	 * will be.  Also called, before session_closed(), for each mr that session_close()
	 * deregistered. */
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
	/* verbs: for this time a key that has died is in quarantine, not handed out again; 0: as
	 * the device does */
	uint64_t key_quarantine_ms;
	unsigned threads; /* tcp: data threads, >= 1 */
	bool tls;         /* tcp: channels are under TLS, with their channel_key() */
	unsigned backlog; /* limit of connections that wait to be admitted */
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
	 *   -ENOTSUP     this build does not have the fabric (verbs)
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

	/* Make [addr, addr + bytes) reachable.  1: it is, with this key, and no event follows; 0:
	 * mr_registered() follows, and *ret_key is not set.  The memory must stay mapped until the
	 * key is dead.  On failure no event follows. */
	int (*reg_mr)(struct fabric_session *session, void *addr, size_t bytes,
		      unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		      struct fabric_key *ret_key);
	/* Make the mr unreachable; an outstanding mr_registered() is not called.  True: the key is
	 * dead, and no event follows; false: mr_deregistered() follows, also when notifications of
	 * the mr are pending.  Must not be called from notified(). */
	bool (*dereg_mr)(struct fabric_mr *mr);
	/* Add what went through the mr so far.  NULL: not known, as the device moves bytes on its
	 * own. */
	void (*mr_traffic)(const struct fabric_mr *mr, struct fabric_mr_traffic *sum);
};

extern const struct fabric_server_ops fabric_tcp_server;
extern const struct fabric_server_ops fabric_verbs_server;

#endif
