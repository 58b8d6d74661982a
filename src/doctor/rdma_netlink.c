/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel's RDMA stack says over netlink, as the program rdma(8) shows it: the interface of
 * a port, and the state of the queue pair by which rdma_cm talks to other hosts. */
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <string.h>

#include "doctor/host_port.h"

/* Of libibverbs' enum ibv_qp_type and ibv_qp_state, which are the kernel's. */
#define QPT_GSI 1
static const char *const qp_states[] = { "RESET", "INIT", "RTR", "RTS",
					 "SQD",   "SQE",  "ERR" };

struct request {
	struct host *host;
	struct mnl_socket *socket;
	unsigned sequence;
	/* the device that is asked about */
	uint32_t device;
	char name[HOST_NAME_BYTES];
};

/* Ask for a dump; `device` true: of the request's device. */
static int dump(struct request *request, unsigned command, bool device,
		mnl_cb_t message, void *ctx)
{
	char buf[16384];
	struct nlmsghdr *header = mnl_nlmsg_put_header(buf);
	unsigned portid = mnl_socket_get_portid(request->socket);
	int more = 1;

	header->nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP;
	header->nlmsg_seq = ++request->sequence;
	if (device)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, request->device);
	if (mnl_socket_sendto(request->socket, header, header->nlmsg_len) < 0)
		return -1;
	while (more > 0) {
		ssize_t n = mnl_socket_recvfrom(request->socket, buf, sizeof(buf));

		if (n < 0)
			return -1;
		more = mnl_cb_run(buf, (size_t)n, request->sequence, portid, message,
				  ctx);
	}
	return more;
}

static struct host_port *port_find(struct host *host, const char *device,
				   uint32_t number)
{
	for (unsigned i = 0; i < host->n_ports; i++)
		if (host->ports[i].number == number &&
		    strcmp(host->ports[i].device, device) == 0)
			return &host->ports[i];
	return NULL;
}

/* ---- ports ---- */

struct port_message {
	uint32_t number;
	const char *netdev; /* NULL: not told */
};

static int port_attr(const struct nlattr *attr, void *ctx)
{
	struct port_message *message = ctx;

	if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_PORT_INDEX)
		message->number = mnl_attr_get_u32(attr);
	else if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_NDEV_NAME)
		message->netdev = mnl_attr_get_str(attr);
	return MNL_CB_OK;
}

static int port_message(const struct nlmsghdr *header, void *ctx)
{
	struct request *request = ctx;
	struct port_message message = { .netdev = NULL };
	struct host_port *port;

	if (mnl_attr_parse(header, 0, port_attr, &message) < 0)
		return MNL_CB_OK;
	port = port_find(request->host, request->name, message.number);
	if (port && message.netdev && !port->netdev[0])
		(void)snprintf(port->netdev, sizeof(port->netdev), "%.15s",
			       message.netdev);
	return MNL_CB_OK;
}

/* ---- queue pairs ---- */

struct qp {
	uint32_t port; /* 1, unless the kernel tells another one */
	unsigned type, state;
};

static int qp_attr(const struct nlattr *attr, void *ctx)
{
	struct qp *qp = ctx;

	if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_RES_TYPE)
		qp->type = mnl_attr_get_u8(attr);
	else if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_RES_STATE)
		qp->state = mnl_attr_get_u8(attr);
	else if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_PORT_INDEX)
		qp->port = mnl_attr_get_u32(attr);
	return MNL_CB_OK;
}

static int qp_entry(const struct nlattr *entry, void *ctx)
{
	struct request *request = ctx;
	struct qp qp = { .port = 1 };
	struct host_port *port;

	if (mnl_attr_parse_nested(entry, qp_attr, &qp) < 0)
		return MNL_CB_OK;
	port = port_find(request->host, request->name, qp.port);
	if (qp.type == QPT_GSI && port &&
	    qp.state < sizeof(qp_states) / sizeof(qp_states[0]))
		(void)snprintf(port->gsi_state, sizeof(port->gsi_state), "%s",
			       qp_states[qp.state]);
	return MNL_CB_OK;
}

static int qp_table(const struct nlattr *attr, void *ctx)
{
	if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_QP)
		return MNL_CB_OK;
	return mnl_attr_parse_nested(attr, qp_entry, ctx);
}

static int qp_message(const struct nlmsghdr *header, void *ctx)
{
	(void)mnl_attr_parse(header, 0, qp_table, ctx);
	return MNL_CB_OK;
}

/* ---- devices ---- */

#define DEVICES_MAX 64

struct device {
	uint32_t index;
	char name[HOST_NAME_BYTES];
};

struct devices {
	struct device at[DEVICES_MAX];
	unsigned n;
};

static int device_attr(const struct nlattr *attr, void *ctx)
{
	struct device *device = ctx;

	if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_DEV_INDEX)
		device->index = mnl_attr_get_u32(attr);
	else if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_DEV_NAME)
		(void)snprintf(device->name, sizeof(device->name), "%.63s",
			       mnl_attr_get_str(attr));
	return MNL_CB_OK;
}

static int device_message(const struct nlmsghdr *header, void *ctx)
{
	struct devices *devices = ctx;

	if (devices->n < DEVICES_MAX &&
	    mnl_attr_parse(header, 0, device_attr, &devices->at[devices->n]) >= 0)
		devices->n++;
	return MNL_CB_OK;
}

void rdma_netlink_read(struct host *host)
{
	struct request request = { .host = host,
				   .socket = mnl_socket_open(NETLINK_RDMA) };
	static struct devices devices;

	devices.n = 0;
	/* a kernel without RDMA has no such socket */
	if (!request.socket)
		return;
	if (mnl_socket_bind(request.socket, 0, MNL_SOCKET_AUTOPID) == 0)
		(void)dump(&request, RDMA_NLDEV_CMD_GET, false, device_message,
			   &devices);
	for (unsigned i = 0; i < devices.n; i++) {
		request.device = devices.at[i].index;
		memcpy(request.name, devices.at[i].name, sizeof(request.name));
		(void)dump(&request, RDMA_NLDEV_CMD_PORT_GET, true, port_message,
			   &request);
		(void)dump(&request, RDMA_NLDEV_CMD_RES_QP_GET, true, qp_message,
			   &request);
	}
	(void)mnl_socket_close(request.socket);
}
