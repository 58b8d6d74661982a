/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake libibverbs and librdmacm with the functions that src/fabric/verbs uses.  The
 * fake counts the objects that are created and checks the order in which they are
 * destroyed; any call can be made to fail; the test case decides what network and
 * device do.
 *
 * Two devices: fake0 at 10.1.0.1 and fd00::1, fake1 at 10.2.0.1.
 * Threads: all calls [any]. */
#ifndef TESTS_UNIT_VERBS_FAKE_H
#define TESTS_UNIT_VERBS_FAKE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_SENDS 64

/* Settings that a case may change at any time. */
struct fake_settings {
	bool no_devices;
	bool iwarp;
	bool infiniband;
	enum ibv_atomic_cap atomics;
	unsigned extra_gids;
	unsigned gid_index_shift; /* added to the index of each GID */
	uint16_t pkeys[3];        /* of InfiniBand's ports */
	bool port_down[2];
	bool absent[2];       /* the device is removed; see fake_device_return() */
	bool address_changed; /* fake0 has 10.1.0.9 instead of 10.1.0.1 */
	int max_cqe;
	uint64_t max_mr_bytes;
	int max_qp_wr;
	uint32_t max_inline;
	uint16_t port_in_use;           /* rdma_bind_addr() of it gives EADDRINUSE */
	unsigned ports_in_use;          /* number of next connects that give it */
	bool no_answer;                 /* connects get no event */
	enum rdma_cm_event_type answer; /* to a connect */
	int answer_status;
	uint8_t answer_limits[8]; /* private data of an answer that accepts */
	uint32_t vendor;          /* of each device */
	uint32_t ece_vendor;
	uint32_t answer_word; /* private data of the answer, network order; 0: none */
	bool never_resolves;
	bool resolves_late; /* when its timeout is over */
	/* called before a queue pair goes to RTR, a receive is posted, memory is
	 * registered; may be NULL */
	void (*before_rtr)(void);
	void (*before_post_recv)(void);
	void (*before_reg_mr)(void);
	unsigned poll_cq_us; /* time that ibv_poll_cq() takes */
	/* its queue pair goes to ERROR when a CQ is armed next, just before it is
	 * armed */
	struct rdma_cm_id *break_at_arm;
	/* of connect requests: the peer's queue pair, 0: each has another one; and its GID, NULL:
	 * that of its address, 10.1.0.9 */
	uint32_t peer_qpn;
	const char *peer_gid;
	/* called before a request is rejected; may be NULL */
	void (*before_reject)(void);
	void (*before_destroy_qp)(void); /* the same */
	/* next calls of ibv_dereg_mr that fail and free nothing */
	unsigned dereg_refusals;
	/* the key that died last is handed out again first */
	bool repeats_keys;
	int fail_errno; /* of the call of fake_fail_at(); 0: it leaves that in errno */
	/* errno of every call of its kind; objects not destroyed then do not count as
	 * live */
	int dereg_error;      /* ibv_dereg_mr */
	int reg_error;        /* ibv_reg_mr with any access flag */
	int dmabuf_error;     /* ibv_reg_dmabuf_mr */
	int modify_error;     /* ibv_modify_qp to ERROR */
	int rtr_error;        /* ibv_modify_qp to RTR */
	int qp_error;         /* rdma_create_qp */
	int destroy_qp_error; /* ibv_destroy_qp */
	int destroy_id_error; /* rdma_destroy_id */
	int dealloc_error;    /* ibv_dealloc_pd */
	int cm_error;         /* rdma_get_cm_event */
	int async_error;      /* ibv_get_async_event */
	int notify_errors;    /* number of next calls of ibv_req_notify_cq that fail */
	/* each ibv_post_send raises SIGPIPE in the calling thread, as siw does when the
	 * connection is closed */
	bool post_raises_sigpipe;
};
extern struct fake_settings verbs_fake;

/* Fail the n-th call from now that can fail; 0: none. */
void fake_fail_at(unsigned n);
/* Whether that call was reached. */
bool fake_failed(void);
/* Its name. */
const char *fake_failed_call(void);
/* Call run() once for each call in it that can fail, with that call failing, and check
 * that run() leaves no object; returns the number of runs. */
unsigned fake_fail_each(void (*run)(void));

/* Number of objects created and not destroyed. */
unsigned fake_live(void);
unsigned fake_live_qps(void);
/* Of those: not in ERROR. */
unsigned fake_serving_qps(void);
unsigned fake_live_mrs(void);

