/* SPDX-License-Identifier: BSD-3-Clause */
/* What RDMA devices can do, for people.  Threads: none but main. */
#ifndef RMEMCTL_DEVICES_H
#define RMEMCTL_DEVICES_H

#include <jansson.h>
#include <stdio.h>

/* A paragraph for every element of the daemon's list that is an RDMA device. */
void devices_detail(FILE *out, const json_t *array);

#endif
