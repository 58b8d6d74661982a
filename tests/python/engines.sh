#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ./dev soak engines: the doors behind the classes of the engines' releases of PyPI, on CPU tensors
# and without a model, and LMCache's own benchmark.
#
#   RMEM_ENGINES   the engines, "lmcache sglang vllm"
#
# The first run fetches some gigabytes into build/engines; an environment that is there is used as
# it is.  Remove it for newer releases.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

[[ $("$python" -V) =~ \ 3\.1[1-3]\. ]] || skip "the engines are for Python 3.11 to 3.13"
environment=$top_builddir/engines/venv
pip="$environment/bin/pip install -q --disable-pip-version-check"
export LMCACHE_TRACK_USAGE=false
engines=${RMEM_ENGINES:-lmcache}

# environment_make: torch, the engines as they are, and of what they import that which is small
environment_make()
{
	[ ! -e "$environment/complete" ] || return 0
	"$python" -m venv "$environment" &&
		$pip torch 'numpy<2.3' sortedcontainers numba msgspec pyzmq psutil \
			prometheus_client opentelemetry-api opentelemetry-sdk pyyaml blake3 \
			aiofile aiofiles httpx fastapi aiohttp py-cpuinfo nvtx safetensors \
			cachetools requests cryptography &&
		$pip --no-deps lmcache &&
		touch "$environment/complete"
}

# real ENGINE: the cases of real_ENGINE.py
real()
{
	URI=$uri PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$dir/package:$top_srcdir/tests/python \
		"$environment/bin/python" "$top_srcdir/tests/python/real_$1.py" ||
		fail "cases of $1 have failed"
}

# LMCache's own benchmark, which also verifies what it loads
lmcache_bench()
{
	PYTHONPATH=$dir/package "$environment/bin/lmcache" bench l2 --rounds 5 --data-size-kb 1024 \
		--no-skip-verify --lookup-max-hit-rate 0.5 --l2-adapter "{
			\"type\": \"native_plugin\", \"module_path\": \"rmem.engines.lmcache\",
			\"class_name\": \"Connector\",
			\"adapter_params\": {\"servers\": [\"$uri\"], \"name\": \"bench\",
				\"bytes\": \"600M\"}}" >"$dir/bench.out" 2>&1 ||
		fail "lmcache bench l2: $(tail -n 3 "$dir/bench.out")"
	grep -q 'All .* verified OK' "$dir/bench.out" || fail "lmcache bench l2 verified nothing"
	cat "$dir/bench.out"
}

environment_make >"$dir/pip.log" 2>&1 ||
	skip "no environment: $(tail -n 1 "$dir/pip.log")"
pool_size=1G
server_start
for engine in $engines; do
	real "$engine"
	[ "$engine" != lmcache ] || lmcache_bench
done
server_stop
