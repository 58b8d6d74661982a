#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run commands in virtual machines with RDMA.
exec "$(dirname "$0")/../rig/rig" "$@"
