#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server made from rmem-protocol(7) walks the library, by the commands of rmem and by threads of a
# program.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/walk.sh"

CALLERS=$(built tests/conformance/callers)
export CALLERS
walk library watcher answers waits callers
