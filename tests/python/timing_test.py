"""timing_test.py SOURCES: tests the arithmetic of fuzz/bench/timing.py, without torch and without kernels."""

import math
import sys
import unittest
from unittest import mock

SOURCES = sys.argv.pop()
sys.path.insert(0, f"{SOURCES}/fuzz/bench")
with mock.patch.dict(sys.modules, {"torch": mock.MagicMock(), "attention": mock.MagicMock()}):
    import timing


class Larger(unittest.TestCase):
    def test_keeps_a_nan_in_both_orders(self):
        self.assertTrue(math.isnan(timing.larger(math.nan, 1.0)))
        self.assertTrue(math.isnan(timing.larger(1.0, math.nan)))
        self.assertEqual(timing.larger(1.0, 2.0), 2.0)
        self.assertEqual(timing.larger(2.0, 1.0), 2.0)


if __name__ == "__main__":
    unittest.main()
