#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A library that loads those of RDMA (configure --with-rdma=dlopen) on a host that does not have
# them, has a broken one, or one that is too old: it says what to install, and uses TCP.
export FABRIC=auto
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

# told WHY: what the client says, when RDMA is asked for and when it is not
told()
{
	client put a "$dir/in"
	client get a "$dir/out"
	same "$dir/in" "$dir/out"
	client --verbose ls >"$dir/out" 2>&1
	grep -q "; no RDMA: $1" "$dir/out" || fail "the client does not say it: $(cat "$dir/out")"
	"$RMEM" doctor "rmem://$LISTEN:$port?fabric=rdma" >"$dir/out" && fail "nothing is wrong"
	grep -q "^error  *rdma-libraries  *RDMA needs " "$dir/out" ||
		fail "rmem doctor: $(cat "$dir/out")"
	expect_error 1 "RDMA cannot be used: $1\$" "$RMEM" -s "rmem://$LISTEN:$port?fabric=rdma" ls
}

server_start
make_file "$dir/in" 3000000
mkdir "$dir/libraries"
install='install the Debian package'
export LD_LIBRARY_PATH=$dir/libraries:$LD_LIBRARY_PATH
for library in libibverbs librdmacm; do
	: >"$dir/libraries/$library.so.1"
	told "RDMA needs $library.so.1, which cannot be loaded (.*): $install ${library}1"
	rm "$dir/libraries/$library.so.1"
done
ok "no library"

echo 'void rdma_connect(void) {}' >"$dir/old.c"
cc -shared -o "$dir/libraries/librdmacm.so.1" "$dir/old.c"
why="RDMA needs rdma_ack_cm_event of RDMACM_1.0, which this host's rdma-core does not have"
told "$why: install a newer one"
ok "an old library"
