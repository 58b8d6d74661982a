/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of a session on one endpoint: the local device that reaches the endpoint, a
 * protection domain on the device, and local memory registered in the domain.  Threads: [any]. */
#ifndef FABRIC_VERBS_CLIENT_DOMAIN_H
#define FABRIC_VERBS_CLIENT_DOMAIN_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "fabric/client.h"
#include "fabric/verbs/client/cm_id.h"
#include "fabric/verbs/client/route.h"
#include "fabric/verbs/common/device_attr.h"

/* Limit of scatter/gather elements of a work request; the device's may be lower. */
#define VERBS_SGES_MAX 8

struct fabric_domain {
	struct ibv_context *verbs;
	bool direct;
	struct verbs_route route; /* direct */
	/* not direct: holds the device, also after a channel has used it */
	struct verbs_cm_id cm_id;
	atomic_flag cm_id_used;
	atomic_bool cm_id_lent; /* a channel has it, and reads its events */
	atomic_bool removed;    /* the device is being removed */
	/* of this domain's completion queues, for domain_disassociate() */
	pthread_mutex_t cqs_lock;
	struct list cqs; /* [cqs_lock] */
	struct fabric_endpoint peer;
	struct fabric_rdma_options rdma_options;
	struct verbs_device_attr attr;
	struct ibv_pd *pd;
	bool confirm;        /* iWARP: a write is done only when a later read is done */
	bool guard;          /* posts may raise SIGPIPE, which would end the program */
	struct ibv_mr *sink; /* of sink_byte; NULL unless `confirm` */
	uint8_t sink_byte;   /* destination of confirming reads */
};

struct fabric_local_mr {
	struct ibv_mr *mr;
	bool device_only; /* a dma-buf: the CPU does not access it */
};

/* fabric_client_ops.domain_open ... dereg_mr. */
int verbs_domain_open(const struct fabric_endpoint *endpoint,
		      const struct fabric_client_params *params, unsigned timeout_ms,
		      struct fabric_domain **ret_domain);
void verbs_domain_close(struct fabric_domain *domain);
bool verbs_domain_removed(struct fabric_domain *domain);
void verbs_domain_disassociate(struct fabric_domain *domain);
bool verbs_domain_holds_device(const struct fabric_domain *domain);
const char *verbs_domain_device(const struct fabric_domain *domain);
int verbs_domain_supports(const struct fabric_domain *domain,
			  enum fabric_capability capability);
unsigned verbs_domain_sge_max(const struct fabric_domain *domain,
			      enum fabric_opcode opcode);
int verbs_local_mr_reg(struct fabric_domain *domain, void *addr, size_t bytes,
		       struct fabric_local_mr **ret_region);
int verbs_local_mr_reg_dmabuf(struct fabric_domain *domain, int fd, uint64_t offset,
			      void *addr, size_t bytes,
			      struct fabric_local_mr **ret_region);
void verbs_local_mr_dereg(struct fabric_local_mr *region);

#endif
