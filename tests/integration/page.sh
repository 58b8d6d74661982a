#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The status page in Chromium: what it shows of a daemon, that it follows changes, that names of
# clients are only text, the keyboard, dark and light, small screens; and what a browser may not do.
# Screenshots are in build/page-NAME.png.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/browser.sh"
need chromium curl jq

ports_choose
page_port=$port
while [ "$page_port" -eq "$port" ]; do
	ports_choose
done
config_extra="[pool big]
size = 64M
page_size = base
[tenant default]
[tenant red]
bytes = 100M
[tenant blue]
[metrics]
listen = $LISTEN:$page_port"
server_config
server_restart
page=http://$LISTEN:$page_port

# get PATH [OPTION OF curl...]
get()
{
	curl -sS --fail --max-time 20 "${@:2}" "$page$1"
}

# code PATH [OPTION OF curl...]: the status of the answer
code()
{
	curl -s -o "$dir/answer" -w '%{http_code}' --max-time 20 "${@:2}" "$page$1"
}

# expect_code STATUS PATH [OPTION OF curl...]
expect_code()
{
	local got
	got=$(code "${@:2}")
	[ "$got" = "$1" ] || fail "${*:2} gave $got, not $1: $(cat "$dir/answer")"
}

# as TENANT ARGUMENT OF rmem...
as()
{
	timeout -k 5 $((client_limit * patience)) "$RMEM" -s "$uri&tenant=$1" "${@:2}"
}

hostile='<img src=x onerror=document.title=1>'
make_file "$dir/in" 20000000
as red put --ttl 1h "$hostile" "$dir/in"
as blue put --ttl 5min soon "$dir/in"
as default put kept "$dir/in"
background watch watch kept
poll_await 20 json_is sessions '.sessions | length == 1' || fail "no session"

# ---- without a browser ----

headers=$(get / --head)
for header in "Content-Security-Policy: default-src 'none'; " "X-Content-Type-Options: nosniff" \
	"Referrer-Policy: no-referrer" "Cross-Origin-Resource-Policy: same-origin"; do
	grep -qiF "$header" <<<"$headers" || fail "no $header in $headers"
