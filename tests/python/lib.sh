# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Functions of the tests of the Python package, which is run from the build tree, or is installed
# for the program RMEM_PYTHON.
# shellcheck source-path=SCRIPTDIR/../integration
. "$(dirname "$0")/../integration/lib.sh"

python=${RMEM_PYTHON:-$(sed -n 's/^PYTHON = //p' "$top_builddir/Makefile")}
need "$python"

# the package as it is installed: Python's files and the extension in one folder
[ -n "${RMEM_PYTHON:-}" ] || {
	mkdir -p "$dir/package/rmem"
	ln -s "$top_srcdir"/src/python/rmem/* \
		"$top_builddir/src/python/rmem/.libs/_rmem.abi3.so" "$dir/package/rmem"
}

# cases NAME...: the cases of test_NAME.py, against the server
cases()
{
	local name
	export top_srcdir
	for name; do
		URI=${uri:-} PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error \
			PYTHONPATH=$dir/package:$top_srcdir/tests/python \
			"$python" -m unittest "test_$name" || fail "cases of $name have failed"
	done
}
