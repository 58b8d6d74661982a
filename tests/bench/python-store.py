# SPDX-License-Identifier: BSD-3-Clause
"""python-store.py MASTER-PORT BYTES: lend that much memory to a Mooncake Store, until killed."""

import signal
import sys

from mooncake.store import MooncakeDistributedStore

store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", int(sys.argv[2]), 16 << 20, "tcp", "",
                   f"127.0.0.1:{sys.argv[1]}") == 0
print("ready", flush=True)
signal.pause()
