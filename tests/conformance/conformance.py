# SPDX-License-Identifier: BSD-3-Clause
"""Run the cases of some walks: conformance.py WALK...  walk.sh sets the environment."""

import atexit
import importlib
import json
import os
import re
import subprocess
import sys
import time

import case
from client import Server
from page import Page


class World:
    """What a case gets: the page, the daemon as seen by tenants, and its administrator."""

    def __init__(self):
        self.page = Page(os.path.join(os.environ["top_srcdir"], "man/rmem-protocol.7"))
        self.host = os.environ.get("LISTEN", "127.0.0.1")
        self.port = int(os.environ.get("PORT") or 0)
        self.folder = os.environ.get("FOLDER")
        self.daemon = None

    def tenant(self, name):
        return Server(self.page, self.host, self.port, name)

    @property
    def server(self):
        return self.tenant("default")

    def open(self, **values):
        return self.server.open(**values)

    def rmemctl(self, *words):
        """Let the administrator act; the answer, or None if it has no JSON."""
        socket = os.path.join(self.folder, "admin.sock")
        out = subprocess.run([os.environ["RMEMCTL"], "--socket", socket, "--json", *words],
                             check=True, stdout=subprocess.PIPE, timeout=60).stdout
        return json.loads(out) if out.strip() else None

    def configure(self, key, value):
        """Give a key of the configuration another value, and reload it."""
        path = os.path.join(self.folder, "rmemd.conf")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(f"(?m)^({key} =).*", rf"\1 {value}", text))
        self.rmemctl("reload")

    def start(self):
        """Start a daemon of this process, and wait until it listens."""
        with open(os.path.join(self.folder, "rmemd.log"), "ab") as log:
            self.daemon = subprocess.Popen([os.environ["RMEMD"], "--config",
                                            os.path.join(self.folder, "rmemd.conf")],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        atexit.register(self.daemon.kill)
        for _ in range(600):
            try:
                self.server.connect().close()
                return
            except ConnectionRefusedError:
                time.sleep(0.1)
        raise AssertionError("the daemon does not listen")

    def end(self, number=None):
        """Send the daemon of this process a signal, and return its exit status."""
        if number is not None:
            self.daemon.send_signal(number)
        return self.daemon.wait(60)


def main():
    walks = ["walk_" + name for name in sys.argv[1:]]
    for name in walks:
        importlib.import_module(name)
    cases = [function for name in walks for function in case.CASES if function.__module__ == name]
    return 0 if case.run(World(), cases) else 1


if __name__ == "__main__":
    sys.exit(main())
