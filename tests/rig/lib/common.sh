# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Messages, required tools, and a private directory that is always removed.

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

# The PATH of an unprivileged user often lacks root's directories.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# need TOOL PACKAGE ...: end with one line that names all missing tools
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

# Make a private directory in TMPDIR; sets SCRATCH.  A separate process removes it when its pipe is
# closed, which happens even when this shell gets SIGKILL.  So no process that may outlive this
# shell may inherit the write end, $SCRATCH_HOLD.
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
	# Bash would run these traps only after a foreground command: start commands in the
	# background and wait for them.
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
	# `wait` for a child that had ended before the signal would wait for all children.
	for pid in "${SCRATCH_CHILDREN[@]}"; do
		while kill -0 "$pid" 2>/dev/null; do
			sleep 0.05
		done
	done
	exec {SCRATCH_HOLD}>&-
	wait "$SCRATCH_REAPER" || true
}