/* Free the destroyed queue pairs, which are kept so that later uses are detected. */
void fake_forget_destroyed(void);
/* Wait until all completions are polled. */
void fake_await_polled(void);
/* Whether an id of a connect request was not destroyed. */
bool fake_id_lives(const struct rdma_cm_id *id);

/* ---- server side ---- */

/* Send a connect request to the listener on a device; returns the new id. */
struct rdma_cm_id *fake_request(unsigned device, const void *private_data,
				uint8_t bytes);
/* Report an event of an id; NULL: of the listener on fake0. */
void fake_event(struct rdma_cm_id *id, enum rdma_cm_event_type type);
void fake_async_event(unsigned device, enum ibv_event_type type, int port);
/* Report an event of the queue pair for which ibv_destroy_qp failed last. */
void fake_async_event_lost(unsigned device, enum ibv_event_type type);
/* An absent device is back, as a new device of that name. */
void fake_device_return(unsigned device);
enum fake_request_state { FAKE_REQUESTED, FAKE_ACCEPTED, FAKE_REJECTED };
/* The state of a connect request, also after its id was destroyed. */
enum fake_request_state fake_request_state(const struct rdma_cm_id *id);
/* Parameters of the last rdma_connect or rdma_accept. */
struct rdma_conn_param fake_param(void);
/* Attributes set by the last ibv_modify_qp to INIT, RTR and RTS. */
struct ibv_qp_attr fake_qp_attr(void);
/* The traffic class that was set last; -1: none. */
int fake_tos(void);
/* Number of the last queue pair made without rdma_cm, which still exists. */
uint32_t fake_direct_qpn(void);
/* Move it to ERROR. */
void fake_direct_break(void);
/* Source address of the last rdma_resolve_addr; family 0: any. */
struct sockaddr_storage fake_source(void);
/* Vendor of the enhanced connection establishment that was set last. */
uint32_t fake_ece(void);
/* Move the id's queue pair to ERROR, as the device does on a refused access. */
void fake_break(struct rdma_cm_id *id);
/* Access flags of the last registration. */
unsigned fake_access(void);
/* Whether this thread made it. */
bool fake_registered_here(void);
/* Arguments of the last ibv_reg_dmabuf_mr. */
struct fake_dmabuf {
	int fd;
	uint64_t offset, iova;
	size_t bytes;
};
struct fake_dmabuf fake_dmabuf(void);
/* The id last connected or accepted. */
struct rdma_cm_id *fake_last_id(void);
/* Number of calls of rdma_disconnect. */
unsigned fake_disconnects(void);
/* Number of them before the first accepted id was destroyed. */
unsigned fake_disconnects_before_destroy(void);

/* ---- client side ---- */

struct fake_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint64_t remote_addr;
	uint32_t bytes; /* of the first sge */
	const void *addr;
	int n_sges;
	uint64_t compare_add, swap; /* of atomics */
};
/* Get the outstanding requests of the queue pair connected last; returns their
 * number. */
unsigned fake_sends(struct fake_send sends[FAKE_SENDS]);
/* Complete the oldest n successfully, with completions for the signaled ones. */
void fake_complete_sends(unsigned n);
/* Fail the oldest one and flush the others. */
void fake_fail(enum ibv_wc_status status);
/* Drop all without completions. */
void fake_drop_sends(void);
/* The next post accepts n requests and refuses the others; -1: accepts all. */
void fake_post_limit(int n);
/* The next post accepts all requests, then fails with bad_wr NULL, as siw does. */
void fake_post_fail_all(void);
/* Whether the last post was called with SIGPIPE blocked. */
bool fake_post_blocked_sigpipe(void);
/* Number of calls of ibv_post_send. */
unsigned fake_posts(void);
/* Deliver a message to the id's queue pair, which has a receive. */
void fake_receive(struct rdma_cm_id *id, const void *message, uint32_t bytes);
/* Deliver a write with immediate of that size: it completes a receive without data. */
void fake_receive_immediate(struct rdma_cm_id *id, uint32_t bytes);
/* Number of receives posted. */
unsigned fake_receives(const struct rdma_cm_id *id);
/* Complete the oldest message that it sends and copy it; false: there is none. */
bool fake_pop_send(struct rdma_cm_id *id, void *message, uint32_t bytes);

#endif
