#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Wrong use and wrong configuration: one line names the cause, and the exit status is right.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

# ---- the tool ----

uri=rmem://$LISTEN:1
expect_error 1 '^rmem: ls: .*(refused|:1)' client ls
expect_error 1 '^rmem: put: /nonexistent: ' client put name /nonexistent
expect_error 1 '^rmem: put: .*Is a directory' client put name "$dir"
expect_error 2 '^rmem: put: the name is empty' client put "" /dev/null
expect_error 2 '^rmem: put: .*the limit is 255' client put "$(printf 'x%.0s' {1..256})" /dev/null
expect_error 2 '^rmem: put: .*control character' client put $'a\nb' /dev/null
# each command refuses a name that cannot be one with that status, before it looks for a server
for command in put get ls rm crc stat touch watch; do
	expect_error 2 "^rmem: $command: the name .*UTF-8" client $command $'a\xff'
done
expect_error 2 '^rmem: fill: the name .*UTF-8' client fill $'a\xff' 00
expect_error 2 '^rmem: notify: the name .*UTF-8' client notify $'a\xff' 1
expect_error 2 '^rmem: mv: the name .*UTF-8' client mv a $'a\xff'
expect_error 2 '^rmem: copy: the name .*UTF-8' client copy a $'a\xff'
expect_error 2 '^rmem: no command given' "$RMEM"
expect_error 2 "^rmem: unknown command 'frob'" client frob
expect_error 2 "^rmem: unknown command 'toch'; did you mean 'touch'" client toch
expect_error 2 "^rmem: help: unknown command 'frob'" client help frob
expect_error 2 '^rmem: help: it takes at most one' client help put get
expect_error 2 '^rmem: ls: --quiet and --verbose' client ls -qv
expect_error 2 "^rmem: ls: --output: 'json' is not wide" client ls -o json
expect_error 2 '^rmem: --timeout: ' "$RMEM" --timeout 0ms ls
expect_error 2 '^rmem: unknown option --frob' "$RMEM" --frob
expect_error 2 '^rmem: ls: unknown option -x' client ls -x
expect_error 2 '^rmem: put: it takes NAME' client put
expect_error 2 '^rmem: get: it takes NAME' client get a b c
expect_error 2 '^rmem: rm: it takes at least one' client rm
expect_error 2 "^rmem: ping: --interval: 'soon' .*as 200ms" client ping -i soon
expect_error 2 '^rmem: bench: --batch 9 is more than --depth 8' client bench --batch 9 --depth 8
expect_error 2 "^rmem: bench: --op: 'erase'" client bench --op erase
expect_error 2 '^rmem: bench: --op mixed: 101 is not from 0 to 100' client bench --op mixed:101
expect_error 2 '^rmem: bench: --op mixed: ' client bench --op mixed:
expect_error 2 '^rmem: bench: --size: ' client bench --size 0
expect_error 2 '^rmem: bench: --size: atomics have 8 bytes' client bench --op faa --size 16
expect_error 2 '^rmem: bench: --region is smaller than --size, for each of --threads' \
	client bench --threads 2 --size 4K --region 4K
expect_error 2 '^rmem: bench: --interval: ' client bench --interval 99ms
expect_error 2 '^rmem: bench: --rate: ' client bench --rate 0
expect_error 2 '^rmem: --channels: 65 is not' "$RMEM" --channels 65 ls
expect_error 2 '^rmem: ls: .' "$RMEM" -s 'rmem://h:99999' ls
expect_error 2 '^rmem: ls: .' "$RMEM" -s 'http://h' ls
expect_error 2 '^rmem: ls: .' "$RMEM" -s 'rmem://h?colour=red' ls
expect_error 2 '^rmem: ls: .*brackets' "$RMEM" -s ::1 ls
# an option does not hide an error in the URI
expect_error 2 '^rmem: ls: .*fabric is auto, rdma or tcp' \
	"$RMEM" -s 'rmem://localhost?fabric=udp' --fabric tcp ls
for command in "" put get ls stat mv touch rm copy fill crc ping bench watch notify help; do
	# shellcheck disable=SC2086 # the empty command is no argument
	"$RMEM" $command --help >"$dir/help"
	grep -q "^usage: rmem .*$command" "$dir/help" || fail "no help for '$command'"
	# shellcheck disable=SC2086 # the empty command is no argument
	"$RMEM" help $command | cmp - "$dir/help" || fail "help and --help differ for '$command'"
	# every option is in the manual
	sed -nE 's/^ +(-., )?--([a-z-]+).*/\2/p' "$dir/help" | while read -r option; do
		grep -qF -- "Fl -$option" "$top_srcdir/man/rmem.1" ||
			fail "rmem.1 lacks --$option of '$command'"
	done
