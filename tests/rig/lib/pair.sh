# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Two virtual machines, with a cable for each device: each is a `rig run`.

# pair_option NAME [VALUE]: add the option to both sides, or to the one that NAME begins with
pair_option()
{
	local name=${1#[ab]-} word
	word=--$name${2+=$2}
	[ "$name" != share ] || PAIR_SHARED=1
	[[ $1 == b-* ]] || PAIR_A+=("$word")
	[[ $1 == a-* ]] || PAIR_B+=("$word")
}

# pair_start SIDE COMMAND OPTION...: start one side; each line of its output begins with its letter.
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
	vm_parse '[ab]-' pair_option "$@"
	[ ${#VM_WORDS[@]} -eq 2 ] || usage_error "pair takes two commands, CMD_A and CMD_B"
	scratch_open
	mkdir "$SCRATCH/peer"
	if [ -z "$PAIR_SHARED" ]; then
		mkdir -m 1777 "$SCRATCH/share"
		pair_option share "$SCRATCH/share"
	fi
	pair_start a "${VM_WORDS[0]}" "${PAIR_A[@]}"
	pair_start b "${VM_WORDS[1]}" "${PAIR_B[@]}"

	local a=0 b=0 first
	wait -n -p first "${SCRATCH_CHILDREN[@]}" || true
	# a machine whose kernel has died could not tell the other
	if [ "$first" = "${SCRATCH_CHILDREN[0]}" ]; then
		touch "$SCRATCH/peer/.ended-a"
	else
		touch "$SCRATCH/peer/.ended-b"
	fi
	wait "${SCRATCH_CHILDREN[0]}" || a=$?
	wait "${SCRATCH_CHILDREN[1]}" || b=$?
	wait "${PAIR_COPIES[@]}" || true
	SCRATCH_CHILDREN=()
	[ "$a$b" = 00 ] || say "exit status of A: $a, of B: $b"
	[ "$a" -ne 0 ] && [ "$b" -ne 126 ] || return "$b"
	return "$a"
}
