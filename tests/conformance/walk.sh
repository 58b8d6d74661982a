# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Functions of the scripts that walk: a client and a server in Python, which know rmem-protocol(7)
# alone, and the daemon and the library.
# shellcheck source-path=SCRIPTDIR/../integration
. "$(dirname "$0")/../integration/lib.sh"
need python3 jq

config_extra="
[tenant default]
[tenant red]
[tenant blue]
[tenant viewer]
access = read-write
[tenant small]
bytes = 64K
sessions = 2
ttl_max = 1h
"

# walk NAME...: the cases of walk_NAME.py
walk()
{
	PORT=${port:-} FOLDER=$dir LISTEN=$LISTEN RMEM=$RMEM RMEMCTL=$RMEMCTL RMEMD=$RMEMD \
		top_srcdir=$top_srcdir \
		PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/conformance.py" "$@" ||
		fail "cases of $* have failed"
}
