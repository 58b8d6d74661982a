/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the sockets of data streams, for both ends.  Threads: [any]. */
#ifndef FABRIC_TCP_SOCKET_H
#define FABRIC_TCP_SOCKET_H

/* Small requests are sent at once, and a peer that is gone or does not receive ends the stream
 * within half a minute.  -errno with text. */
int tcp_socket_tune(int fd);

#endif
