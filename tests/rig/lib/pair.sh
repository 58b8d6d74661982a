# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Two virtual machines on one cable: each is a `rig run` of its own.

# pair_option SIDES NAME [VALUE]
pair_option()
{
	local word=("--$2")
	[ $# -lt 3 ] || word=("--$2=$3")
	[ "$1" = b ] || PAIR_A+=("${word[@]}")
	[ "$1" = a ] || PAIR_B+=("${word[@]}")
}

# The options at the head of "$@", sorted by side; PAIR_WORDS is what follows.
pair_parse()
{
	local name sides kind with
	while [[ ${1-} == --* ]]; do
		name=${1#--}
		shift
		[ -n "$name" ] || break
		with=
		if [[ $name == *=* ]]; then
			set -- "${name#*=}" "$@"
			name=${name%%=*}
			with=1
		fi
		sides=both
		if [[ $name =~ ^[ab]- ]]; then
			sides=${name%%-*}
			name=${name#*-}
		fi
		kind=$(vm_option_kind "$name")
		[ "$kind$with" != flag1 ] || usage_error "--$name takes no value"
		if [ "$kind" = flag ]; then
			pair_option "$sides" "$name"
			continue
		fi
		[ $# -gt 0 ] || usage_error "--$name needs a value"
		[ "$name" != share ] || PAIR_SHARED=1
		pair_option "$sides" "$name" "$1"
		shift
	done
	PAIR_WORDS=("$@")
}

# pair_start SIDE COMMAND OPTION...: its output, line by line, with its letter.
pair_start()
{
	local side=$1 command=$2 out err hold=$SCRATCH_HOLD
	shift 2
	exec {out}> >(exec sed -u "s/^/${side^^}: /" {hold}>&-)
	PAIR_COPIES+=($!)
	exec {err}> >(exec sed -u "s/^/${side^^}: /" >&2 {hold}>&- {out}>&-)
	PAIR_COPIES+=($!)
	setpriv --pdeathsig TERM "$RIG_DIR/rig" run --cpus 1 "$@" \
		--cable "$side:$SCRATCH" -- "$command" \
		>&"$out" 2>&"$err" {out}>&- {err}>&- {hold}>&- &
	SCRATCH_CHILDREN+=($!)
	exec {out}>&- {err}>&-
}

pair_main()
{
	PAIR_A=() PAIR_B=() PAIR_COPIES=() PAIR_SHARED=
	pair_parse "$@"
	[ ${#PAIR_WORDS[@]} -eq 2 ] || usage_error "pair takes two commands, CMD_A and CMD_B"
	scratch_open
	mkdir "$SCRATCH/peer"
	if [ -z "$PAIR_SHARED" ]; then
		mkdir -m 1777 "$SCRATCH/share"
		pair_option both share "$SCRATCH/share"
	fi
	pair_start a "${PAIR_WORDS[0]}" "${PAIR_A[@]}"
	pair_start b "${PAIR_WORDS[1]}" "${PAIR_B[@]}"

	local a=0 b=0
	wait "${SCRATCH_CHILDREN[0]}" || a=$?
	wait "${SCRATCH_CHILDREN[1]}" || b=$?
	wait "${PAIR_COPIES[@]}" || true
	SCRATCH_CHILDREN=()
	[ "$a$b" = 00 ] || say "exit status of A: $a, of B: $b"
	[ "$a" -ne 0 ] || return "$b"
	return "$a"
}
