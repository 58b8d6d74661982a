#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The table below has the folders and headers that each folder may include; others are refused.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

# folder: the folders and headers it may include, besides itself and the system's.  A * stands
# for anything; of several rules for a folder the first one counts.  A line that begins with a tab
# goes on with the rule before it.
# In the daemon calls go down: control, provision, config, lease, pool.
rules='
include/rmem: rmem/rmem.h
src/base
src/tls: base
src/wire: base
src/fabric: base wire/errors.h
src/fabric/tcp: base tls fabric wire/codec.h wire/errors.h
src/fabric/verbs/common: base fabric
src/fabric/verbs/client: base fabric fabric/verbs/common
src/fabric/verbs/server: base fabric fabric/verbs/common
src/librmem: base tls wire fabric librmem/session librmem/channel librmem/lease librmem/queue
	rmem/rmem.h
src/librmem/session: base tls wire fabric librmem/channel/domain.h rmem/rmem.h
src/librmem/channel: base tls wire fabric librmem/session rmem/rmem.h
src/librmem/lease: base wire fabric librmem/session librmem/channel rmem/rmem.h
src/librmem/queue: base wire fabric librmem/session librmem/channel librmem/lease rmem/rmem.h
src/rmemd: base tls wire fabric rmemd/admin rmemd/config rmemd/control rmemd/lease rmemd/loop
	rmemd/metrics rmemd/pool rmemd/provision rmemd/state rmemd/system
src/rmemd/admin: base fabric rmemd/config rmemd/control rmemd/lease rmemd/loop rmemd/metrics
	rmemd/pool rmemd/provision rmemd/system/log_output.h rmemd/system/recent.h
src/rmemd/config: base tls/certificate.h fabric rmemd/lease/tenant_params.h
	rmemd/pool/capacity.h rmemd/pool/pool_params.h
src/rmemd/control: base tls wire fabric rmemd/config rmemd/lease rmemd/loop rmemd/pool
	rmemd/provision rmemd/state
src/rmemd/lease: base wire fabric rmemd/loop rmemd/pool rmemd/state
src/rmemd/loop: base
src/rmemd/metrics: base wire fabric rmemd/config rmemd/control rmemd/lease rmemd/loop
	rmemd/pool rmemd/system/log_output.h
src/rmemd/pool: base
src/rmemd/provision: base rmemd/config rmemd/pool rmemd/state rmemd/system
src/rmemd/state: base
src/rmemd/system: base rmemd/config rmemd/loop/events.h rmemd/state
src/cache: base rmem/rmem.h rmem/cache.h
src/doctor: base fabric/no_rdma.h fabric/verbs/common/load.h fabric-only
src/rmem: base doctor wire/codec.h rmem/rmem.h rmem/cache.h
src/rmemctl/doctor: base doctor fabric rmemctl rmemd/config rmemd/control/descriptors.h rmemd/pool
src/rmemctl: base tls/keys.h
src/python: rmem/rmem.h rmem/cache.h
src/examples: rmem/rmem.h
'

# One name (without .c or .h) stands for one thing in the subtree of each folder of src.  Two
# sides or two implementations of one thing may share it: those in these folders, one line each.
sides='
src/fabric src/fabric/tcp src/fabric/verbs/client
src/fabric src/fabric/tcp src/fabric/verbs/server
src/fabric src/fabric/verbs/client src/fabric/verbs/server
'

# Names that several files still have, to be made different; an unused entry is an error.
known='
'

mapfile -t files < <(find src include -name '*.[ch]' | sort)
awk -v rules="$rules" -v sides="$sides" -v known="$known" '
function report(where, text) { print where ": " text; bad++ }
function folder_of(path) { sub(/\/[^\/]*$/, "", path); return path }
function expression(pattern) {
	gsub(/\./, "\\.", pattern)
	gsub(/\*/, ".*", pattern)
	return "^" pattern "$"
}

# the number of the rule for a folder, 0 if there is none
function rule_of(folder,    i) {
	for (i = 1; i <= n_rules; i++) if (folder ~ rule_folder[i]) return i
	return 0
}

function allowed(rule, header, folder,    words, n, i) {
	n = split(rule_allows[rule], words, " ")
	for (i = 1; i <= n; i++)
		if (header ~ expression(words[i]) || folder ~ expression(words[i])) return 1
	return 0
}

function check_include(text,    header, quoted, wants) {
	if (!match(text, /[<"][^">]*[>"]/)) {
		report(FILENAME ":" FNR, "an include of no known form")
		return
	}
	quoted = substr(text, RSTART, 1) == "\""
	header = substr(text, RSTART + 1, RLENGTH - 2)
	if (header ~ /^(infiniband|rdma)\//) {
		if (folder ~ /^src\/fabric/) return
		wants = "fabric-only"
	} else if (header ~ /^event2\/|^event\.h$/) {
		if (folder != "src/base" && folder != "src/wire") return
		wants = "event"
	} else if (header == "rmem/rmem.h") {
		wants = header
	} else {
		if (!quoted) return
		wants = header ~ /\// ? folder_of(header) : substr(folder, 5)
	}
	if (wants != substr(folder, 5) && !allowed(rule, header, wants))
		report(FILENAME ":" FNR, folder " must not include " header)
}

BEGIN {
	gsub(/\n\t/, " ", rules)
	n = split(rules, lines, "\n")
	for (i = 1; i <= n; i++) {
		if (lines[i] == "") continue
		split(lines[i], rule_parts, ":")
		rule_folder[++n_rules] = expression(rule_parts[1])
		rule_allows[n_rules] = rule_parts[2]
	}
}

FNR == 1 {
	n_files++
	folder = folder_of(FILENAME)
	rule = rule_of(folder)
	if (!rule) report(FILENAME, "folder " folder " has no rule in tests/lint/layers.sh")

	split(FILENAME, parts, "/")
	name = substr(FILENAME, length(folder) + 2)
	sub(/\.[ch]$/, "", name)
	key = parts[1] "/" parts[2] ": " name
	if (!((key, folder) in has)) names[key] = names[key] " " folder
	has[key, folder] = 1
}
rule && /^[ \t]*#[ \t]*include/ { check_include($0) }

# whether all of these folders are in one line of `sides`
function are_sides(folders,    lines, n, i, words, m, k, all) {
	m = split(folders, words, " ")
	n = split(sides, lines, "\n")
	for (i = 1; i <= n; i++) {
		all = 1
		for (k = 1; k <= m; k++) all = all && index(" " lines[i] " ", " " words[k] " ")
		if (all) return 1
	}
	return 0
}

END {
	n = split(known, lines, "\n")
	for (i = 1; i <= n; i++) {
		m = split(lines[i], words, /:? /)
		for (k = 2; k <= m; k++) expected[words[1] ": " words[k]] = 1
	}
	for (key in names) {
		if (split(names[key], words, " ") < 2 || are_sides(names[key])) continue
		if (key in expected) delete expected[key]
		else report(key, "one name for files of" names[key])
	}
	for (key in expected)
		report(key, "is the name of one file: take it off the list of known ones")
	printf "layers: %d files, %d broken rules\n", n_files, bad
	exit bad > 0 || n_files <= 20
}' "${files[@]}"
