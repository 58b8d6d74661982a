/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of libibverbs and librdmacm that clients and doctors call, by their own names: the
 * libraries are loaded at the first use of RDMA, so that a host without them can use TCP.  What
 * posts and polls is inline in verbs.h, and is called in the device's own library as ever. */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

#include "fabric/verbs/common/load.h"

/* verbs.h wraps these */
#undef ibv_query_port
#undef ibv_reg_mr

/* X(number of parameters, return or nothing, type, function, version, type of each parameter) */
#define IBVERBS_FUNCTIONS(X)                                                          \
	X(5, return, ssize_t, _ibv_query_gid_table, "IBVERBS_1.11",                   \
	  struct ibv_context *, struct ibv_gid_entry *, size_t, uint32_t, size_t)     \
	X(1, , void, ibv_ack_async_event, "IBVERBS_1.1", struct ibv_async_event *)    \
	X(2, , void, ibv_ack_cq_events, "IBVERBS_1.1", struct ibv_cq *, unsigned int) \
	X(1, return, struct ibv_pd *, ibv_alloc_pd, "IBVERBS_1.1",                    \
	  struct ibv_context *)                                                       \
	X(1, return, int, ibv_close_device, "IBVERBS_1.1", struct ibv_context *)      \
	X(1, return, struct ibv_comp_channel *, ibv_create_comp_channel,              \
	  "IBVERBS_1.0", struct ibv_context *)                                        \
	X(5, return, struct ibv_cq *, ibv_create_cq, "IBVERBS_1.1",                   \
	  struct ibv_context *, int, void *, struct ibv_comp_channel *, int)          \
	X(2, return, struct ibv_qp *, ibv_create_qp, "IBVERBS_1.1", struct ibv_pd *,  \
	  struct ibv_qp_init_attr *)                                                  \
	X(1, return, int, ibv_dealloc_pd, "IBVERBS_1.1", struct ibv_pd *)             \
	X(1, return, int, ibv_dereg_mr, "IBVERBS_1.1", struct ibv_mr *)               \
	X(1, return, int, ibv_destroy_comp_channel, "IBVERBS_1.0",                    \
	  struct ibv_comp_channel *)                                                  \
	X(1, return, int, ibv_destroy_cq, "IBVERBS_1.1", struct ibv_cq *)             \
	X(1, return, int, ibv_destroy_qp, "IBVERBS_1.1", struct ibv_qp *)             \
	X(1, , void, ibv_free_device_list, "IBVERBS_1.1", struct ibv_device **)       \
	X(2, return, int, ibv_get_async_event, "IBVERBS_1.1", struct ibv_context *,   \
	  struct ibv_async_event *)                                                   \
	X(3, return, int, ibv_get_cq_event, "IBVERBS_1.1", struct ibv_comp_channel *, \
	  struct ibv_cq **, void **)                                                  \
	X(1, return, struct ibv_device **, ibv_get_device_list, "IBVERBS_1.1", int *) \
	X(1, return, const char *, ibv_get_device_name, "IBVERBS_1.1",                \
	  struct ibv_device *)                                                        \
	X(3, return, int, ibv_modify_qp, "IBVERBS_1.1", struct ibv_qp *,              \
	  struct ibv_qp_attr *, int)                                                  \
	X(1, return, struct ibv_context *, ibv_open_device, "IBVERBS_1.1",            \
	  struct ibv_device *)                                                        \
	X(2, return, int, ibv_query_device, "IBVERBS_1.1", struct ibv_context *,      \
	  struct ibv_device_attr *)                                                   \
	X(4, return, int, ibv_query_pkey, "IBVERBS_1.1", struct ibv_context *,        \
	  uint8_t, int, __be16 *)                                                     \
	X(3, return, int, ibv_query_port, "IBVERBS_1.1", struct ibv_context *,        \
	  uint8_t, struct _compat_ibv_port_attr *)                                    \
	X(6, return, struct ibv_mr *, ibv_reg_dmabuf_mr, "IBVERBS_1.12",              \
	  struct ibv_pd *, uint64_t, size_t, uint64_t, int, int)                      \
	X(4, return, struct ibv_mr *, ibv_reg_mr, "IBVERBS_1.1", struct ibv_pd *,     \
	  void *, size_t, int)                                                        \
	X(5, return, struct ibv_mr *, ibv_reg_mr_iova2, "IBVERBS_1.8",                \
	  struct ibv_pd *, void *, size_t, uint64_t, unsigned int)                    \
	X(2, return, int, ibv_set_ece, "IBVERBS_1.10", struct ibv_qp *,               \
	  struct ibv_ece *)                                                           \
	X(1, return, const char *, ibv_wc_status_str, "IBVERBS_1.1", enum ibv_wc_status)

