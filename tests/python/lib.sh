# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Functions of the tests of the Python package, which is run from the build tree, by the program
# PYTHON or that of configure, or is installed for the program RMEM_PYTHON.
# shellcheck source-path=SCRIPTDIR/../integration
. "$(dirname "$0")/../integration/lib.sh"

python=${RMEM_PYTHON:-${PYTHON:-$(sed -n 's/^PYTHON = //p' "$top_builddir/Makefile")}}
need "$python"

# the package as it is installed: Python's files and the extension in one folder
[ -n "${RMEM_PYTHON:-}" ] || {
	mkdir -p "$dir/package/rmem"
	ln -s "$top_srcdir"/src/python/rmem/* \
		"$top_builddir/src/python/rmem/.libs/_rmem.abi3.so" "$dir/package/rmem"
}

# The runtimes of the sanitizers that the extension is built with.
runtimes()
{
	local cc

	cc=$(sed -n 's/^CC = //p' "$top_builddir/Makefile")
	case $cc in
	*clang*) $cc -print-file-name="libclang_rt.ubsan_standalone-$(uname -m).so" ;;
	*)
		ldd "$top_builddir/src/python/rmem/.libs/_rmem.abi3.so" |
			sed -n 's|.*=> \(/.*/lib[a-z]*san\.so[^ ]*\).*|\1|p'
		;;
	esac | sort
}

# The interpreter is built without sanitizers: it loads the runtimes first, and takes all memory of
# malloc(), so that they see its objects.  They do not look for leaks: each stack begins in the
# interpreter, which leaves much to the end of the process, so that no suppression would tell ours
# apart; test_leaks.py counts.
as_python=(env)
if sanitized; then
	as_python=(env LD_PRELOAD="$(runtimes | paste -sd:)" PYTHONMALLOC=malloc
		ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0")
fi

# cases NAME...: the cases of test_NAME.py, against the server.  Python 3.12 ends with 5 where all
# were skipped.
cases()
{
	local name status
	export top_srcdir
	for name; do
		status=0
		URI=${uri:-} SERVER_PID=${server_pid:-} \
			PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error \
			PYTHONPATH=$dir/package:$top_srcdir/tests/python \
			"${as_python[@]}" "$python" -m unittest "test_$name" || status=$?
		[ "$status" -eq 0 ] || [ "$status" -eq 5 ] ||
			fail "cases of $name have failed"
	done
}
