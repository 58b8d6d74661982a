# SPDX-License-Identifier: BSD-3-Clause
"""The examples of the documents."""

import os
import re
import textwrap
import unittest

import rmem
from stage import URI

SERVER = re.compile(r"rmem://(mem1\.example|server)")


def run(text):
    exec(compile(SERVER.sub(URI, text), "example", "exec"), {"__name__": "example"})


class Documents(unittest.TestCase):
    def test_page(self):
        path = os.path.join(os.environ["top_srcdir"], "src/python/README.md")
        with open(path, encoding="utf-8") as file:
            examples = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertGreater(len(examples), 4)
        for example in examples:
            with self.subTest(example=example):
                run(example)

    def test_help_of_the_package(self):
        example = re.search(r"\n((?:    .*\n|\n)+)", rmem.__doc__).group(1)
        self.assertIn("read_into", example)
        run(textwrap.dedent(example))
