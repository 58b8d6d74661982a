#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server made from rmem-protocol(7) walks the library, by the commands of rmem.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/walk.sh"

walk library watcher answers waits
