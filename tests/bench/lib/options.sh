# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the benchmarks.

# options USAGE "$@": set the variable of each option that USAGE names as [--name] or
# [--name VALUE]: --slice-ms 5 sets SLICE_MS=5, --json sets JSON=yes.
options()
{
	local usage=$1 name

	# shellcheck disable=SC2034 # for the caller
	JSON=
	shift
	while [ $# -gt 0 ]; do
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
