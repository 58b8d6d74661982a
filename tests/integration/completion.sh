#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A TAB in bash and in zsh completes commands, options, their values and arguments.  The shells run
# in a terminal.  The programs are replaced by scripts that print their arguments, but for --help.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need script zsh
library=/usr/share/bash-completion/bash_completion
[ -f "$library" ] || skip "there is no $library"

mkdir "$dir/bin" "$dir/home" "$dir/bash"
for program in rmem rmemctl rmemd; do
	cat >"$dir/bin/$program" <<-END
	#!/bin/bash
	case \$* in
	*--help) exec "$(built "src/$program/$program")" "\$@" ;;
	esac
	printf '<%s>' $program "\$@"
	echo ' end'
	END
	chmod +x "$dir/bin/$program"
done
touch "$dir/home/one file" "$dir/home/other"
mkdir "$dir/home/folder"

# seen TEXT: read what the terminal shows, until its end is TEXT; sets `shown`
seen()
{
	local char
	shown=
	while [[ $shown != *"$1" ]]; do
		IFS= read -r -d '' -n 1 -t $((60 * patience)) -u "${TERMINAL[0]}" char ||
			fail "the terminal shows no '$1', but: $shown"
		shown+=$char
	done
}

# terminal COMMAND SETUP: start a shell, and wait for its prompt
terminal()
{
	coproc TERMINAL {
		exec env -i PATH="$dir/bin:$PATH" HOME="$dir/home" TERM=dumb LANG=C.UTF-8 \
			LD_LIBRARY_PATH="$LD_LIBRARY_PATH" script -qefc "cd; exec $1" /dev/null 2>&1
	}
	pids+=("$TERMINAL_PID")
	echo "$2" >&"${TERMINAL[1]}"
	seen 'ready> '
	# the terminal may have echoed the setup before the shell was there
	echo 'echo "set"" up"' >&"${TERMINAL[1]}"
	seen 'set up'
	seen 'ready> '
}

terminal_end()
{
	echo exit >&"${TERMINAL[1]}"
	wait "$TERMINAL_PID" || true
}

# completes KEYS WORD...: after KEYS the line has these words
completes()
{
	local keys=$1 expected
	shift
	expected=$(printf '<%s>' "$@")
	printf '%b\n' "$keys" >&"${TERMINAL[1]}"
	seen ' end'
	[[ $shown == *"$expected end" ]] || fail "in $shell '$keys' becomes: $shown"
	seen 'ready> '
	ok "$shell: $keys"
}

# what both shells complete in the same way
examples()
{
	completes 'rmem unsha\t' rmem unshare
	completes 'rmem --verb\t unsh\t' rmem --verbose unshare
	completes 'rmem --server host get --fo\t' rmem --server host get --force
	completes 'rmem -s rmem://host:7460 get --fo\t' rmem -s rmem://host:7460 get --force
	completes 'rmem --fabric rd\t' rmem --fabric rdma
	completes 'rmem --fabric=rd\t' rmem --fabric=rdma
	completes 'rmem put name ot\t' rmem put name other
	completes 'rmem put --ttl 3d name one\t' rmem put --ttl 3d name 'one file'
	completes 'rmem help ben\t' rmem help bench
	completes 'rmem cache sta\t' rmem cache stat
	completes 'rmem cache --servers a,b put n k ot\t' rmem cache --servers a,b put n k other
	completes 'rmemctl tena\t' rmemctl tenants
	completes 'rmemctl --socket ot\t pool\t' rmemctl --socket other pools
	completes 'rmemctl keygen tenant fo\t' rmemctl keygen tenant "folder$slash"
	completes 'rmemctl log-level not\t' rmemctl log-level notice
	completes 'rmemd --check\t' rmemd --check-config
	completes 'rmemd -c ot\t --check\t' rmemd -c other --check-config
	completes 'rmemd --config=ot\t' rmemd --config=other
}

completions=$top_builddir/etc/completion
shell=bash slash=/
prompt="PS1='ready> '; . $library; "
prompt+="for name in rmem rmemctl rmemd; do . $completions/bash/\$name; done"
terminal "bash --norc --noprofile -i" "$prompt"
examples
terminal_end

shell=zsh slash= # which zsh removes at the end of a word
prompt="PROMPT='ready> '; unsetopt prompt_sp; "
prompt+="fpath=($completions/zsh \$fpath); autoload -U compinit; compinit -u -D"
terminal "zsh -f -i" "$prompt"
examples
terminal_end

# What is completed is what --help lists: an option takes a value if it says so, and only then.
for line in 'rmem' 'rmem put' 'rmem get' 'rmem bench' 'rmem watch' 'rmem cache' rmemctl rmemd; do
	read -ra words <<<"$line"
	program=$(built "src/${words[0]}/${words[0]}")
	"$program" "${words[@]:1}" --help >"$dir/help"
	(
		set +u
		# shellcheck source=/dev/null
		. "$library"
		# shellcheck source=/dev/null
		. "$completions/bash/${words[0]}"
		declare -A takes
		# shellcheck disable=SC2034 # for the function
		help=$(cat "$dir/help")
		"_${words[0]}_options"
		for option in "${!takes[@]}"; do
			[[ $option == --* ]] || continue
			echo "$option ${takes[$option]}"
		done
	) | sort >"$dir/takes"
	grep -oE '^  (-., )?--[a-z-]+' "$dir/help" | grep -oE -- '--.*' | sort >"$dir/options"
	cut -d' ' -f1 "$dir/takes" | diff - "$dir/options" ||
		fail "$line: other options than in --help"
	while read -r option value; do
		"$program" "${words[@]:1}" "$option" </dev/null >"$dir/out" 2>&1 || true
		if grep -q -- "$option needs a value" "$dir/out"; then
			[ -n "$value" ] || fail "$line $option takes a value"
		else
			[ -z "$value" ] || fail "$line $option takes no value: $(cat "$dir/out")"
		fi
	done < <(grep -vE -- '--(help|version)' "$dir/takes")
	ok "$line: $(wc -l <"$dir/takes") options"
done
