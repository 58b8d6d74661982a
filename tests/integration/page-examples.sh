#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The examples of the manual pages in sections 1, 3 and 5, those below EXAMPLES, do what they say: a
# program runs, and a part of one within page-part.c; commands run, with the programs of this build;
# rmemd accepts a configuration.  documents.sh has the pages of section 7, and
# tests/conformance/page.py the bytes in rmem-protocol(7).
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

# examples PAGE: write the display number N of PAGE below EXAMPLES to $dir/PAGE.N
examples()
{
	awk -v file="$dir/${1##*/}" '
	/^\.Sh/ { in_examples = /EXAMPLES/ }
	!in_examples { next }
	on && /^\.Ed/ { on = 0; close(file "." n); next }
	on || sub(/^\.Dl /, "") {
		if (!on) n++
		gsub(/\\e/, "\\"); gsub(/\\-/, "-"); gsub(/\\&/, ""); print >(file "." n); next }
	/^\.Bd/ { on = 1; n++ }' "$1"
}

# here FILE: its text, with the address of the daemon
here()
{
	sed -E "s#rmem://(localhost|mem1.example)\?#$uri\&#; s#rmem://(localhost|mem1.example)#$uri#
		s#(RMEM_SERVER=)mem1#\1$uri#" "$1"
}

# compile OUT SOURCE [OPTION...]
compile()
{
	# shellcheck disable=SC2086 # words
	"${compiler[@]}" -std=gnu17 -Wall -Wextra -Werror "${@:3}" -o "$1" -x c "$2" $flags
}

# what an example waits for: a pool becomes smaller, once the program has its leases
wanted()
{
	poll_await 60 leases_are 1002 || fail "the program has no leases"
	sed -i -e 's/^size = .*/size = 64M/' -e 's/^shrink = .*/shrink = revoke/' "$dir/rmemd.conf"
	kill -HUP "$server_pid"
}

leases_are()
{
	[ "$(rmemctl --json leases | jq '.leases | length')" -eq "$1" ]
}

# run_program FILE: a program, or a part of one
run_program()
{
	local options=()

	here "$1" >"$dir/example.c"
	if grep -q 'int main(' "$1"; then
		cp "$dir/example.c" "$dir/program.c"
	else
		cp "$(dirname "$0")/page-part.c" "$dir/program.c"
		options=(-Wno-unused "-DPART=\"$dir/example.c\"")
	fi
	compile "$dir/program" "$dir/program.c" "${options[@]}" || return 1
	RMEM_SERVER=$uri timeout -k 5 $((60 * patience)) "$dir/program" &
	[[ $1 != *rmem_lease_wanted* ]] || wanted
	wait $!
}

# run_commands FILE: commands; those that never end are ended
run_commands()
{
	local err=0

	here "$1" | sed -E 's/ 7d / 1ms /; s/^watch (.*)/timeout 1 watch \1/
		s/(.*--follow.*)/timeout 1 \1/' >"$dir/script"
	(cd "$dir/work" && PATH=$dir/bin:$PATH RMEM_SERVER=$uri TERM=dumb \
		timeout -k 5 $((60 * patience)) bash -euo pipefail "$dir/script") || err=$?
	[ "$err" -eq 0 ] || { [ "$err" -eq 124 ] && grep -q '^timeout' "$dir/script"; }
}

# without a device: the example says so
no_rdma()
{
	grep -q -- '--fabric rdma' "$1" && grep -q "no RDMA device" "$dir/out"
}

run()
{
	case $1 in
	*.[1].*) run_commands "$1" ;;
	*.3.*) run_program "$1" ;;
	*.5.*) "$RMEMD" --check-config --config "$1" ;;
	esac
}

read -ra compiler < <(sed -n 's/^CC = //p' "$top_builddir/Makefile")
compiler[0]=$(command -v "${compiler[0]}")
flags=$(sed -nE 's/^RMEM_CFLAGS = .*(-fsanitize=[^ ]*).*/\1/p' "$top_builddir/Makefile")
flags+=" -I$top_srcdir/include -L$top_builddir/.libs -lrmem-cache -lrmem -lpthread"
mkdir -p "$dir/bin" "$dir/work/src"
echo text >"$dir/work/src/text"
for program in "$RMEM" "$RMEMD"; do ln -s "$program" "$dir/bin"; done
printf '#!/bin/bash\nexec %q --socket %q "$@"\n' "$RMEMCTL" "$dir/admin.sock" >"$dir/bin/rmemctl"
chmod +x "$dir/bin/rmemctl"

pool_size=128M
config_extra="shrink = refuse
[tenant blue]
bytes = 1M
[tenant default]"
for page in "$top_srcdir"/man/*.[135]; do
	examples "$page"
done
for file in "$dir"/*.[135].*; do
	server_start
	uri="$uri&tenant=blue" client put tmp/old "$dir/work/src/text"
	run "$file" >"$dir/out" 2>&1 </dev/null || no_rdma "$file" || {
		cat "$dir/out"
		sed 's/^/    /' "$file"
		fail "the example ${file##*/} does not run"
	}
	! grep -q 'rmemctl revoke' "$file" || leases_are 0 || fail "the lease is not revoked"
	ok "${file##*/}"
	server_stop
done
