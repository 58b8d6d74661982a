# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Downloads Debian packages without the system's apt state: with the machine's mirrors and keys, but
# with the rig's suites, lists and cache.  Nothing is installed.

readonly APT_RELEASE=bookworm

# apt_sources_deb822 SUITE SUITES FILE...: the stanza of deb822 files that lists SUITE, with SUITES
# in its place
apt_sources_deb822()
{
	awk -v want="$1" -v suites="$2" '
		BEGIN { RS = ""; FS = "\n" }
		{
			hit = enabled = types = 1; hit = 0; out = ""; keep = 0
			for (i = 1; i <= NF; i++) {
				if ($i ~ /^#/)
					continue
				if ($i !~ /^[ \t]/) {
					key = tolower($i); sub(/:.*/, "", key)
					val = $i; sub(/^[^:]*:[ \t]*/, "", val)
					keep = 0
					if (key == "suites")
						hit = (" " val " ") ~ ("[ \t]" want "[ \t]")
					else if (key == "types")
						types = (" " val " ") ~ /[ \t]deb[ \t]/
					else if (key == "enabled")
						enabled = tolower(val) != "no"
					else if (key != "components")
						keep = 1
				}
				if (keep)
					out = out $i "\n"
			}
			if (hit && enabled && types) {
				printf "Types: deb\nSuites: %s\nComponents: main\n%s\n", suites, out
				exit
			}
		}' "${@:3}"
}

# apt_sources_oneline SUITE SUITES FILE...: like apt_sources_deb822, for files with lines
# `deb [options] URI suite component...`
apt_sources_oneline()
{
	awk -v want="$1" -v suites="$2" '
		$1 == "deb" {
			line = $0; options = ""
			sub(/^[ \t]*deb[ \t]+/, "", line)
			if (match(line, /^\[[^]]*\]/)) {
				options = substr(line, 1, RLENGTH) " "
				line = substr(line, RLENGTH + 1)
			}
			split(line, word, " ")
			if (word[2] != want)
				next
			n = split(suites, suite, " ")
			for (i = 1; i <= n; i++)
				print "deb " options word[1] " " suite[i] " main"
			exit
		}' "${@:3}"
}

# apt_sources_copy SUITE SUITES: copy the system's source of SUITE to $APT/parts, as SUITES
apt_sources_copy()
{
	local files=() f
	for f in /etc/apt/sources.list.d/*.sources; do
		[ -r "$f" ] && files+=("$f")
	done
	if [ ${#files[@]} -gt 0 ]; then
		apt_sources_deb822 "$1" "$2" "${files[@]}" >"$APT/parts/$1.sources"
		[ -s "$APT/parts/$1.sources" ] && return
	fi
	rm -f "$APT/parts/$1.sources"

	files=()
	for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -r "$f" ] && files+=("$f")
	done
	[ ${#files[@]} -gt 0 ] || return 1
	apt_sources_oneline "$1" "$2" "${files[@]}" >"$APT/parts/$1.list"
	[ -s "$APT/parts/$1.list" ] && return
	rm -f "$APT/parts/$1.list"
	return 1
}

apt_configure()
{
	APT=$RIG_CACHE/apt
	rm -rf "$APT/parts"
	mkdir -p "$APT"/{parts,lists/partial,cache/archives/partial}
	: >"$APT/status"

	local here
	here=$(. /etc/os-release && printf %s "${VERSION_CODENAME-}")
	apt_sources_copy "$here" "$APT_RELEASE $APT_RELEASE-backports" ||
		unavailable "no Debian source for suite '$here' under /etc/apt"
	# Not every machine has the security archive; the main archive is enough.
	apt_sources_copy "$here-security" "$APT_RELEASE-security" || true

	cat >"$APT/apt.conf" <<-CONF
	Dir::Etc::SourceList "/dev/null";
	Dir::Etc::SourceParts "$APT/parts";
	Dir::State::Lists "$APT/lists";
	Dir::State::Status "$APT/status";
	Dir::Cache "$APT/cache";
	Acquire::Languages "none";
	APT::Sandbox::User "";
	APT::Get::List-Cleanup "false";
	#clear APT::Update::Pre-Invoke;
	#clear APT::Update::Post-Invoke;
	#clear APT::Update::Post-Invoke-Success;
	#clear DPkg::Post-Invoke;
	CONF
}

# Download the package lists, once for each process.
apt_update()
{
	[ -z "${APT-}" ] || return 0
	need apt-get apt dpkg-deb dpkg
	apt_configure
	say "reading the package lists"
	apt-get -c "$APT/apt.conf" -qq --error-on=any update >"$APT/update.log" 2>&1 || {
		tail -n 3 "$APT/update.log" >&2
		unavailable "the package lists can't be fetched"
	}
}

# apt_newest NAME-REGEX SUITE-REGEX: the matching package name of these suites that has the highest
# version
apt_newest()
{
	apt-cache -c "$APT/apt.conf" pkgnames linux- | grep -E "^$1\$" |
		xargs -r apt-cache -c "$APT/apt.conf" madison |
		awk -F' *[|] *' -v suite=" ($2)/" '$3 ~ suite { print $1 }' |
		sed 's/^ *//' | sort -uV | tail -n 1
}

# apt_download DIR PACKAGE[=VERSION]...: download the .deb files to DIR
apt_download()
{
	local dir=$1
	shift
	say "downloading $*"
	(cd "$dir" && apt-get -c "$APT/apt.conf" -qq download "$@" >"$APT/download.log" 2>&1) || {
		tail -n 3 "$APT/download.log" >&2
		unavailable "can't download $*"
	}
}
