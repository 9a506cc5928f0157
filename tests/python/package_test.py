"""The package in this process. python3 package_test.py, with PYTHONPATH, runs the tests of package/."""

import ast
import collections
import pathlib
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent / "package"

# A second class, or a second test of a class, with the same name would hide the first one.
for path in FOLDER.glob("*_test.py"):
    module = ast.parse(path.read_text(encoding="utf-8"))
    for scope in [module, *(node for node in module.body if isinstance(node, ast.ClassDef))]:
        names = collections.Counter(node.name for node in scope.body if hasattr(node, "name"))
        twice = [name for name, count in names.items() if count > 1]
        assert not twice, f"{path}: {', '.join(twice)} is there twice"

unittest.main(module=None, argv=["package_test.py", "discover", "-p", "*_test.py", "-s", str(FOLDER)])
