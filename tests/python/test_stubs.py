# SPDX-License-Identifier: BSD-3-Clause
"""The types of the extension, which _rmem.pyi has, and that everything says what it does."""

import ast
import inspect
import os
import unittest

import rmem
from rmem import _rmem, aio

# those that only have to exist
SPECIAL = {"__await__", "__buffer__", "__enter__", "__exit__", "__len__"}


# members that awaitable ones do without
SYNC_ALONE = {rmem.Session: {"buffer", "notified_fileno", "queue", "register", "registers"},
              rmem.Lease: {"session"}}
# parameters that they do without
LESS = {("read_many", "bytes"), ("write_many", "bytes"), ("notified", "timeout_ms")}


def stub():
    """Functions of the file by name, and the members of its classes."""
    path = os.path.join(os.path.dirname(rmem.__file__), "_rmem.pyi")
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: {member.name: member for member in node.body
                           if isinstance(member, ast.FunctionDef)}
               for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"}
    return functions, classes


def public(kind):
    return {name for name in vars(kind) if not name.startswith("_")}


def parameters(node):
    names = [one.arg for one in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
    return [name for name in names if name != "self"]


class Stubs(unittest.TestCase):
    def test_names_are_those_of_the_extension(self):
        functions, classes = stub()
        kinds = {name for name, one in vars(_rmem).items() if isinstance(one, type)}
        self.assertEqual(set(classes), kinds)
        self.assertEqual(set(functions), {name for name, one in vars(_rmem).items()
                                          if inspect.isbuiltin(one)})
        for name, members in classes.items():
            kind = getattr(_rmem, name)
            self.assertEqual({one for one in members if not one.startswith("_")}, public(kind))
            for one in SPECIAL & set(members):
                self.assertTrue(hasattr(kind, one) or one == "__buffer__", (name, one))

    def test_parameters_are_those_of_the_extension(self):
        _, classes = stub()
        for name, members in classes.items():
            for member, node in members.items():
                function = getattr(getattr(_rmem, name), member, None)
                if member.startswith("_") or not inspect.ismethoddescriptor(function):
                    continue
                signature = inspect.signature(function)
                self.assertEqual([one for one in signature.parameters if one != "self"],
                                 parameters(node), (name, member))

    def test_all_is_documented(self):
        kinds = [one for one in vars(_rmem).values() if isinstance(one, type)]
        for kind in [*kinds, rmem.Cache, aio.Session, aio.Lease, aio.Cache]:
            for name in public(kind) - {"sync"}:
                self.assertTrue(getattr(kind, name).__doc__, (kind, name))
        for name in rmem.__all__:
            self.assertTrue(getattr(rmem, name).__doc__, name)

    def test_awaitable_ones_are_the_same(self):
        for sync, awaited in ((rmem.Session, aio.Session), (rmem.Lease, aio.Lease)):
            self.assertEqual(public(sync) - public(awaited), SYNC_ALONE[sync])
            for name in public(sync) & public(awaited):
                if isinstance(vars(awaited)[name], property):
                    continue
                want = [one for one in inspect.signature(getattr(sync, name)).parameters
                        if one != "self"]
                got = [one for one in inspect.signature(getattr(awaited, name)).parameters
                       if one != "self"]
                want = [one for one in want if (name, one) not in LESS]
                self.assertEqual(got, want, (awaited, name))
