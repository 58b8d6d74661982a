# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Data channels over TCP under TLS in the kernel.
: "${top_srcdir:?}"

# kernel_tls NAME: a counter of the kernel's TLS
kernel_tls()
{
	awk -v name="$1" '$1 == name { print $2 }' /proc/net/tls_stat
}

modprobe tls || fail "this kernel has no TLS"
FABRIC=tcp LISTEN=127.0.0.1 RMEM_TLS_KERNEL=1 bash "$top_srcdir/tests/integration/channel-tls.sh" ||
	fail "channel-tls: $?"
sent=$(kernel_tls TlsTxSw) received=$(kernel_tls TlsRxSw)
echo "TLS in the kernel: $sent connections send, $received receive"
if [ "$sent" -le 20 ] || [ "$received" -le 20 ]; then
	fail "the kernel does not do TLS"
fi
[ "$(kernel_tls TlsDecryptError)" -le 2 ] || fail "the kernel could not decrypt"