done
! grep -qi '^access-control' <<<"$headers" || fail "headers of CORS: $headers"
! get / | grep -oE "(src|href)=.https?:" || fail "the page loads something"
cmp <(get /) <(curl -sS --unix-socket "$dir/admin.sock" http://rmemd/) || fail "another page"
for list in extents leases pools devices sessions tenants events; do
	get "/v1/$list" | jq -e ".$list | length > 0" >/dev/null || fail "/v1/$list"
done
get /v1/extents | jq -e '
	(.extents | map(select(.pool == "small") | .bytes) | add) == 192 * 1048576 and
	(.extents | map(select(.pool == "small")) | length) == 256 and
	(.extents | map(.tenants[] | select(.tenant == "red") | .bytes) | add) >= 20000000 and
	(.extents | all(.bytes == .lent_bytes + .free_bytes + .scrubbing_bytes + .closed_bytes))' \
	>/dev/null || fail "the extents: $(get /v1/extents | head -c 1000)"
ok "the resources"

expect_code 404 /v1/none
expect_code 405 / -X POST
expect_code 404 /v1/reload -X POST
expect_code 403 / -H 'Host: evil.example'
expect_code 403 /v1/leases -H "Host: evil.example:$page_port"
expect_code 200 / -H 'Host: server'
expect_code 403 /metrics -H 'Host: server.example'
expect_code 200 /metrics -H 'Host: server'
expect_code 404 /v1/log-level
expect_code 503 '/v1/events?follow=yes'
json_is status '.counters.http_refused == 3' || fail "names of others are not counted"
status=$(curl -s -o "$dir/answer" -w '%{http_code}' --unix-socket "$dir/admin.sock" -X POST \
	-H 'Origin: http://localhost:9746' http://rmemd/v1/reload)
[ "$status" = 403 ] || fail "a page may act: $status"
grep -q 'no page in a browser may act' "$dir/answer" || fail "$(cat "$dir/answer")"
ok "what a browser may not do"

sed -i "s/^listen = $LISTEN:$page_port/&\nnames = server.example/" "$dir/rmemd.conf"
rmemctl reload >/dev/null
expect_code 200 / -H 'Host: server.example'
expect_code 200 /metrics -H 'Host: server.example'
sed -i 's/^names = .*/page = no/' "$dir/rmemd.conf"
rmemctl reload >/dev/null
expect_code 404 /
expect_code 404 /v1/leases
expect_code 404 /v1/events
expect_code 200 /metrics
sed -i '/^page = no$/d' "$dir/rmemd.conf"
rmemctl reload >/dev/null
ok "[metrics] names and page"

# ---- in a browser ----

# all SELECTOR: an array of the elements
all()
{
	echo "Array.from(document.querySelectorAll('$1'))"
}

# row TABLE TEXT: the text of the first row that has it
row()
{
	local text
	text=$(jq -cn --arg text "$2" '$text')
	echo "$(all "#$1 tbody tr").map((r) => r.textContent).find((t) => t.includes($text))"
}

browser_start
browser_look light 1280 900 false
browser_call Page.navigate "{\"url\": \"$page/\"}"
browser_await "document.getElementById('state').dataset.state === 'live'"
browser_is "document.querySelectorAll('.map').length === 2"
browser_is "document.querySelectorAll('[aria-label=\"Map of pool small\"] i').length === 256"
browser_is "$(all '.map i').some((c) => c.getAttribute('aria-label').includes('lent to red'))"
browser_is "$(all '#legend button').map((b) => b.textContent).join() === 'blue,default,red'"
browser_is "/NUMA node/.test(document.querySelector('#nodes h3').textContent)"
browser_is "$(row leases soon).match(/soonblueready19\\.1 MiB/)"
browser_is "$(row leases soon).match(/[45] min [0-9]+ s\$/)"
browser_is "$(row leases kept).endsWith('for ever')"
browser_is "$(row leases "$hostile").match(/5[0-9] min [0-9]+ s\$/)"
browser_is "$(row tenants red).includes('19.1 MiB of 100 MiB')"
browser_is "document.querySelectorAll('#sessions tbody tr:not(.empty)').length === 1"
browser_is "$(row devices tcp)"
ok "what there is"

browser_is "document.querySelectorAll('img').length === 0 && document.title.endsWith('rmemd')"
browser_eval \
	"document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">');
	document.body.insertAdjacentHTML('beforeend', '<p id=probe style=\"color: red\">');
	const script = document.createElement('script'); script.textContent = 'window.injected = 1';
	document.body.append(script);
	new Promise((resolve) => { setTimeout(resolve, 300); })"
browser_is "window.injected === undefined && document.title.endsWith('rmemd')"
browser_is "document.getElementById('probe').style.color === ''"
browser_eval "fetch('http://127.0.0.1:$port/').then(() => 'sent', () => 'refused')"
[ "$browser_value" = '"refused"' ] || fail "the page may ask others"
browser_eval "for (const e of document.querySelectorAll('img, #probe')) e.remove()"
ok "names are text, and the policy holds where they would not be"

as default put --ttl 50s short "$dir/in"
browser_await "document.querySelector('#leases td.soon') &&
	document.querySelector('#leases td.soon').closest('tr').textContent.startsWith('short')"
as default rm -y short
browser_eval \
	"window.before = $(all '#leases tbody tr').find((r) => r.textContent.startsWith('kept'))"
as default put --ttl 2h later "$dir/in"
browser_await "$(row leases later)"
browser_is "window.before.isConnected"
browser_await "$(row devices tcp).match(/[0-9] [KM]iB\\/s/)"
browser_await "document.querySelector('#devices svg path').getAttribute('d').includes('L')"
as default rm -y later
browser_await "!$(row leases later)"
soon=$(all '#leases tbody tr')".find((r) => r.textContent.includes('soon'))"
text=$soon.lastChild.textContent
browser_eval "$text"
browser_await "$text !== $browser_value"
ok "changes come without reload"

# events: those from before the page, then what happens; names of clients are text here too
browser_is "$(row events lease-granted)"
browser_is "$(row events ready).includes('notice')"
browser_is "document.getElementById('events-count').textContent.match(/^[0-9]+/)"
as red put short-lived "$dir/in"
rmemctl revoke --tenant red short-lived
browser_await "$(row events '/v1/revoke name=short-lived')?.includes('admin-acts')"
browser_await "$(row events lease-revoked)?.includes('tenant red')"
browser_is "document.querySelector('#events tbody tr').textContent !== $(row events ready)"
as blue put "$hostile" "$dir/in"
rmemctl revoke --tenant blue "$hostile"
browser_await "$(row events "name=$hostile")"
browser_is "document.querySelectorAll('img').length === 0"
ok "events"

browser_eval "document.querySelector('[aria-label=\"Map of pool small\"]').focus()"
browser_key ArrowRight
browser_key ArrowRight
browser_is "document.activeElement.getAttribute('aria-activedescendant') === 'cell-small-1'"
browser_key End
browser_is "document.activeElement.getAttribute('aria-activedescendant') === 'cell-small-255'"
browser_is "document.querySelector('#cell-small-255').closest('.pool')
	.lastChild.textContent.includes(' free')"
browser_key ArrowUp
browser_is "Number(document.activeElement.getAttribute('aria-activedescendant').slice(11)) < 255"
browser_eval "document.querySelectorAll('#legend button')[2].click()"
browser_is "document.querySelectorAll('#legend button')[2].getAttribute('aria-pressed') === 'true'"
browser_is "document.querySelectorAll('.map.marked i.mark').length >= 20"
browser_shot "$top_builddir/page-marked.png"
browser_eval "document.querySelectorAll('#legend button')[2].click()"
browser_eval "document.querySelector('#leases th button').click()"
browser_is "document.querySelector('#leases th').getAttribute('aria-sort') === 'ascending'"
browser_eval "const filter = document.getElementById('filter'); filter.value = 'BLUE';
	filter.dispatchEvent(new Event('input'))"
browser_is "document.querySelectorAll('#leases tbody tr').length === 1"
browser_is "document.getElementById('leases-count').textContent === '1 of 3'"
browser_eval "filter.value = 'short-lived'; filter.dispatchEvent(new Event('input'))"
browser_is "$(all '#events tbody tr').every((r) => r.textContent.includes('short-lived'))"
browser_eval "filter.value = ''; filter.dispatchEvent(new Event('input'))"
ok "the keyboard, the legend, sorting and filtering"

browser_eval "getComputedStyle(document.body).backgroundColor"
light=$browser_value
browser_shot "$top_builddir/page-light.png"
browser_look dark 1280 900 false
browser_eval "getComputedStyle(document.body).backgroundColor"
[ "$browser_value" != "$light" ] || fail "dark is $light, too"
browser_shot "$top_builddir/page-dark.png"
for scheme in dark light; do
	browser_look "$scheme" 390 844 true
	browser_is "document.documentElement.scrollWidth <= 390"
	browser_shot "$top_builddir/page-phone-$scheme.png"
done
browser_look light 1280 900 false
ok "dark, light, and a phone"

printf '[pool more]\nsize = 4M\npage_size = base\n[pool vast]\nsize = 512T\npage_size = base\n' \
	>>"$dir/rmemd.conf"
rmemctl reload >/dev/null
browser_await "document.querySelectorAll('[aria-label=\"Map of pool more\"] i').length === 256"
browser_await "$(all .pool).some((p) => p.textContent.includes('vastfailed: '))"
# the only error that is meant
sed -i '/pool-not-added/d' "$server_log"
ok "pools that come"

browser_eval "document.getElementById('pause').click()"
browser_is "document.getElementById('state').textContent === 'Paused'"
browser_eval "document.getElementById('pause').click()"
browser_await "document.getElementById('state').dataset.state === 'live'"
kill -TERM "$client_pid"
process_await "$client_pid" 20 || fail "rmem watch did not end"
browser_await "document.querySelector('#sessions tbody tr').textContent === 'none'"
! grep -h '"exceptionThrown"\|Runtime.exceptionThrown' "$dir/browser.events" ||
	fail "the script failed"
server_stop
browser_await "document.getElementById('state').dataset.state === 'lost'"
browser_is \
	"document.getElementById('state').textContent.startsWith('The daemon has not answered for')"
ok "pause, and a daemon that is gone"

# as many events as of the last one
browser_eval "window.before = view.events[view.events.length - 1].number"
browser_eval "view.events.length"
before=$browser_value
sed -i '/^\[pool vast\]$/,+2d' "$dir/rmemd.conf"
server_restart
for ((i = 0; i < before; i++)); do
	rmemctl log-level debug >/dev/null
done
browser_await "document.getElementById('state').dataset.state === 'live'"
browser_await "view.data.status.last_event > window.before + $before &&
	view.events[view.events.length - 1].number >= view.data.status.last_event - 1"
browser_is "$(row events lease-revoked) === undefined && $(row events ready).includes('notice')"
server_stop
ok "the events of a daemon that was restarted"
browser_stop
