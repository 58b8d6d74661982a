# shellcheck shell=bash disable=SC2034 # variables for the commands
# SPDX-License-Identifier: BSD-3-Clause
# What all commands of ./dev have in common: lines of text, and steps, each with its output in
# build/NAME.log; the end of the output is shown when the step fails.  A command is a file
# tests/dev/NAME.sh; the comment at its beginning is its help.
set -euo pipefail

TOP=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../../..")
BUILD=$TOP/build
JOBS=$(nproc)
COMMAND=$(basename "$0" .sh)

# say NAME TEXT
say()
{
	printf '%-10s %s\n' "$1" "$2"
}

# die NAME TEXT: print the error and exit
die()
{
	say "$1" "$2" >&2
	exit 1
}

# step NAME CMD...: run CMD with its output in build/NAME.log; on failure show the end and exit
step()
{
	local name=$1 start=$SECONDS
	shift
	mkdir -p "$BUILD"
	if "$@" >"$BUILD/$name.log" 2>&1 </dev/null; then
		say "$name" "done ($((SECONDS - start)) s)"
		return
	fi
	tail -n 40 "$BUILD/$name.log" >&2
	die "$name" "FAILED; the complete output is in build/$name.log"
}

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		echo "not root and no sudo; run as root: $*" >&2
		return 1
	fi
}

help()
{
	sed -n '3,${/^#/!q; /^# shellcheck /q; s/^# \{0,1\}//p}' "$0"
}

# help_wanted [ARGUMENT...]: print the command's help, if an argument asks for it
help_wanted()
{
	local argument
	for argument; do
		case $argument in
		-h | --help)
			help
			return
			;;
		esac
	done
	return 1
}

# arguments_max MAX ARGUMENT...: no more than MAX arguments are there
arguments_max()
{
	[ $# -le $(($1 + 1)) ] ||
		die "$COMMAND" "takes no argument '${*: $1 + 2:1}'; see ./dev $COMMAND --help"
}
