# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the benchmarks beside memcached.

# Print the path of memcached.  It is unpacked instead of installed: the package starts a service.
memcached_unpack()
{
	local dir=${top_builddir:?}/memcached

	! command -v memcached || return 0
	if [ ! -x "$dir/usr/bin/memcached" ]; then
		mkdir -p "$dir"
		(cd "$dir" && apt-get -q download memcached && dpkg -x memcached_*.deb .) >&2 ||
			true
	fi
	echo "$dir/usr/bin/memcached"
}
