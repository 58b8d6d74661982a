# SPDX-License-Identifier: BSD-3-Clause
"""The configurations and commands in the pages of the doors."""

import importlib
import json
import os
import re
import subprocess

from door_case import DoorCase
from stage import URI
from test_door_sglang import config as sglang_config
from test_door_vllm import tier_of

RMEM = os.environ["RMEM"]
FOLDER = os.path.join(os.environ["top_srcdir"], "src/python/rmem/engines")
# of three servers two are away, which must not matter
HOSTS = {"mem1": URI, "mem2": "rmem://127.0.0.1:1", "mem3": "rmem://127.0.0.1:2"}


def page(name):
    """The text of a page, for servers of the test."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return re.sub(r"rmem://(mem\d)\.example", lambda host: HOSTS[host[1]], file.read())


def configurations(name):
    """All JSON of a page."""
    text = page(name)
    quoted = re.findall(r"'(\{.*?\})'", "".join(re.findall(r"```sh\n(.*?)```", text, re.S)), re.S)
    found = [json.loads(one) for one in quoted + re.findall(r"```json\n(.*?)```", text, re.S)]
    assert len(found) == 2, found
    return found


def load(config, name):
    return getattr(importlib.import_module(config["module_path"]), name)


def run_tool(name):
    """Run what a page has the user type of the command rmem, while there is a cache."""
    commands = re.findall(r"^ *(rmem -s .*)$|`(rmem -s [^`]*)`", page(name), re.M)
    assert len(commands) == 2, commands
    for command in commands:
        arguments = "".join(command).split()[1:]
        subprocess.run([RMEM, *arguments], stdout=subprocess.DEVNULL, check=True)


def servers_of(door):
    return door._door.cache.stat()["servers"]


class Pages(DoorCase):
    def test_lmcache(self):
        for config in configurations("lmcache.md"):
            self.assertEqual(config["type"], "native_plugin")
            settings = {**config["adapter_params"], "bytes": "8M"}
            client = load(config, config["class_name"])(**settings)
            self.assertEqual(servers_of(client), len(settings["servers"]))
            client.close()
        run_tool("lmcache.md")

    def test_sglang(self):
        for config in configurations("sglang.md"):
            config["rmem"]["bytes"] = "8M"
            storage = load(config, config["class_name"])(sglang_config(extra_config=config), {})
            self.assertEqual(servers_of(storage), len(config["rmem"]["servers"]))
            storage.close()
        run_tool("sglang.md")

    def test_vllm(self):
        for config in configurations("vllm.md"):
            if "kv_connector" in config:
                config, = config["kv_connector_extra_config"]["secondary_tiers"]
            made = load(config, config["type"])
            tier = tier_of(**{**config, "bytes": "8M"}, made=made)
            self.assertEqual(servers_of(tier), len(config["servers"]))
            tier.shutdown()
        run_tool("vllm.md")
