"""A copy of some of the project's files beside a folder of stand-ins for the machine's programs, which say what real ones would."""
import os
import shutil
import stat
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("TANDEM_SOURCE", ".")).resolve()


class WithStandIns(unittest.TestCase):
    FILES = ()  # of the project, by path

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.tools = Path(folder.name) / "tandem", Path(folder.name) / "bin"
        self.tools.mkdir()
        for name in self.FILES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.root / name)

    def tool(self, name, script):
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
