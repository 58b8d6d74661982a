/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the attributes of RDMA devices.  Threads: [main]. */
#ifndef RMEMCTL_DEVICES_H
#define RMEMCTL_DEVICES_H

#include <jansson.h>
#include <stdio.h>

/* A paragraph for each RDMA device in the list. */
void devices_detail(FILE *out, const json_t *array);

#endif
