/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/device_attr.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static uint8_t depth_of(int value)
{
	if (value <= 0)
		return 0;
	return value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
}

int verbs_device_attr_query(struct ibv_context *verbs,
			    struct verbs_device_attr *ret_attr)
{
	const char *name = ibv_get_device_name(verbs->device);
	bool iwarp = verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	struct ibv_device_attr attr;
	int err = ibv_query_device(verbs, &attr);

	if (err)
		return err_errno(-err, "RDMA device %s: ibv_query_device", name);
	*ret_attr = (struct verbs_device_attr){
		.iwarp = iwarp,
		/* none over iWARP, whatever a device says */
		.atomics = attr.atomic_cap != IBV_ATOMIC_NONE && !iwarp,
		.max_cqe = attr.max_cqe > 0 ? (unsigned)attr.max_cqe : 0,
		.max_sge = attr.max_sge > 0 ? (unsigned)attr.max_sge : 0,
		.max_sge_rd = attr.max_sge_rd > 0 ? (unsigned)attr.max_sge_rd : 0,
		.max_qp_wr = attr.max_qp_wr > 0 ? (unsigned)attr.max_qp_wr : 0,
		.responder_resources = depth_of(attr.max_qp_rd_atom),
		.initiator_depth = depth_of(attr.max_qp_init_rd_atom),
		.max_mr_bytes = attr.max_mr_size,
		.vendor = attr.vendor_id,
	};
	(void)snprintf(ret_attr->name, sizeof(ret_attr->name), "%s", name);
	return 0;
}

bool verbs_port_is_active(struct ibv_context *verbs, uint8_t port)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof(attr));
	return !ibv_query_port(verbs, port, &attr) && attr.state == IBV_PORT_ACTIVE;
}

/* The first line of a file; false when there is none. */
static bool line_read(char *buf, int bytes, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static bool line_read(char *buf, int bytes, const char *fmt, ...)
{
	char path[PATH_MAX];
	bool done;
	va_list ap;
	FILE *file;

	va_start(ap, fmt);
	(void)vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	file = fopen(path, "re");
	if (!file)
		return false;
	done = fgets(buf, bytes, file) != NULL;
	(void)fclose(file);
	if (done)
		buf[strcspn(buf, "\n")] = '\0';
	return done && buf[0];
}

static bool node_parse(const char *text, int *ret_node)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < 0 || value > INT_MAX)
		return false;
	*ret_node = (int)value;
	return true;
}

int verbs_device_node(const char *sysfs, const char *device)
{
	char text[128], netdev[128];
	int node;

	if (line_read(text, sizeof(text), "%s/class/infiniband/%s/device/numa_node",
		      sysfs, device) &&
	    node_parse(text, &node))
		return node;
	if (!line_read(netdev, sizeof(netdev), "%s/class/infiniband/%s/parent", sysfs,
		       device) &&
	    !line_read(netdev, sizeof(netdev),
		       "%s/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", sysfs,
		       device))
		return -1;
	if (line_read(text, sizeof(text), "%s/class/net/%s/device/numa_node", sysfs,
		      netdev) &&
	    node_parse(text, &node))
		return node;
	/* a virtual function of a bus (virtio) has its node in the device it sits on;
	 * the kernel resolves the link before it takes ".." */
	if (line_read(text, sizeof(text), "%s/class/net/%s/device/../numa_node", sysfs,
		      netdev) &&
	    node_parse(text, &node))
		return node;
	return -1;
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
