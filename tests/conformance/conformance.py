# SPDX-License-Identifier: BSD-3-Clause
"""Run the cases of some walks: conformance.py WALK...  conformance.sh sets the environment."""

import importlib
import json
import os
import subprocess
import sys

import case
from client import Server
from page import Page


class World:
    """What a case gets: the page, the daemon as seen by tenants, and its administrator."""

    def __init__(self):
        self.page = Page(os.path.join(os.environ["top_srcdir"], "man/rmem-protocol.7"))
        self.host = os.environ.get("LISTEN", "127.0.0.1")
        self.port = int(os.environ.get("PORT") or 0)

    def tenant(self, name):
        return Server(self.page, self.host, self.port, name)

    @property
    def server(self):
        return self.tenant("default")

    def open(self, **values):
        return self.server.open(**values)

    def rmemctl(self, *words):
        """Let the administrator act; the answer, or None if it has no JSON."""
        out = subprocess.run([os.environ["RMEMCTL"], "--socket", os.environ["ADMIN"], "--json", *words],
                             check=True, stdout=subprocess.PIPE, timeout=60).stdout
        return json.loads(out) if out.strip() else None


def main():
    for name in sys.argv[1:]:
        importlib.import_module("walk_" + name)
    return 0 if case.run(World()) else 1


if __name__ == "__main__":
    sys.exit(main())
