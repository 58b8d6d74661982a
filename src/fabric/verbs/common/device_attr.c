/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/device_attr.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define LINE_BYTES 128

static unsigned limit_of(int value)
{
	return value > 0 ? (unsigned)value : 0;
}

static enum fabric_atomics atomics_of(const struct ibv_device_attr *attr)
{
	if (attr->atomic_cap == IBV_ATOMIC_GLOB)
		return FABRIC_ATOMICS_GLOBAL;
	return attr->atomic_cap == IBV_ATOMIC_HCA ? FABRIC_ATOMICS_DEVICE
						  : FABRIC_ATOMICS_NONE;
}

int verbs_device_attr_query(struct ibv_context *verbs,
			    struct verbs_device_attr *ret_attr)
{
	const char *name = ibv_get_device_name(verbs->device);
	bool iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	struct ibv_device_attr_ex extended = { .comp_mask = 0 };
	const struct ibv_device_attr *attr = &extended.orig_attr;
	int err = ibv_query_device_ex(verbs, NULL, &extended);

	if (err)
		return err_errno(-abs(err), "RDMA device %s: ibv_query_device_ex",
				 name);
	*ret_attr = (struct verbs_device_attr){
		.iwarp = iwarp,
		.max_sge_rd = limit_of(attr->max_sge_rd),
		.vendor = attr->vendor_id,
		.public = {
			.transport = iwarp ? FABRIC_IWARP : 0,
			/* iWARP has neither, whatever the device reports */
			.atomics = iwarp ? FABRIC_ATOMICS_NONE : atomics_of(attr),
			.write_immediate = !iwarp,
			.on_demand_paging =
				extended.odp_caps.general_caps & IBV_ODP_SUPPORT,
			.max_qp = limit_of(attr->max_qp),
			.max_qp_wr = limit_of(attr->max_qp_wr),
			.max_sge = limit_of(attr->max_sge),
			.max_cq = limit_of(attr->max_cq),
			.max_cqe = limit_of(attr->max_cqe),
			.max_mr = limit_of(attr->max_mr),
			.max_mr_bytes = attr->max_mr_size,
			.responder_resources = limit_of(attr->max_qp_rd_atom),
			.initiator_depth = limit_of(attr->max_qp_init_rd_atom),
		},
	};
	(void)snprintf(ret_attr->name, sizeof(ret_attr->name), "%s", name);
	return 0;
}

int verbs_device_registers(const struct verbs_device_attr *attr, uint64_t bytes,
			   const char *what, const char *instead)
{
	uint64_t max = attr->public.max_mr_bytes;

	if (max == 0 || bytes <= max)
		return 0;
	return err_set(-EINVAL,
		       "RDMA device %s registers at most %s at once, and %s has %s: %s",
		       attr->name, UNITS_BYTES(max), what, UNITS_BYTES(bytes), instead);
}

/* The first line of a file of sysfs (mounted at `sysfs`); false: there is none. */
static bool line_read(const char *sysfs, const char *class, const char *name,
		      const char *file_name, char buf[LINE_BYTES])
{
	char path[PATH_MAX];
	bool done;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/class/%s/%s/%s", sysfs, class, name,
		       file_name);
	file = fopen(path, "re");
	if (!file)
		return false;
	done = fgets(buf, LINE_BYTES, file) != NULL;
	(void)fclose(file);
	if (done)
		buf[strcspn(buf, "\n")] = '\0';
	return done && buf[0];
}

/* The number in that file; -1: none. */
static int node_read(const char *sysfs, const char *class, const char *name,
		     const char *file_name)
{
	char text[LINE_BYTES], *end;
	long value;

	if (!line_read(sysfs, class, name, file_name, text))
		return -1;
	value = strtol(text, &end, 10);
	return end == text || *end || value < 0 || value > INT_MAX ? -1 : (int)value;
}

int verbs_device_node(const char *sysfs, const char *device)
{
	int node = node_read(sysfs, "infiniband", device, "device/numa_node");
	char netdev[LINE_BYTES];

	if (node >= 0)
		return node;
	if (!line_read(sysfs, "infiniband", device, "parent", netdev) &&
	    !line_read(sysfs, "infiniband", device, "ports/1/gid_attrs/ndevs/0",
		       netdev))
		return -1;
	node = node_read(sysfs, "net", netdev, "device/numa_node");
	/* a virtual function of a bus (virtio) has its node in the device it sits on;
	 * the kernel resolves the link before it takes ".." */
	return node >= 0 ? node
			 : node_read(sysfs, "net", netdev, "device/../numa_node");
}

const char *verbs_device_list_text(char *buf, size_t bytes)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	size_t used = 0;

	(void)snprintf(buf, bytes, "none");
	for (int i = 0; list && list[i] && used < bytes; i++)
		used += (size_t)snprintf(buf + used, bytes - used, "%s%s",
					 i ? ", " : "", ibv_get_device_name(list[i]));
	if (list)
		ibv_free_device_list(list);
	return buf;
}
