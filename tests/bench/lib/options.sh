# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the benchmarks.

# Print the comment at the head of the benchmark.
help_print()
{
	sed -n '3,${ /^#/!q; s/^# \{0,1\}//p }' "$0"
}

# options USAGE "$@": set the variable of each option that USAGE names as [--name] or
# [--name VALUE]: --slice-ms 5 sets SLICE_MS=5, --json sets JSON=yes.  -h prints
# the usage and the head of the benchmark.
options()
{
	local usage=$1 name

	# shellcheck disable=SC2034 # for the caller
	JSON=
	shift
	while [ $# -gt 0 ]; do
		if [ "$1" = -h ] || [ "$1" = --help ]; then
			help_print
			echo
			echo "usage: $usage"
			exit 0
		fi
		name=${1#--}
		name=${name//-/_}
		case $usage in
		*"[$1]"*) declare -g "${name^^}=yes" ;;
		*"[$1 "*)
			declare -g "${name^^}=${2:?"$1 takes a value"}"
			shift
			;;
		*)
			echo "usage: $usage" >&2
			exit 2
			;;
		esac
		shift
	done
}
