#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions for tests that look at a page in Chromium, through the DevTools protocol over pipes:
# JSON messages that end in a zero byte.  A test sources this file after lib.sh.
# shellcheck disable=SC2154 # dir, patience, pids: lib.sh

browser_pid=
browser_id=0
browser_session=

# browser_start: a browser with one empty page
browser_start()
{
	local target
	local options=(--headless=new --remote-debugging-pipe --user-data-dir="$dir/browser"
		--disable-gpu --disable-dev-shm-usage --disable-extensions --no-first-run
		--disable-background-networking --disable-component-update --disable-sync
		--no-proxy-server --mute-audio)
	# the sandbox needs another user than root
	[ "$(id -u)" -ne 0 ] || options+=(--no-sandbox)
	mkfifo "$dir/browser.in" "$dir/browser.out"
	HOME=$dir chromium "${options[@]}" about:blank 3<"$dir/browser.in" 4>"$dir/browser.out" \
		>"$dir/browser.log" 2>&1 &
	browser_pid=$!
	pids+=("$browser_pid")
	exec {browser_to}>"$dir/browser.in" {browser_from}<"$dir/browser.out"
	browser_call Target.createTarget '{"url": "about:blank"}'
	target=$(jq -r .targetId <<<"$browser_result")
	browser_call Target.attachToTarget "{\"targetId\": \"$target\", \"flatten\": true}"
	browser_session=$(jq -r .sessionId <<<"$browser_result")
	browser_call Page.enable '{}'
	browser_call Runtime.enable '{}'
	browser_call Log.enable '{}'
}

# browser_call METHOD PARAMETERS: sets browser_result; events are added to browser.events
browser_call()
{
	local message
	browser_id=$((browser_id + 1))
	jq -cn --arg session "$browser_session" --arg method "$1" --argjson id "$browser_id" \
		--argjson params "$2" '{id: $id, method: $method, params: $params}
		+ if $session == "" then {} else {sessionId: $session} end' |
		tr '\n' '\0' >&"$browser_to"
	# longer than browser_await waits, and a picture takes its time on a busy machine
	while IFS= read -r -d '' -t $((120 * patience)) -u "$browser_from" message; do
		if [[ $message != "{\"id\":$browser_id,"* ]]; then
			printf '%s\n' "$message" >>"$dir/browser.events"
			continue
		fi
		browser_result=$(jq -ec .result <<<"$message") || fail "$1: $message"
		return
	done
	tail -n 5 "$dir/browser.log"
	fail "no answer of the browser to $1"
}

# browser_eval EXPRESSION: its value, or that of its promise, as JSON
browser_eval()
{
	browser_call Runtime.evaluate "$(jq -cn --arg expression "$1" \
		'{expression: $expression, awaitPromise: true, returnByValue: true}')"
	jq -e '.exceptionDetails | not' <<<"$browser_result" >/dev/null ||
		fail "$1: $browser_result"
	browser_value=$(jq -c .result.value <<<"$browser_result")
}

# browser_await EXPRESSION: wait until it is true
browser_await()
{
	local limit=$((30000 * patience))
	browser_eval "new Promise((resolve) => {
		const end = performance.now() + $limit;
		const look = () => {
			if (($1) || performance.now() > end) resolve(Boolean($1));
			else setTimeout(look, 50);
		};
		look();
	})"
	[ "$browser_value" = true ] || {
		browser_eval 'document.body.innerText'
		fail "never true in the page: $1; it shows $browser_value"
	}
}

# browser_is EXPRESSION
browser_is()
{
	browser_eval "Boolean($1)"
	[ "$browser_value" = true ] || {
		browser_eval 'document.body.innerText'
		fail "not true in the page: $1; it shows $browser_value"
	}
}

# browser_key KEY
browser_key()
{
	browser_call Input.dispatchKeyEvent \
		"{\"type\": \"rawKeyDown\", \"key\": \"$1\", \"code\": \"$1\"}"
	browser_call Input.dispatchKeyEvent \
		"{\"type\": \"keyUp\", \"key\": \"$1\", \"code\": \"$1\"}"
}

# browser_look SCHEME WIDTH HEIGHT MOBILE: as a device of this size, dark or light
browser_look()
{
	browser_call Emulation.setEmulatedMedia \
		"{\"features\": [{\"name\": \"prefers-color-scheme\", \"value\": \"$1\"}]}"
	browser_call Emulation.setDeviceMetricsOverride \
		"{\"width\": $2, \"height\": $3, \"deviceScaleFactor\": 1, \"mobile\": $4}"
}

# browser_shot FILE: the whole page as PNG
browser_shot()
{
	browser_call Page.captureScreenshot '{"captureBeyondViewport": true, "format": "png"}'
	jq -r .data <<<"$browser_result" | base64 -d >"$1"
}

browser_stop()
{
	browser_call Browser.close '{}'
	exec {browser_to}>&- {browser_from}<&-
	process_await "$browser_pid" 20 || fail "the browser did not end"
}