done
for program in "$RMEM" "$RMEMCTL" "$RMEMD"; do
	[[ $("$program" -V) =~ ^rmem(ctl|d)?\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$program -V"
done
"$RMEM" --help | grep -qE '(^|  )have the server fill' || fail "the summaries have no column"
[[ $("$RMEM" --version) =~ ^rmem\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "rmem --version"
if [ -w /dev/full ]; then
	expect_error 1 'No space left' bash -c "'$RMEM' --help >/dev/full"
	expect_error 1 'No space left' bash -c "'$RMEMCTL' --help >/dev/full"
	expect_error 1 'No space left' bash -c "'$RMEMD' --help >/dev/full"
fi
ok "help and version"

# ---- the daemon's configuration ----

ports_choose
server_config
if [ -w /dev/full ]; then
	expect_error 1 'rmemd: writing the output: No space left' \
		bash -c "'$RMEMD' --check-config --config '$dir/rmemd.conf' >/dev/full"
fi
rmemd()
{
	timeout -k 5 60 "$RMEMD" "$@"
}
# bad_config PATTERN SED...: --check-config and a start refuse the edited configuration with PATTERN
bad_config()
{
	local pattern=$1
	shift
	sed "$@" "$dir/rmemd.conf" >"$dir/bad.conf"
	expect_error 78 "$pattern" rmemd --check-config --config "$dir/bad.conf"
	expect_error 78 "Z error start-failed: .*$pattern" rmemd --config "$dir/bad.conf"
}
rmemd --check-config --config "$dir/rmemd.conf" || fail "a valid configuration is refused"
bad_config "bad.conf:3: .*prot.*port" -e '3s/^port/prot/'
bad_config "bad.conf:1: .*serve.*server" -e '1s/server/serve/'
bad_config "bad.conf:[0-9]+: .*(fence|heartbeat)" -e 's/^fence = .*/fence = 600ms/'
bad_config "bad.conf:[0-9]+: .*heartbeat" -e 's/^heartbeat = .*/heartbeat = 500/'
bad_config "bad.conf:[0-9]+: .*size" -e 's/^size = .*/size = much/'
bad_config "insecure" -e 's/^listen = .*/listen = 0.0.0.0/; s/^insecure = .*/insecure = no/'
bad_config "bad.conf:[0-9]+: insecure: .*comment" -e 's/^insecure = .*/& # for now/'
expect_error 78 'Z error start-failed: .*nonexistent.conf' rmemd --config "$dir/nonexistent.conf"
expect_error 2 '^rmemd: unknown option --nonsense=1; see rmemd --help$' rmemd --nonsense=1
expect_error 2 '^rmemd: unknown option -x; ' rmemd --check-config -x
expect_error 2 '^rmemd: --config needs a value; ' rmemd --config
expect_error 2 '^rmemd: --help=me: the option takes no value; ' rmemd --help=me
expect_error 2 '^rmemd: unexpected argument more; ' rmemd more
expect_error 2 "^rmemd: --log-target: .*'file'.*; see rmemd --help\$" rmemd --log-target file
[[ $(rmemd --version) =~ ^rmemd\ [0-9]+\.[0-9]+\.[0-9]+ ]] || fail "rmemd --version"

# the configuration in README.md is valid
awk '/^    \[server\]/ { on = 1 } on && /^[^ ]/ { exit } on' "$top_srcdir/README.md" |
	sed 's/^    //' >"$dir/readme.conf"
grep -q '^\[pool ' "$dir/readme.conf" || fail "README.md has no configuration"
rmemd --check-config --config "$dir/readme.conf" || fail "README.md's configuration is refused"

# --check-config does not look at the host, the start does
sed 's/^size = .*/&\nnode = 1000/' "$dir/rmemd.conf" >"$dir/bad.conf"
rmemd --check-config --config "$dir/bad.conf" || fail "the check looks at the host"
expect_error 78 'no NUMA node 1000' rmemd --config "$dir/bad.conf"

# more memory than the host has is refused before it is touched
sed 's/^size = .*/size = 512T/' "$dir/rmemd.conf" >"$dir/bad.conf"
expect_error 1 'small' rmemd --config "$dir/bad.conf"

# a socket that cannot be created is refused before the pools are populated
sed "s,^socket = .*,socket = /proc/nowhere/admin.sock," "$dir/rmemd.conf" >"$dir/bad.conf"
expect_error 1 '^error start-failed: .*there is no directory /proc/nowhere: make it' \
	rmemd --config "$dir/bad.conf"
! grep '^pool-ready' "$dir/stderr" ||
	fail "the pool was populated before the admin socket was created"

# ---- a running daemon ----

server_start
# a second daemon with these ports: the error names address and port
sed "s,^socket = .*,socket = $dir/other.sock," "$dir/rmemd.conf" >"$dir/second.conf"
expect_error 1 "$LISTEN.*$port|$port.*in use" rmemd --config "$dir/second.conf"
# with other ports and this admin socket
sed "s/^port = $port\$/port = $((port + 3000))/; s/^port = $((port + 1))\$/port = $((port + 3001))/
	s/^port = $((port + 2))\$/port = $((port + 3002))/" "$dir/rmemd.conf" >"$dir/second.conf"
expect_error 1 'admin.sock' rmemd --config "$dir/second.conf"

# the port for data, instead of the control port
expect_error 1 "port $((port + 2)) of this server is for data; a URI names its control port" \
	"$RMEM" -s "rmem://$LISTEN:$((port + 2))" ls
# a data channel at the control port: the log names its error
exec 3<>"/dev/tcp/$LISTEN/$port"
printf 'rmmh\44\0\1\0' >&3
cat <&3 >/dev/null
exec 3>&-
log_await '^request-refused: a data channel at the control port' ||
	fail "no line for a data channel"

expect_error 1 'missing' client get missing "$dir/out"
[ ! -e "$dir/out" ] || fail "a get that fails creates a file"
expect_error 1 'missing' client rm missing also-missing
grep -q also-missing "$dir/stderr" || fail "rm stopped at the first name"
head -c 300M /dev/zero >"$dir/large"
expect_error 1 '^rmem: put: ' client put large "$dir/large"
expect_error 1 '^rmem: put: ' bash -c "cat '$dir/large' | '$RMEM' -s '$uri' put large"
[ -z "$(client ls)" ] || fail "a put that fails leaves a name"
if [ "$FABRIC" = tcp ] && ! compgen -G '/sys/class/infiniband/*' >/dev/null; then
	expect_error 1 '^rmem: ls: .*RDMA' client --fabric rdma ls
fi
make_file "$dir/in" 1000
client put name "$dir/in"
expect_error 1 '^rmem: get: .*No such file' client get name "$dir/none/out"
expect_error 1 '^rmem: get: .*Is a directory' client get name "$dir"

# binary data goes to a terminal only with --force; text always
if command -v script >/dev/null; then
	printf 'one\x00two' | client put binary
	printf 'three\n' | client put text
	{ head -c 5000000 /dev/zero | tr '\0' x; printf '\302\2331m\033[2J'; } | client put late
	on_terminal()
	{
		script -qec "'$RMEM' -s '$uri' $*" /dev/null </dev/null
	}
	status=0
	on_terminal get binary >"$dir/typescript" || status=$?
	[ "$status" -eq 1 ] || fail "binary data on a terminal: status $status"
	grep -q -- --force "$dir/typescript" || fail "the error does not name --force"
	on_terminal get --force binary | grep -qa two || fail "--force has no effect"
	status=0
	on_terminal get late >"$dir/typescript" || status=$?
	[ "$status" -eq 1 ] || fail "an escape behind 5 MB of text: status $status"
	! grep -q $'[\033\302]' "$dir/typescript" || fail "an escape reached the terminal"
	on_terminal get text | grep -q three || fail "text did not reach the terminal"
	ok "binary data and terminals"
fi
client ls | xargs -d '\n' "$RMEM" -s "$uri" rm
lent_zero 20

# a reload logs what needs a restart, also when it raises the log level above that line
sed -i -e 's/^threads = .*/threads = 7/' -e 's/^target = .*/target = journal\nlevel = error/' \
	"$dir/rmemd.conf"
kill -HUP "$server_pid"
log_await '^reloaded: .*rmemd.conf; needs a restart: \[tcp\] threads, \[log\] target' ||
	fail "the reload does not name what needs a restart"
ok "reload"
server_stop