#define RDMACM_FUNCTIONS(X)                                                           \
	X(1, return, int, rdma_ack_cm_event, "RDMACM_1.0", struct rdma_cm_event *)    \
	X(2, return, int, rdma_bind_addr, "RDMACM_1.0", struct rdma_cm_id *,          \
	  struct sockaddr *)                                                          \
	X(2, return, int, rdma_connect, "RDMACM_1.0", struct rdma_cm_id *,            \
	  struct rdma_conn_param *)                                                   \
	X(0, return, struct rdma_event_channel *, rdma_create_event_channel,          \
	  "RDMACM_1.0", void)                                                         \
	X(4, return, int, rdma_create_id, "RDMACM_1.0", struct rdma_event_channel *,  \
	  struct rdma_cm_id **, void *, enum rdma_port_space)                         \
	X(3, return, int, rdma_create_qp, "RDMACM_1.0", struct rdma_cm_id *,          \
	  struct ibv_pd *, struct ibv_qp_init_attr *)                                 \
	X(1, , void, rdma_destroy_event_channel, "RDMACM_1.0",                        \
	  struct rdma_event_channel *)                                                \
	X(1, return, int, rdma_destroy_id, "RDMACM_1.0", struct rdma_cm_id *)         \
	X(1, , void, rdma_destroy_qp, "RDMACM_1.0", struct rdma_cm_id *)              \
	X(1, return, int, rdma_disconnect, "RDMACM_1.0", struct rdma_cm_id *)         \
	X(1, return, int, rdma_establish, "RDMACM_1.2", struct rdma_cm_id *)          \
	X(1, return, const char *, rdma_event_str, "RDMACM_1.0",                      \
	  enum rdma_cm_event_type)                                                    \
	X(2, return, int, rdma_get_cm_event, "RDMACM_1.0",                            \
	  struct rdma_event_channel *, struct rdma_cm_event **)                       \
	X(2, return, int, rdma_get_remote_ece, "RDMACM_1.3", struct rdma_cm_id *,     \
	  struct ibv_ece *)                                                           \
	X(3, return, int, rdma_init_qp_attr, "RDMACM_1.2", struct rdma_cm_id *,       \
	  struct ibv_qp_attr *, int *)                                                \
	X(4, return, int, rdma_resolve_addr, "RDMACM_1.0", struct rdma_cm_id *,       \
	  struct sockaddr *, struct sockaddr *, int)                                  \
	X(2, return, int, rdma_resolve_route, "RDMACM_1.0", struct rdma_cm_id *, int) \
	X(5, return, int, rdma_set_option, "RDMACM_1.0", struct rdma_cm_id *, int,    \
	  int, void *, size_t)

#define MEMBER(n, give, type, name, version, ...) typeof(&name) name;
static struct {
	IBVERBS_FUNCTIONS(MEMBER)
	RDMACM_FUNCTIONS(MEMBER)
} loaded;

static char missing[256];

static void *library_open(const char *file, const char *package)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		(void)snprintf(
			missing, sizeof(missing),
			"RDMA needs %s, which cannot be loaded (%s): install the "
			"Debian package %s",
			file, dlerror(), package);
	return library;
}

static void *function_find(void *library, const char *name, const char *version)
{
	void *found = dlvsym(library, name, version);

	if (!found && !*missing)
		(void)snprintf(
			missing, sizeof(missing),
			"RDMA needs %s of %s, which this host's rdma-core does not "
			"have: install a newer one",
			name, version);
	return found;
}

/* They stay loaded: the libraries of devices hold on to them. */
static void load(void)
{
	void *ibverbs = library_open("libibverbs.so.1", "libibverbs1");
	void *rdmacm = ibverbs ? library_open("librdmacm.so.1", "librdmacm1") : NULL;

	if (*missing)
		return;
#define IBVERBS(n, give, type, name, version, ...) \
	loaded.name = (typeof(&name))function_find(ibverbs, #name, version);
	IBVERBS_FUNCTIONS(IBVERBS)
#define RDMACM(n, give, type, name, version, ...) \
	loaded.name = (typeof(&name))function_find(rdmacm, #name, version);
	RDMACM_FUNCTIONS(RDMACM)
}

const char *verbs_missing(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, load);
	return *missing ? missing : NULL;
}

#define PARAMETERS0(none) none
#define PARAMETERS1(a) a p1
#define PARAMETERS2(a, b) a p1, b p2
#define PARAMETERS3(a, b, c) a p1, b p2, c p3
#define PARAMETERS4(a, b, c, d) a p1, b p2, c p3, d p4
#define PARAMETERS5(a, b, c, d, e) a p1, b p2, c p3, d p4, e p5
#define PARAMETERS6(a, b, c, d, e, f) a p1, b p2, c p3, d p4, e p5, f p6
#define ARGUMENTS0
#define ARGUMENTS1 p1
#define ARGUMENTS2 p1, p2
#define ARGUMENTS3 p1, p2, p3
#define ARGUMENTS4 p1, p2, p3, p4
#define ARGUMENTS5 p1, p2, p3, p4, p5
#define ARGUMENTS6 p1, p2, p3, p4, p5, p6
#define FUNCTION(n, give, type, name, version, ...) \
	type name(PARAMETERS##n(__VA_ARGS__))       \
	{                                           \
		give loaded.name(ARGUMENTS##n);     \
	}
IBVERBS_FUNCTIONS(FUNCTION)
RDMACM_FUNCTIONS(FUNCTION)
