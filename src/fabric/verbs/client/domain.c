/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/domain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "fabric/verbs/client/cq.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/iwarp.h"

/* ibv_fork_init() is not called: it changes the behaviour of the whole program, which a library
 * must not do, and since 5.12 the kernel copies pinned pages for the child. */

static int sink_open(struct fabric_domain *domain)
{
	if (!domain->confirm)
		return 0;
	domain->sink = ibv_reg_mr(domain->pd, &domain->sink_byte, 1,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return domain->sink ? 0 : err_errno(verbs_errno(), "ibv_reg_mr of one byte");
}

/* The server decides how its channels are connected; this host may refuse one way. */
static int connect_check(const struct fabric_domain *domain)
{
	const struct fabric_rdma_options *rdma_options = &domain->rdma_options;
	bool wants = rdma_options->connect == FABRIC_CONNECT_DIRECT;

	if (rdma_options->connect != FABRIC_OPTION_AUTO && wants != domain->direct)
		return err_set(
			-ENOTSUP,
			"channels of the server's RDMA device %s are set up with "
			"connect = %s, not %s",
			domain->peer.device, domain->direct ? "direct" : "cm",
			wants ? "direct" : "cm");
	if (!domain->direct && (rdma_options->gid_index != FABRIC_OPTION_AUTO ||
				rdma_options->pkey != FABRIC_OPTION_AUTO))
		return err_set(
			-EINVAL,
			"gid_index and pkey are for connect = direct; with "
			"rdma_cm they are those of the interface that leads to the "
			"server's RDMA device %s",
			domain->peer.device);
	return 0;
}

/* The attributes of the device that was queried last: a program that opens many sessions uses one
 * device, and the query takes as long as creating a queue pair. */
static int attr_query(struct ibv_context *verbs, struct verbs_device_attr *ret_attr)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static const struct ibv_context *of;
	static struct verbs_device_attr attr;
	bool iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	int err = 0;

	(void)pthread_mutex_lock(&lock);
	/* another context may have the address of one that was closed */
	if (of != verbs || attr.iwarp != iwarp ||
	    strcmp(attr.name, ibv_get_device_name(verbs->device)) != 0)
		err = verbs_device_attr_query(verbs, &attr);
	of = err ? NULL : verbs;
	if (!err)
		verbs_siw_reserve(verbs, attr.vendor);
	*ret_attr = attr;
	(void)pthread_mutex_unlock(&lock);
	return err;
}

/* Find the device that leads to the server, and hold it. */
static int device_find(struct fabric_domain *domain,
		       const struct fabric_client_params *params, unsigned timeout_ms)
{
	int err;

	if (domain->direct)
		err = verbs_route_find(&domain->peer.address, &params->source,
				       &params->route_source, &domain->route);
	else
		err = verbs_cm_id_resolve(&domain->cm_id, &domain->peer.address,
					  &params->source,
					  domain->rdma_options.traffic_class,
					  timeout_ms, params->cancelled);
	if (!err)
		domain->verbs =
			domain->direct ? domain->route.verbs : domain->cm_id.id->verbs;
	return err;
}

static void device_release(struct fabric_domain *domain)
{
	if (domain->direct)
		verbs_route_release(&domain->route);
	else
		verbs_cm_id_destroy(&domain->cm_id);
}

int verbs_domain_open(const struct fabric_endpoint *endpoint,
		      const struct fabric_client_params *params, unsigned timeout_ms,
		      struct fabric_domain **ret_domain)
{
	const struct fabric_client_params standard = FABRIC_CLIENT_PARAMS_INIT;
	struct fabric_domain *domain = calloc(1, sizeof(*domain));
	int err;

	if (!domain)
		return err_errno(-ENOMEM, "an RDMA domain");
	if (!params)
		params = &standard;
	atomic_flag_clear(&domain->cm_id_used);
	list_init(&domain->cqs);
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&domain->cqs_lock, NULL);
	domain->peer = *endpoint;
	domain->rdma_options = params->rdma_options;
	domain->direct = (endpoint->flags & FABRIC_ENDPOINT_DIRECT) != 0;
	err = connect_check(domain);
	if (!err)
		err = device_find(domain, params, timeout_ms);
	if (err)
		goto err_free;
	err = attr_query(domain->verbs, &domain->attr);
	if (err)
		goto err_route;
	domain->confirm =
		domain->attr.iwarp || (endpoint->flags & FABRIC_ENDPOINT_CONFIRM);
	domain->guard = domain->attr.iwarp && !verbs_sigpipe_ignored();
	domain->pd = ibv_alloc_pd(domain->verbs);
	if (!domain->pd) {
		err = err_errno(verbs_errno(), "RDMA device %s: ibv_alloc_pd",
				domain->attr.name);
		goto err_route;
	}
	err = sink_open(domain);
	if (err) {
		(void)err_prefix(err, "RDMA device %s", domain->attr.name);
		goto err_pd;
	}
	*ret_domain = domain;
	return 0;

err_pd:
	(void)ibv_dealloc_pd(domain->pd);
err_route:
	device_release(domain);
err_free:
	free(domain);
	return err;
}

void verbs_domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	if (domain->sink)
		(void)ibv_dereg_mr(domain->sink);
	(void)ibv_dealloc_pd(domain->pd);
	if (atomic_load(&domain->removed) && !domain->direct)
		verbs_disassociate(domain->verbs);
	device_release(domain);
	(void)pthread_mutex_destroy(&domain->cqs_lock);
	free(domain);
}

