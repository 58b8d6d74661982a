#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Header, symbol map, library, tables, programs and manual pages have equal lists of names.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"
top_builddir=${top_builddir:-$PWD/build}
read -ra cc <<<"${CC:-cc}"

read -ra cc <<<"${CC:-cc}" # CC may have a launcher before the compiler
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
compared=0

# compare A B: the sorted lists $tmp/A and $tmp/B are equal and not empty
compare()
{
	compared=$((compared + 1))
	if [ ! -s "$tmp/$1" ]; then
		echo "names: found nothing in $1"
		bad=$((bad + 1))
	elif ! diff -u --label "$1" --label "$2" "$tmp/$1" "$tmp/$2"; then
		echo "names: $1 and $2 differ"
		bad=$((bad + 1))
	fi
}

# page_names SECTION: the names in the NAME sections of the pages
page_names()
{
	local page
	for page in man/*."$1"; do
		grep -q '^\.so ' "$page" || # made by a build in the tree
			awk '/^\.Sh/ { on = $2 == "NAME" } on && $1 == ".Nm" { print $2 }' "$page"
	done
}

# ---- the library ----

sed -nE 's/^RMEM_API .*[ *](rmem_[a-z0-9_]+)\(.*/\1/p' include/rmem/rmem.h |
	sort >"$tmp/rmem.h"
sed -nE 's/^static inline .*[ *](rmem_[a-z0-9_]+)\(.*/\1/p' include/rmem/rmem.h |
	sort >"$tmp/inline functions of rmem.h"
sed -nE '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/s/^\.F[no] (rmem_[a-z0-9_]+).*/\1/p' man/rmem_*.3 |
	sort -u >"$tmp/functions of synopses"
comm -23 "$tmp/functions of synopses" "$tmp/rmem.h" >"$tmp/inline functions of man3"
compare "inline functions of rmem.h" "inline functions of man3"

# Inline functions that are no initializers of a structure have a page too.
grep -v '_init$' "$tmp/inline functions of rmem.h" |
	sort - "$tmp/rmem.h" >"$tmp/functions with pages"

page_names 3 | grep -vE '^librmem(-cache)?$|^rmem_cache_' | sort >"$tmp/man3"
compare "functions with pages" man3

grep -oE 'man/rmem_[a-z0-9_]+\.3' man/module.am | grep -v rmem_cache_ |
	sed 's,^man/,,; s,\.3$,,' | sort >"$tmp/man.am"
compare "functions with pages" man.am

sed -nE 's/^\.It Xr|^\.Xr//; s/ , Xr/\n/g; p' man/librmem.3 |
	sed -nE 's/^ *(rmem_[a-z0-9_]+) 3.*/\1/p' | sort -u >"$tmp/librmem.3"
compare "functions with pages" librmem.3

# The table of error numbers, and the members of the structures.
sed -nE '/^ \* Results/,/^ \* Threads/s/^ \*   (E[A-Z]+(, E[A-Z]+)*).*/\1/p' include/rmem/rmem.h |
	grep -oE 'E[A-Z]+' | sort >"$tmp/errors of rmem.h"
sed -n '/^\.Sh ERRORS/,/^\.Sh SEE/p' man/librmem.3 | grep '^\.It Bq Er' |
	grep -oE '\bE[A-Z]{2,}' | sort >"$tmp/errors of librmem.3"
compare "errors of rmem.h" "errors of librmem.3"

sed -nE '/^struct rmem_[a-z0-9_]+ \{/,/^\}/s/^\t[a-z][^;,]*[ *]([a-z_]+)(\[[^;]*\])?;.*/\1/p' \
	include/rmem/rmem.h |
	sort -u >"$tmp/members of rmem.h"
while read -r member; do
	grep -qE "^(\.It .*Fa (.* , )?|[[:blank:]]+[a-z].*[ *])$member\b" man/rmem_*.3 &&
		echo "$member"
done <"$tmp/members of rmem.h" >"$tmp/members of man3"
compare "members of rmem.h" "members of man3"

# structures: of C on standard input a line for each member, with the structure and its place there
structures()
{
	"${cc[@]}" -E -P -x c - | tr -s '[:space:]' ' ' |
		sed 's/__extension__ //g; s/\([;{}]\) */\1\n/g' |
		awk '
			depth == 0 && /^struct rmem_[a-z_]+ \{$/ {
				name = $2
				depth = 1
				n = 0
				next
			}
			depth > 0 { n++; printf "%s %02d %s\n", name, n, $0 }
			depth > 0 && /\{$/ { depth++ }
			depth > 0 && /^\}/ { depth-- }
		' | sort
}
grep -v '^#' include/rmem/rmem.h | structures >"$tmp/all structures"
sed -n '/^\.Bd -literal/,/^\.Ed/{/^\./d; p}' man/rmem_*.3 | grep -v '^#' | structures \
	>"$tmp/structures of man3"
cut -d' ' -f1 "$tmp/structures of man3" | sort -u |
	join - "$tmp/all structures" >"$tmp/structures of rmem.h"
compare "structures of rmem.h" "structures of man3"

map=src/librmem/librmem.map
if [ -f "$map" ]; then
sed -nE '/global:/,/local:/s/^[[:space:]]*(rmem_[a-z0-9_]+);.*/\1/p' "$map" |
	sort >"$tmp/librmem.map"
compare rmem.h librmem.map
fi

symbols=debian/librmem0.symbols
if [ -f "$symbols" ]; then # the archive has no packaging
sed -nE 's/^ (rmem_[a-z0-9_]+)@RMEM_.*/\1/p' "$symbols" | sort >"$tmp/librmem0.symbols"
compare rmem.h librmem0.symbols
fi

# ---- the cache ----

sed -nE 's/^RMEM_API .*[ *](rmem_cache_[a-z0-9_]+)\(.*/\1/p' include/rmem/cache.h |
	sort >"$tmp/cache.h"
page=man/librmem-cache.3
page_names 3 | grep '^rmem_cache_' | sort >"$tmp/names of librmem-cache.3"
compare cache.h "names of librmem-cache.3"
sed -nE '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/s/^\.F[no] (rmem_cache_[a-z0-9_]+).*/\1/p' "$page" |
	grep -v '_init$' | sort >"$tmp/functions of librmem-cache.3"
compare cache.h "functions of librmem-cache.3"
grep -oE 'man/rmem_cache_[a-z0-9_]+\.3' man/module.am | sed 's,^man/,,; s,\.3$,,' |
	sort >"$tmp/cache of man.am"
compare cache.h "cache of man.am"
sed -nE '/global:/,/local:/s/^[[:space:]]*(rmem_cache_[a-z0-9_]+);.*/\1/p' \
	src/cache/librmem-cache.map | sort >"$tmp/librmem-cache.map"
compare cache.h librmem-cache.map
if [ -f debian/librmem-cache0.symbols ]; then
	sed -nE 's/^ (rmem_cache_[a-z0-9_]+)@RMEM_.*/\1/p' debian/librmem-cache0.symbols |
		sort >"$tmp/librmem-cache0.symbols"
	compare cache.h librmem-cache0.symbols
fi
# structures with their members, in their order
sed -nE '/^struct rmem_cache_[a-z]+ \{/,/^\}/p' include/rmem/cache.h |
	structures >"$tmp/structures of cache.h"
sed -n '/^\.Bd -literal/,/^\.Ed/{/^\./d; p}' "$page" | grep -v '^#' | structures \
	>"$tmp/structures of librmem-cache.3"
compare "structures of cache.h" "structures of librmem-cache.3"
library=$top_builddir/.libs/librmem-cache.so
if [ -f "$library" ]; then
	nm -D --defined-only "$library" | awk '$2 != "A" { sub("@.*", "", $3); print $3 }' |
		sort >"$tmp/librmem-cache.so"
	compare cache.h librmem-cache.so
fi

# ---- the packages ----

if [ -f debian/changelog ]; then
sed -nE 's/^\t?RMEM_NEED\(\[[A-Z_]*\], \[[^]]*\], \[([a-z0-9-]*)\].*/\1/p' configure.ac |
	sort -u >"$tmp/libraries of configure.ac"
sed -nE '/^Build-Depends:/,/^[^ ]/s/^ (lib[a-z0-9-]*-dev),$/\1/p' debian/control |
	sort >"$tmp/libraries of debian"
compare "libraries of configure.ac" "libraries of debian"

{
	sed -nE 's/^\t?RMEM_NEED\(\[[A-Z_]*\], \[([a-z_-]*).*/\1/p' configure.ac
	sed -nE 's/^PKG_CHECK_MODULES\(\[[A-Z]*\], \[([a-z_-]*).*/\1/p' configure.ac
} | sort -u >"$tmp/modules of configure.ac"
sed -nE 's/^BuildRequires: *pkgconfig\(([a-z_-]*)\).*/\1/p' etc/rpm/rmem.spec.in |
	sort >"$tmp/modules of rmem.spec"
compare "modules of configure.ac" "modules of rmem.spec"

sed -nE 's/^AC_INIT\(\[rmem\], \[(.*)\]\)$/\1/p' configure.ac >"$tmp/configure.ac"
sed -nE '1s/^rmem \((.*)-.*\) .*/\1/p' debian/changelog >"$tmp/changelog of debian"
compare configure.ac "changelog of debian"
fi

library=$top_builddir/.libs/librmem.so
if [ -f "$library" ]; then
	nm -D --defined-only "$library" | awk '$2 != "A" { sub("@.*", "", $3); print $3 }' |
		sort >"$tmp/librmem.so"
	compare rmem.h librmem.so
fi

# ---- the control protocol ----

cat >"$tmp/wire.c" <<'C'
#include <stdio.h>
#include "wire/msg.h"
#define U8(f) printf("  %s u8\n", #f);
#define U16(f) printf("  %s u16\n", #f);
#define U32(f) printf("  %s u32\n", #f);
#define U64(f) printf("  %s u64\n", #f);
#define I32(f) printf("  %s i32\n", #f);
#define STR(f, max) printf("  %s str %d\n", #f, max);
#define RAW(f, n) printf("  %s raw %d\n", #f, n);
#define LIST(f, item, max) printf("  %s list %d %s\n", #f, max, #item);
#define FIELDS(name) WIRE_FIELDS_##name(U8, U16, U32, U64, I32, STR, RAW, LIST, )
#define MESSAGE(name, number, since, text)                    \
	printf("%s 0x%02x %d\n", #name, number, since); \
	FIELDS(name)
#define ITEM(name)              \
	printf("%s\n", #name); \
	FIELDS(name)
int main(void)
{
	WIRE_MESSAGES(MESSAGE)
	WIRE_ITEMS(ITEM)
	return 0;
}
C
"${cc[@]}" -std=gnu17 -Isrc -o "$tmp/wire" "$tmp/wire.c"
"$tmp/wire" >"$tmp/msg.h"
awk '
	/^\.Sh/ { on = /REQUESTS|REPLIES|EVENTS|LIST ITEMS/ }
	!on { next }
	/^\.Ss/ && /version/ { gsub(/[(),]/, ""); print $2, $3, $5; next }
	/^\.Ss Reasons/ { next }
	/^\.Ss/ { print $2; next }
	/^\.It Fa/ { sub(/^\.It Fa /, ""); split($0, part, / Ta /); print "  " part[1], part[2] }
' man/rmem-protocol.7 >"$tmp/rmem-protocol.7"
compare msg.h rmem-protocol.7

# its states and the steps between them
cat >"$tmp/states.c" <<'C'
#include <stdio.h>
#include "wire/states.h"
#define MOVE(machine, from, step, to) (void)puts(#machine " " #from " " #step " " #to);
int main(void)
{
	WIRE_SESSION_MOVES(MOVE)
	WIRE_CHANNEL_MOVES(MOVE)
	WIRE_LEASE_MOVES(MOVE)
	return 0;
}
C
"${cc[@]}" -std=gnu17 -Isrc -o "$tmp/states" "$tmp/states.c"
"$tmp/states" | tr '[:upper:]' '[:lower:]' >"$tmp/states.h"
awk '
	/^\.Ss/ { on = $2 == "States" }
	on && /^A [a-z]+:$/ { machine = substr($2, 1, length($2) - 1) }
	on && machine && /^\.It [a-z]/ { print machine, $2, $4, $6 }
' man/rmem-protocol.7 >"$tmp/states of the page"
compare states.h "states of the page"

# ---- errors of the protocols ----

cat >"$tmp/codes.c" <<'C'
#include <stdio.h>
#include "wire/errors.h"
#define GROUP(hundreds, shown, text) printf("%d00 %s %s\n", hundreds, #shown, text);
#define CODE(name, number, own, shown, text) printf("%d %s %s %s\n", number, #name, #shown, text);
#define OWN(name, number, own, shown, text) puts(#own);
int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		WIRE_CODES(OWN)
		return 0;
	}
	WIRE_CODE_GROUPS(GROUP)
	WIRE_CODES(CODE)
	return 0;
}
C
"${cc[@]}" -std=gnu17 -Isrc -o "$tmp/codes" "$tmp/codes.c"
"$tmp/codes" >"$tmp/errors.h"
sed -n '/^\.Sh ERROR CODES/,/^\.Sh SEE/s/^\.It \([0-9]\)/\1/p' man/rmem-protocol.7 |
	sed 's/ Ta Sy / /; s/ Ta Er / /; s/ Ta / /' >"$tmp/errors of rmem-protocol.7"
compare errors.h "errors of rmem-protocol.7"

# what each request needs, the answers to it, and those that are kept
cat >"$tmp/answers.c" <<'C'
#include <stdio.h>
#include "rmemd/control/request.h"
#include "wire/requests.h"
#define NEEDS(name, needs, flags) [WIRE_TYPE_##name] = #needs,
#define KEPT(name, needs, flags)          \
	if ((flags) & REQUEST_REMEMBERED) \
		puts(#name);
#define E(name) " " #name
#define ROW(request, reply, errors) \
	printf("%s %s %s\n", #request, needs[WIRE_TYPE_##request], #reply errors);
int main(int argc, char **argv)
{
	static const char *const needs[] = { [WIRE_TYPE_hello] = "none",
					     REQUEST_TYPES(NEEDS, NEEDS, NEEDS) };
	(void)argv;
	if (argc > 1) {
		REQUEST_TYPES(KEPT, KEPT, KEPT)
		return 0;
	}
	puts("each none none" WIRE_ERRORS(E));
	WIRE_ANSWERS(ROW, E)
	return 0;
}
C
"${cc[@]}" -std=gnu17 -Isrc -o "$tmp/answers" "$tmp/answers.c"
"$tmp/answers" >"$tmp/requests"
awk '
	/^\.Ss/ { on = $2 == "Answers" }
	on && /^\.It (Cm|each)/ {
		gsub(/^\.It | ,|(Cm|Sy) /, "")
		split($0, part, / Ta /)
		sub(/\\\(en/, "none", part[2])
		sub(/\\\(en/, "none", part[3])
		sub(/\\\(en/, "", part[4])
		print part[1], part[2], part[3], part[4]
	}
' man/rmem-protocol.7 | sed 's/ $//' >"$tmp/answers of rmem-protocol.7"
compare requests "answers of rmem-protocol.7"
"$tmp/answers" kept | sort >"$tmp/requests with kept replies"
sed -n '/^The server keeps the replies/,/^if all sessions/s/^\.Cm \([a-z]*\).*/\1/p' \
	man/rmem-protocol.7 | sort >"$tmp/kept replies of rmem-protocol.7"
compare "requests with kept replies" "kept replies of rmem-protocol.7"

# An errno of what answers requests has a number of its own, or no client sees it.
cat >"$tmp/unseen" <<'UNSEEN'
EADDRINUSE a listener is opened
EADDRNOTAVAIL a listener, or a port of a device
EAFNOSUPPORT a listener is opened
EAGAIN the work goes on later
EBADMSG a ledger is read
ECONNABORTED a channel was ended meanwhile
EINTR a ledger is written
EKEYEXPIRED a certificate is loaded
ENETDOWN a port of a device is looked at
ENETUNREACH has the number of EHOSTUNREACH
EPROTONOSUPPORT a ledger is read
UNSEEN
cut -d' ' -f1 "$tmp/unseen" >"$tmp/errnos that no client sees"
"$tmp/codes" own | sort >"$tmp/numbered"
grep -rhoE --include='*.c' -- '-E[A-Z]{3,}\b' \
	src/rmemd/control src/rmemd/lease src/rmemd/pool/alloc.c \
	src/rmemd/state src/fabric/tcp/session*.c src/fabric/tcp/conn.c src/fabric/tcp/mr.c \
	src/fabric/verbs/server src/fabric/verbs/common | sed 's/^-//' | sort -u >"$tmp/errnos"
comm -23 "$tmp/errnos" "$tmp/numbered" >"$tmp/errnos without a number"
compare "errnos without a number" "errnos that no client sees"

# ---- the data connections ----

# fields FILE STRUCT: the members of a struct in the form of the page
fields()
{
	sed -nE "/^struct $2 \{/,/^\}/{
		s/^\t(uint8_t|uint16_t|uint32_t|uint64_t) ([a-z_]+)(\[[A-Z_]*)?.*/\2 \1\3/p
	}" "$1" |
		sed -e 's/uint8_t\[FABRIC_ORIGIN_BYTES$/raw 8/; s/uint8_t\[.*/raw 16/' \
			-e 's/uint/u/; s/_t$//'
}
if [ -f src/fabric/tcp/stream.h ]; then
{
	fields src/fabric/hello.c hello_wire
	fields src/fabric/verbs/common/qp.c limits_wire
	fields src/fabric/tcp/stream.h stream_status
	fields src/fabric/tcp/stream.h stream_request
	fields src/fabric/tcp/stream.h stream_response
	fields src/fabric/inband.h inband_request
	fields src/fabric/inband.h inband_operands
	fields src/fabric/inband.h inband_answer
} >"$tmp/hello.c, qp.c, stream.h, inband.h"
awk '
	/^\.Ss/ { on = /Hello|Limits|Status|Request|Response|In-band/ }
	on && /^\.It Fa/ { sub(/^\.It Fa /, ""); split($0, part, / Ta /); print part[1], part[2] }
' man/rmem-protocol.7 >"$tmp/data connections"
compare "hello.c, qp.c, stream.h, inband.h" "data connections"
fi

# ---- the configuration ----

cat >"$tmp/keys.c" <<'C'
#include <inttypes.h>
#include <stdio.h>
#include "rmemd/config/keys.h"
int main(int argc, char **argv)
{
	(void)argv;
	for (size_t i = 0; i < config_n_keys; i++) {
		const struct config_key *key = &config_keys[i];
		if (argc > 1) {
			if (key->type == CONFIG_TYPE_COUNT || key->type == CONFIG_TYPE_AUTO ||
			    key->type == CONFIG_TYPE_NODE)
				printf("%s.%s %" PRIu64 " to %" PRIu64 "\n", key->section,
				       key->name, key->min, key->max);
			continue;
		}
		printf("%s.%s %s; %s\n", key->section, key->name,
		       key->standard[0] ? key->standard : "empty",
		       key->reload ? "yes" : "no");
	}
	return 0;
}
C
"${cc[@]}" -std=gnu17 -D_GNU_SOURCE -DRUNSTATEDIR='"/run"' -Isrc -o "$tmp/keys" \
	"$tmp/keys.c" src/rmemd/config/keys.c
"$tmp/keys" >"$tmp/config keys"
# The page has for each key, in this order: type, default, whether a reload applies it.
awk '
	/^\.Ss/ { section = $2 }
	/^\.Sh/ { section = "" }
	key && value && /^changes on reload: / {
		sub(/[,.]$/, "", $4)
		print section "." key, value ";", $4
	}
	{ value = "" }
	key && ends && /^\.(Li|Em)/ { value = $0; gsub(/^\.(Li|Em) | ;$/, "", value) }
	begins && !/^Type:/ { key = "" }
	{ ends = /; default$/ || $0 == "default"; begins = 0 }
	section && /^\.It Cm/ { key = $3; begins = 1 }
' man/rmemd.conf.5 >"$tmp/rmemd.conf.5"
compare "config keys" rmemd.conf.5

# The range of a number is the one that the parser accepts; options of RDMA have their own parser.
"$tmp/keys" ranges >"$tmp/ranges"
awk '
	NR == FNR { known[$1] = 1; next }
	/^\.S[sh]/ { section = $2 }
	/^\.It Cm/ { key = section "." $3 }
	/^Type: number, [0-9]+ to [0-9]+/ && key in known {
		sub(/[;,]$/, "", $5)
		print key, $3, "to", $5
	}
' "$tmp/ranges" man/rmemd.conf.5 >"$tmp/ranges in rmemd.conf.5"
compare ranges "ranges in rmemd.conf.5"

# Every key is in the example file as a comment, with its default.
sed 's/; [a-z]*$//' "$tmp/config keys" >"$tmp/defaults"
awk '
	/^#?\[/ { gsub(/[][#]/, ""); section = $1 }
	/^#[a-z_]+ *=/ {
		key = $0; sub(/^#/, "", key); sub(/ *=.*/, "", key)
		value = $0; sub(/^[^=]*= */, "", value)
		print section "." key, value == "" ? "empty" : value
	}
' etc/rmemd.conf.in | sed 's,@runstatedir@,/run,' >"$tmp/rmemd.conf"
compare defaults rmemd.conf

# ---- reasons why connections and requests are refused ----

grep -oE '\[(REFUSAL|REQUEST)_[A-Z_]+\] = "[a-z_]+"' src/rmemd/control/refusal.c |
	sed 's/.* = "\(.*\)"/\1/' | sort >"$tmp/refusals of rmemd"
sed -n '/^\.Ss What is counted/,/^\.Sh/s/^\.It Li //p' man/rmemd.8 |
	sort >"$tmp/refusals in rmemd.8"
compare "refusals of rmemd" "refusals in rmemd.8"

# ---- metrics ----

cat >"$tmp/metrics.c" <<'C'
#include <stdio.h>
#include "rmemd/metrics/table.h"
int main(void)
{
	static const char *const types[] = { [METRIC_GAUGE] = "gauge",
					     [METRIC_COUNTER] = "counter",
					     [METRIC_HISTOGRAM] = "histogram" };
	for (size_t i = 0; i < metrics_n; i++)
		if (metrics[i].help)
			printf("%s %s: %s\n", metrics[i].name, types[metrics[i].type],
			       metrics[i].help);
	return 0;
}
C
"${cc[@]}" -std=gnu17 -D_GNU_SOURCE -DPACKAGE_VERSION='"0"' -Isrc -o "$tmp/metrics" \
	"$tmp/metrics.c" src/rmemd/metrics/table.c
"$tmp/metrics" >"$tmp/metrics of rmemd"
# The page has for each metric: name, type, labels, and the text.
awk '
	/^\.Sh/ { on = $2 == "METRICS" }
	on && /^\.(It|El)/ && text { print text; text = "" }
	on && /^\.It Li rmemd_/ { text = $3 " " $5 ":"; next }
	text { text = text " " $0 }
' man/rmemd.8 >"$tmp/metrics in rmemd.8"
compare "metrics of rmemd" "metrics in rmemd.8"

# ---- commands and options ----

# program NAME PROGRAM PAGE: the commands and long options in its usage are those of its page
program()
{
	local binary=$top_builddir/$2 name

	[ -x "$binary" ] || { echo "names: $1 is not built"; return; }
	"$binary" --help >"$tmp/help"
	sed -n '/^commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' "$tmp/help" | sort >"$tmp/commands"
	if [ -s "$tmp/commands" ]; then
		sed -nE 's/^\.It Cm ([a-z-]+).*/\1/p' "$3" | sort >"$tmp/commands in $3"
		cp "$tmp/commands" "$tmp/commands of $1"
		compare "commands of $1" "commands in $3"
	fi
	while read -r name; do # which have options of their own
		"$binary" "$name" --help >>"$tmp/help"
	done <"$tmp/commands"

	grep -E '^ {2,}-' "$tmp/help" | grep -oE -- '--[a-z][a-z-]+' | sort -u >"$tmp/options of $1"
	grep -E '^\.It Fl' "$3" | grep -oE -- 'Fl -[a-z-]+' | sed 's/^Fl -/--/' |
		sort -u >"$tmp/options in $3"
	compare "options of $1" "options in $3"
}
mkdir "$tmp/commands in man" "$tmp/options in man"
program rmem src/rmem/rmem man/rmem.1
program rmemctl src/rmemctl/rmemctl man/rmemctl.1
program rmemd src/rmemd/rmemd man/rmemd.8

echo "names: $compared lists compared, $bad differ"
[ "$bad" -eq 0 ]
