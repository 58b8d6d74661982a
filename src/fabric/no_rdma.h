/* SPDX-License-Identifier: BSD-3-Clause */
/* Of a build without RDMA: what those are told who ask for it. */
#ifndef FABRIC_NO_RDMA_H
#define FABRIC_NO_RDMA_H

#define NO_RDMA_TEXT "this build has no RDMA: configure --with-rdma=link"

#endif
