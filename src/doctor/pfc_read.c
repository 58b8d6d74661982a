/* SPDX-License-Identifier: BSD-3-Clause */
/* Priority flow control of an interface, as the program dcb(8) shows it. */
#include <libmnl/libmnl.h>
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "doctor/host_port.h"

static int ieee_attr(const struct nlattr *attr, void *ctx)
{
	struct host_port *port = ctx;
	struct ieee_pfc pfc;

	if (mnl_attr_get_type(attr) != DCB_ATTR_IEEE_PFC ||
	    mnl_attr_get_payload_len(attr) < sizeof(pfc))
		return MNL_CB_OK;
	memcpy(&pfc, mnl_attr_get_payload(attr), sizeof(pfc));
	port->pfc = pfc.pfc_en;
	return MNL_CB_OK;
}

static int dcb_attr(const struct nlattr *attr, void *ctx)
{
	if (mnl_attr_get_type(attr) != DCB_ATTR_IEEE)
		return MNL_CB_OK;
	return mnl_attr_parse_nested(attr, ieee_attr, ctx);
}

static int pfc_message(const struct nlmsghdr *header, void *ctx)
{
	(void)mnl_attr_parse(header, sizeof(struct dcbmsg), dcb_attr, ctx);
	return MNL_CB_OK;
}

static void pfc_ask(struct mnl_socket *socket, struct host_port *port)
{
	char buf[8192];
	struct nlmsghdr *header = mnl_nlmsg_put_header(buf);
	struct dcbmsg *message;
	ssize_t n;

	header->nlmsg_type = RTM_GETDCB;
	header->nlmsg_flags = NLM_F_REQUEST;
	header->nlmsg_seq = 1;
	message = mnl_nlmsg_put_extra_header(header, sizeof(*message));
	message->cmd = DCB_CMD_IEEE_GET;
	mnl_attr_put_strz(header, DCB_ATTR_IFNAME, port->netdev);
	if (mnl_socket_sendto(socket, header, header->nlmsg_len) < 0)
		return;
	/* an interface without DCB answers with an error */
	n = mnl_socket_recvfrom(socket, buf, sizeof(buf));
	if (n > 0)
		(void)mnl_cb_run(buf, (size_t)n, 1, mnl_socket_get_portid(socket),
				 pfc_message, port);
}

void pfc_read(struct host_port *port)
{
	struct mnl_socket *socket;

	if (!port->netdev[0] || port->infiniband)
		return;
	socket = mnl_socket_open(NETLINK_ROUTE);
	if (!socket)
		return;
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) == 0)
		pfc_ask(socket, port);
	(void)mnl_socket_close(socket);
}
