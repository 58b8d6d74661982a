# shellcheck shell=bash disable=SC2015
# SPDX-License-Identifier: BSD-3-Clause
# The client of two machines; see transfer-server.sh.
export RMEM_SERVER="rmem://10.8.0.1?fabric=rdma"
keys_take
rig-await up
head -c 4096 lib.tar >page
rig-mark page
rmem put page && rmem get page - | cmp - page || fail "one page"
rig-mark begin
rmem -v put lib.tar /share/file || fail "put"
sum=$(rmem get lib.tar - | sha256sum | cut -d' ' -f1)
rig-mark end
[ "$sum" = "$(cat /share/sum)" ] || fail "SHA-256 differs: $sum"
echo "$RMEM_MIB MiB over RDMA and back: SHA-256 $sum"
rmem ls
rmem rm lib.tar || fail "rm"

coproc CLIENT { "$BUILD/tests/rig/attached" "$RMEM_SERVER" $((16 << 20)); }
read -r line <&"${CLIENT[0]}" && [ "$line" = ready ] || fail "attached: $line"
rig-mark attached
rig-await stopped
echo >&"${CLIENT[1]}"
read -r line <&"${CLIENT[0]}" && [ "$line" = transferred ] || fail "transfer: $line"
rig-mark transferred
rig-await running
echo >&"${CLIENT[1]}"
wait "$CLIENT_PID" || fail "attached ended with $?"
echo "16 MiB written, read back and compared while rmemd was stopped"
rig-mark finished
