"""The names that the package offers, and views of tensors."""

import inspect
import subprocess
import unittest

import numpy as np

import attnfuzz
from attnfuzz import home
from attnfuzz.tensor import Tensor, numpy_view, to_bits_of_bf16


class Package(unittest.TestCase):
    def test_its_version_is_the_commands(self):
        said = subprocess.run([home.command(), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(said.strip(), f"attnfuzz {attnfuzz.__version__}")
        with self.assertRaisesRegex(AttributeError, "no_such_name"):
            attnfuzz.no_such_name

    def test_help_says_something_of_every_public_name(self):
        for name in attnfuzz.__all__:
            said = inspect.getdoc(getattr(attnfuzz, name)) or ""
            # A dataclass without a docstring has its signature there.
            self.assertTrue(len(said) > 40 and not said.startswith(f"{name}("), f"{name}: {said!r}")

    def test_formats_have_their_other_names(self):
        self.assertEqual(attnfuzz.Domain(dtypes=("fp16", "fp32")), attnfuzz.Domain(dtypes=("f16", "f32")))
        self.assertEqual(attnfuzz.Domain(dtypes="fp32").words(), "f32")
        self.assertEqual(attnfuzz.Errors(p="f32").words(), attnfuzz.Errors(p="fp32").words())

    def test_as_float32_is_exact(self):
        values = np.array([1.0, -2.5, 3.140625], np.float32)
        for array in (values, values.astype(np.float16), to_bits_of_bf16(values)):
            self.assertEqual(attnfuzz.as_float32(array).tolist(), values.tolist())


class Views(unittest.TestCase):
    def test_strides_are_as_given(self):
        a = np.arange(64, dtype=np.float16)
        t = Tensor(a.ctypes.data, (2, 1, 3, 4), (16, 1 << 60, 0, 2), "f16")
        view = numpy_view(t)
        self.assertEqual(view.strides[2], 0)
        self.assertEqual(view[1, 0, 2].tolist(), [16, 18, 20, 22])
        view[1, 0, 0, 0] = 5
        self.assertEqual(a[16], 5)

    def test_without_negative_strides_it_is_the_other_way_round(self):
        a = np.arange(24, dtype=np.float32)
        t = Tensor(a[11:].ctypes.data, (2, 3, 2), (12, -4, -1), "f32")
        self.assertEqual((t.forwards().strides, t.backwards()), ((12, 4, 1), [1, 2]))
        self.assertEqual(np.flip(numpy_view(t.forwards()), t.backwards()).tolist(), numpy_view(t).tolist())
        self.assertEqual(numpy_view(t)[1, 2, 1], a[11 + 12 - 8 - 1])
        self.assertEqual(t.forwards().backwards(), [])

    def test_rounding_to_bf16_is_to_nearest_even(self):
        values = np.array([1.0, 1.00390625, 1.01171875, np.inf, -0.0, 3.4e38], np.float32)
        self.assertEqual([hex(b) for b in to_bits_of_bf16(values)],
                         ["0x3f80", "0x3f80", "0x3f82", "0x7f80", "0x8000", "0x7f80"])
        self.assertTrue(to_bits_of_bf16(np.array([np.nan], np.float32))[0] & 0x7FFF > 0x7F80)