bool verbs_domain_removed(struct fabric_domain *domain)
{
	struct verbs_cm_event event;

	/* without rdma_cm the event comes from the device, once for all that share it */
	if (domain->direct && verbs_route_device_failed(&domain->route))
		atomic_store(&domain->removed, true);
	else if (!domain->direct && !atomic_load(&domain->cm_id_lent))
		while (!verbs_cm_get_event(domain->cm_id.events, &event))
			if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
				atomic_store(&domain->removed, true);
	return atomic_load(&domain->removed);
}

void verbs_domain_disassociate(struct fabric_domain *domain)
{
	/* the kernel waits only for devices that are removed */
	if (!atomic_load(&domain->removed))
		return;
	verbs_disassociate(domain->verbs);
	(void)pthread_mutex_lock(&domain->cqs_lock);
	list_for_each_entry(struct fabric_cq, cq, &domain->cqs, in_domain)
		verbs_disassociate_fd(cq->comp->fd);
	(void)pthread_mutex_unlock(&domain->cqs_lock);
}

bool verbs_domain_holds_device(const struct fabric_domain *domain)
{
	/* librdmacm closes no device */
	return !domain->direct;
}

const char *verbs_domain_device(const struct fabric_domain *domain)
{
	return domain->attr.name;
}

int verbs_domain_supports(const struct fabric_domain *domain,
			  enum fabric_capability capability)
{
	const struct verbs_device_attr *attr = &domain->attr;

	if (capability == FABRIC_CAN_INBAND &&
	    (domain->peer.flags & FABRIC_ENDPOINT_INBAND))
		return 0;
	if (capability != FABRIC_CAN_ATOMICS)
		return err_set(-ENOTSUP,
			       "the server's RDMA device %s serves no in-band requests",
			       domain->peer.device);
	if (!attr->public.atomics)
		return err_set(-ENOTSUP,
			       "RDMA device %s has no atomics (atomic_cap is NONE%s)",
			       attr->name, attr->iwarp ? ", as over all iWARP" : "");
	if (!(domain->peer.flags & FABRIC_ENDPOINT_ATOMICS))
		return err_set(-ENOTSUP,
			       "the server's RDMA device %s has no atomics "
			       "(atomic_cap is NONE)",
			       domain->peer.device);
	return 0;
}

unsigned verbs_domain_sge_max(const struct fabric_domain *domain,
			      enum fabric_opcode opcode)
{
	unsigned max = domain->attr.public.max_sge;

	if (opcode == FABRIC_READ && domain->attr.max_sge_rd < max)
		max = domain->attr.max_sge_rd;
	if (max > VERBS_SGES_MAX)
		max = VERBS_SGES_MAX;
	return max > 0 ? max : 1;
}

/* Access flags of local memory. */
static unsigned local_access(const struct fabric_domain *domain)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE;

	/* over iWARP, the peer's messages write the data of a read */
	if (domain->attr.iwarp)
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (domain->rdma_options.relaxed_ordering)
		access |= IBV_ACCESS_RELAXED_ORDERING;
	return access;
}

static int local_check(const struct fabric_domain *domain, size_t bytes)
{
	return verbs_device_registers(&domain->attr, bytes, "the buffer",
				      "make several buffers");
}

int verbs_local_mr_reg(struct fabric_domain *domain, void *addr, size_t bytes,
		       struct fabric_local_mr **ret_region)
{
	unsigned access = local_access(domain);
	struct fabric_local_mr *region;
	int err = local_check(domain, bytes);

	if (err)
		return err;
	region = calloc(1, sizeof(*region));
	if (!region)
		return err_errno(-ENOMEM, "a region");
	region->mr = ibv_reg_mr(domain->pd, addr, bytes, access);
	/* memory mapped for reading only can still be the source of writes */
	if (!region->mr && (errno == EFAULT || errno == EACCES))
		region->mr = ibv_reg_mr(domain->pd, addr, bytes, 0);
	if (!region->mr) {
		err = verbs_reg_mr_error(domain->verbs, bytes, verbs_errno(),
					 "ulimit -l");
		free(region);
		return err;
	}
	*ret_region = region;
	return 0;
}

/* The error of an ibv_reg_dmabuf_mr(). */
static int dmabuf_error(const struct fabric_domain *domain, size_t bytes, int err)
{
	char size[32];

	if (err == -EOPNOTSUPP)
		return err_set(-ENOTSUP,
			       "RDMA device %s cannot register dma-bufs, its driver "
			       "lacks that: use a buffer in the memory of the host",
			       domain->attr.name);
	(void)units_format_bytes(bytes, size, sizeof(size));
	return err_errno(err, "RDMA device %s: ibv_reg_dmabuf_mr of %s",
			 domain->attr.name, size);
}

int verbs_local_mr_reg_dmabuf(struct fabric_domain *domain, int fd, uint64_t offset,
			      void *addr, size_t bytes,
			      struct fabric_local_mr **ret_region)
{
	struct fabric_local_mr *region;
	int err = local_check(domain, bytes);

	if (err)
		return err;
	region = calloc(1, sizeof(*region));
	if (!region)
		return err_errno(-ENOMEM, "a region");
	region->mr = ibv_reg_dmabuf_mr(domain->pd, offset, bytes, (uintptr_t)addr, fd,
				       (int)local_access(domain));
	if (!region->mr) {
		err = dmabuf_error(domain, bytes, verbs_errno());
		free(region);
		return err;
	}
	region->device_only = true;
	*ret_region = region;
	return 0;
}

void verbs_local_mr_dereg(struct fabric_local_mr *region)
{
	if (!region)
		return;
	(void)ibv_dereg_mr(region->mr);
	free(region);
}
