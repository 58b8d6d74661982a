# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Messages, tools, and a private directory that is gone whatever happens.

say()
{
	printf 'rig: %s\n' "$*" >&2
}

usage_error()
{
	say "$@"
	exit 2
}

unavailable()
{
	say "$@"
	exit 69
}

# Root's tools too: an unprivileged user's PATH often lacks them.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# need TOOL PACKAGE ...: one line that names all that is missing.
need()
{
	local missing=()
	while [ $# -gt 0 ]; do
		command -v "$1" >/dev/null || missing+=("$1 (Debian package $2)")
		shift 2
	done
	[ ${#missing[@]} -eq 0 ] && return
	local list
	list=$(printf ', %s' "${missing[@]}")
	unavailable "missing: ${list:2}"
}

need_number()
{
	[[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || usage_error "$1: '$2' is not a number from 1"
}

# A directory of our own under TMPDIR, in $SCRATCH.  A process apart removes it
# at the end of the pipe that only this shell holds open, so that even SIGKILL
# leaves nothing.  What outlives this shell must not inherit $SCRATCH_HOLD.
scratch_open()
{
	SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/rmem-rig.XXXXXX")
	# shellcheck disable=SC2016 # expands in the reaper
	exec {SCRATCH_HOLD}> >(exec setsid bash -c '
		trap "" INT TERM HUP
		cat
		for try in 1 2 3 4 5; do
			rm -rf "$1" && break
			sleep 0.2
		done' reaper "$SCRATCH" >/dev/null 2>&1)
	SCRATCH_REAPER=$!
	SCRATCH_CHILDREN=()
	trap scratch_close EXIT
	# A foreground command would defer these: wait for children instead.
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

scratch_close()
{
	trap '' HUP INT TERM
	local pid
	for pid in "${SCRATCH_CHILDREN[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	# Bash would wait for one that it has seen the end of when the signal came, until all
	# others have ended.
	for pid in "${SCRATCH_CHILDREN[@]}"; do
		while kill -0 "$pid" 2>/dev/null; do
			sleep 0.05
		done
	done
	exec {SCRATCH_HOLD}>&-
	wait "$SCRATCH_REAPER" || true
}
