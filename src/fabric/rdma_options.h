/* SPDX-License-Identifier: BSD-3-Clause */
/* How to use an RDMA device, and the options as text.
 * Threads: [any]. */
#ifndef FABRIC_RDMA_OPTIONS_H
#define FABRIC_RDMA_OPTIONS_H

#include <stddef.h>

/* How to use an RDMA device.  Where client and server both set a limit, the channel uses the
 * lower one. */
struct fabric_rdma_options {
	int mtu;              /* path MTU limit, bytes */
	int traffic_class;    /* of the packets, 0 to 255: DSCP times 4 */
	int service_level;    /* 0 to 15 */
	int ack_timeout;      /* 1 to 31: 4.096 us times two to the power of this */
	int retry_count;      /* of requests without an ACK; 0 to 6 */
	int rnr_retry_count;  /* after receiver-not-ready; 0 to 6 */
	int rd_atomic;        /* limit of outstanding reads and atomics per channel */
	int relaxed_ordering; /* 0, 1: PCI relaxed ordering of registered memory */
	/* enum fabric_connect; auto: rdma_cm on a server, the server's choice on a client */
	int connect;
	int gid_index; /* in the port's GID table, 0 to 255; FABRIC_CONNECT_DIRECT only */
	int pkey;      /* P_Key, 1 to 0xffff; FABRIC_CONNECT_DIRECT only */
};
#define FABRIC_OPTION_AUTO (-1) /* chosen by the device, the system or rdma_cm */
#define FABRIC_RDMA_OPTIONS_INIT               \
	{ .mtu = FABRIC_OPTION_AUTO,           \
	  .traffic_class = FABRIC_OPTION_AUTO, \
	  .service_level = FABRIC_OPTION_AUTO, \
	  .ack_timeout = FABRIC_OPTION_AUTO,   \
	  .retry_count = 6,                    \
	  .rnr_retry_count = 6,                \
	  .rd_atomic = FABRIC_OPTION_AUTO,     \
	  .connect = FABRIC_OPTION_AUTO,       \
	  .gid_index = FABRIC_OPTION_AUTO,     \
	  .pkey = FABRIC_OPTION_AUTO }

/* How the channels of an RDMA device are connected: by rdma_cm, or directly, with queue pair
 * attributes that are exchanged over the control connection (for fabrics without IP). */
enum fabric_connect { FABRIC_CONNECT_CM = 1, FABRIC_CONNECT_DIRECT = 2 };

/* Parse the value of an option; its name is the member's name.
 *   -EINVAL, -ERANGE  with text that names the value
 *   -ENOENT           no option has this name */
int fabric_rdma_option_parse(const char *name, const char *value, int *ret_value);
/* The value as it is parsed into buf; returns buf. */
const char *fabric_rdma_option_format(const char *name, int value, char *buf,
				      size_t buf_bytes);
/* Parse into the member. */
int fabric_rdma_options_set(struct fabric_rdma_options *rdma_options, const char *name,
			    const char *value);

#endif
