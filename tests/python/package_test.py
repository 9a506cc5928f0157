"""The package in this process. python3 package_test.py, with PYTHONPATH, runs the tests of package/."""

import os
import unittest

unittest.main(module=None, argv=["package_test.py", "discover", "-p", "*_test.py", "-s",
                                 os.path.join(os.path.dirname(os.path.abspath(__file__)), "package")])
