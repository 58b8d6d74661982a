#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rpmlint has no complaints about the spec, and rpm can parse it.  The files for containers can be
# parsed, and rmemd accepts the configuration in them.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"
top_builddir=${top_builddir:-$PWD/build}

for program in rpmlint rpmspec yq; do
	command -v "$program" >/dev/null || { echo "no $program here"; exit 77; }
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# ---- RPM ----

spec=$top_builddir/etc/rpm/rmem.spec
rpmspec --parse "$spec" >"$tmp/spec"
rpmlint --strict -r etc/rpm/rmem.rpmlintrc "$spec" >"$tmp/rpmlint" 2>&1 ||
	{ cat "$tmp/rpmlint"; echo "rpmlint has complaints"; exit 1; }

# ---- containers ----

# The last stage is the only one, and each instruction is one that exists.
grep -vE '^[[:blank:]]*(#|$)' etc/container/Containerfile |
	sed -e ':a' -e '/\\$/{N; s/\\\n//; ba' -e '}' >"$tmp/instructions"
while read -r instruction _; do
	case $instruction in
	FROM | COPY | RUN | USER | VOLUME | ENTRYPOINT) ;;
	*)
		echo "Containerfile: instruction $instruction"
		exit 1
		;;
	esac
done <"$tmp/instructions"
head -n 1 "$tmp/instructions" | grep -q '^FROM ' || { echo "Containerfile: no FROM"; exit 1; }

yq -r 'select(.kind == "ConfigMap") | .data["rmemd.conf"]' etc/container/rmemd.yaml \
	>"$tmp/rmemd.conf"
[ -s "$tmp/rmemd.conf" ] || { echo "rmemd.yaml has no rmemd.conf"; exit 1; }
# the secret of the cluster
printf 'tenant1:%064d\n' 1 >"$tmp/rmemd.psk"
chmod 600 "$tmp/rmemd.psk"
sed -i "s|^psk = .*|psk = $tmp/rmemd.psk|" "$tmp/rmemd.conf"
"$top_builddir/src/rmemd/rmemd" --config "$tmp/rmemd.conf" --check-config >/dev/null

# Volumes are mounted under the names that they have, and the pool fits the limit of huge pages.
# shellcheck disable=SC2016 # variables of yq
yq -e 'select(.kind == "DaemonSet") | .spec.template.spec as $pod |
	([$pod.volumes[].name] | sort) as $volumes |
	([$pod.containers[].volumeMounts[].name, $pod.initContainers[].volumeMounts[].name] |
		unique) == $volumes and
	.spec.selector.matchLabels == .spec.template.metadata.labels' etc/container/rmemd.yaml \
	>/dev/null ||
	{ echo "rmemd.yaml: volumes or labels that do not fit"; exit 1; }
pool=$(sed -n 's/^size = \([0-9]*\)G$/\1/p' "$tmp/rmemd.conf")
pages=$(yq -r 'select(.kind == "DaemonSet") |
	.spec.template.spec.containers[0].resources.limits["hugepages-2Mi"]' \
	etc/container/rmemd.yaml)
[ "${pages%Mi}" -eq $((pool * 1024 + 6)) ] ||
	{ echo "rmemd.yaml: $pages of huge pages for a pool of $pool GiB"; exit 1; }
echo "packaging: a spec of $(wc -l <"$tmp/spec") lines, $(wc -l <"$tmp/instructions") instructions"
