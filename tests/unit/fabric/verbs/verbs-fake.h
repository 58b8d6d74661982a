/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs and librdmacm as far as src/fabric/verbs uses them, played by the test: what
 * is made is counted and must go in the right order, any call can be made to fail, and the
 * case says what the network and the device do.
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

/* What the case may set, before and in between. */
struct fake_settings {
	bool no_devices;
	bool iwarp;
	bool infiniband;
	enum ibv_atomic_cap atomics;
	unsigned more_gids;
	unsigned gid_shift; /* added to the index of each GID */
	uint16_t pkeys[3];  /* of InfiniBand's ports */
	bool port_down[2];
	bool away[2]; /* it is not there; then fake_return() */
	bool moved;   /* fake0 has 10.1.0.9 instead of 10.1.0.1 */
	int max_cqe;
	int max_qp_wr;
	uint32_t max_inline;
	uint16_t taken_port;            /* binding it gives EADDRINUSE */
	unsigned ports_taken;           /* so many connects to come give it */
	bool by_hand;                   /* connects are not answered by themselves */
	enum rdma_cm_event_type answer; /* to a connect */
	int answer_status;
	uint8_t terms[8]; /* private data of a good answer */
	uint32_t vendor;  /* of each device */
	uint32_t ece_vendor;
	uint32_t answer_word; /* private data of the answer, network order; 0: none */
	bool never_resolves;
	bool resolves_late;   /* just as its time is over */
	void (*at_rtr)(void); /* called before a queue pair goes there; NULL: nothing */
	void (*at_post_recv)(void); /* called before a receive is posted; likewise */
	void (*at_reg)(void);       /* called before memory is registered; likewise */
	/* breaks when a queue is armed next, just before that takes effect */
	struct rdma_cm_id *break_at_arm;
	int dereg_error; /* of every ibv_dereg_mr */
	int reg_error;   /* of every ibv_reg_mr for writing */
	bool no_errno;   /* what fails at fake_fail_at() leaves 0 in errno */
	/* of every call of its kind; what is then not destroyed is not counted as live */
	int modify_error;     /* ibv_modify_qp to ERROR */
	int rtr_error;        /* ibv_modify_qp to RTR */
	int qp_error;         /* rdma_create_qp */
	int destroy_qp_error; /* ibv_destroy_qp */
	int destroy_id_error; /* rdma_destroy_id */
	int dealloc_error;    /* ibv_dealloc_pd */
	int cm_error;         /* rdma_get_cm_event */
	int async_error;      /* ibv_get_async_event */
	int notify_errors;    /* so many of ibv_req_notify_cq to come */
	/* each ibv_post_send raises SIGPIPE in the thread that calls it, as siw's does when
	 * the connection is closed */
	bool post_raises;
};
extern struct fake_settings fake;

/* Fail the n-th call from now that can fail; 0: none. */
void fake_fail_at(unsigned n);
/* Whether that call was reached. */
bool fake_failed(void);
/* Its name. */
const char *fake_failed_call(void);

/* Objects made and not destroyed. */
unsigned fake_live(void);
unsigned fake_live_qps(void);
unsigned fake_live_mrs(void);

/* ---- server's side ---- */

/* A connect request at the listener on fakeN; returns the new id. */
struct rdma_cm_id *fake_request(unsigned device, const void *private_data,
				uint8_t bytes);
/* An event of an id; NULL: of the listener on fake0. */
void fake_event(struct rdma_cm_id *id, enum rdma_cm_event_type type);
void fake_async(unsigned device, enum ibv_event_type type, int port);
/* A device that was away is back, as another one of that name. */
void fake_return(unsigned device);
/* What became of the id of a request. */
enum fake_fate { FAKE_WAITING, FAKE_ACCEPTED, FAKE_REJECTED };
enum fake_fate fake_fate(const struct rdma_cm_id *id);
/* Parameters of the last rdma_connect or rdma_accept. */
struct rdma_conn_param fake_param(void);
/* How the queue pair driven last was driven: members as of the step that sets them. */
struct ibv_qp_attr fake_driven(void);
/* The traffic class that was set last; -1: none. */
int fake_tos(void);
/* Of the last queue pair that was made without rdma_cm, and is there: */
uint32_t fake_own_number(void);
void fake_own_break(void);
/* Where the way resolved last begins; family 0: anywhere. */
struct sockaddr_storage fake_source(void);
/* The vendor whose enhancements were set last. */
uint32_t fake_ece(void);
/* Move the id's queue pair to ERROR, as the device does on a refused access. */
void fake_break(struct rdma_cm_id *id);
/* An event of the queue pair that ibv_destroy_qp failed for last. */
void fake_async_lost(unsigned device, enum ibv_event_type type);
/* Access flags of the last registration. */
unsigned fake_access(void);
/* Whether this thread made it. */
bool fake_registered_here(void);
/* The queue pair of the id last connected or accepted. */
struct rdma_cm_id *fake_last_id(void);
unsigned fake_disconnects(void);
/* How many of them came before the first id that was accepted was destroyed. */
unsigned fake_disconnects_first(void);

/* ---- client's side ---- */

struct fake_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint64_t remote_addr;
	uint32_t bytes; /* of the first slice */
	const void *addr;
	int slices;
	uint64_t compare_add, swap; /* of atomics */
};
/* What is posted on the last connected queue pair and has not completed. */
unsigned fake_sends(struct fake_send sends[FAKE_SENDS]);
/* Complete the oldest n of them well: entries for those that ask for one. */
void fake_complete(unsigned n);
/* Fail the oldest and flush the others. */
void fake_fail(enum ibv_wc_status status);
/* Drop what is posted without a word. */
void fake_forget(void);
/* The next post takes n requests and refuses the rest; -1: takes all. */
void fake_post_limit(int n);
/* SIGPIPE was kept off the thread that posted last. */
bool fake_post_guarded(void);
/* The next post takes all and fails, naming no request, as siw does. */
void fake_post_nameless(void);
/* A message for the id's queue pair, which has a receive. */
void fake_receive(struct rdma_cm_id *id, const void *message, uint32_t bytes);
/* A write of so many bytes with an immediate, which takes a receive and leaves it as it is. */
void fake_receive_immediate(struct rdma_cm_id *id, uint32_t bytes);
/* How many it has. */
unsigned fake_receives(const struct rdma_cm_id *id);
/* The oldest message that it sends, which then completes; false: there is none. */
bool fake_sent(struct rdma_cm_id *id, void *message, uint32_t bytes);
/* How often ibv_post_send was called. */
unsigned fake_posts(void);

#endif
