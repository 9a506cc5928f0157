"""Makes a wheel of an installed attnfuzz: a zip with metadata that pip takes.

    cmake --install build/cpu --component package --prefix STAGE
    python3 make_wheel.py STAGE build/cpu/wheel

The installation becomes the wheel's folder attnfuzz/, with the Python files of python/attnfuzz/. Debug information is left
out. The version comes from share/attnfuzz/VERSION; the tag is the newest C library that a binary needs. Making a wheel
needs no network. Installing it needs no compiler, and NumPy as the only other package.
"""

import argparse
import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ENTRY_POINTS = """[console_scripts]
attnfuzz = attnfuzz.__main__:main

[pytest11]
attnfuzz = attnfuzz.pytest_plugin
"""

METADATA = """Metadata-Version: 2.1
Name: attnfuzz
Version: {version}
Summary: Property-based and differential fuzz testing of attention kernels
License: Apache-2.0
License-File: LICENSE
Keywords: attention,cuda,fuzzing,property-based testing,triton
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Framework :: Pytest
Classifier: Intended Audience :: Developers
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Testing
Requires-Python: >=3.9
Requires-Dist: numpy
Requires-Dist: cmake>=3.25; extra == "entry"
Requires-Dist: ninja; extra == "entry"
Provides-Extra: entry
Description-Content-Type: text/markdown

attnfuzz finds, shrinks and replays failures of attention kernels: in CUDA, in C++ and in Python (NumPy, PyTorch, Triton, JAX).

    pip install attnfuzz
    attnfuzz check ./mine.py:attention                                    # a function with @attnfuzz.target
    pip install 'attnfuzz[entry]'                                         # with CMake and Ninja; clang 15 or g++ 12 is yours
    attnfuzz check mine.cu --entry 'launch(q, k, v, o, B, H, S, D)'       # a CUDA source, run on the CPU

In Python `help(attnfuzz)` says more.
"""


def stripped(path):
    """The bytes of a file; for a binary, without debug information."""
    with open(path, "rb") as f:
        data = f.read()
    tool = next((t for t in ("llvm-strip-19", "llvm-strip", "strip") if shutil.which(t)), None)
    if not data.startswith(b"\x7fELF") or not tool:
        return data
    with tempfile.NamedTemporaryFile() as copy:
        if subprocess.run([tool, "--strip-debug", "-o", copy.name, path]).returncode != 0:
            return data
        with open(copy.name, "rb") as f:
            return f.read()


def glibc_of(binary):
    """The newest version of the C library that a binary's bytes name, as a pair of numbers."""
    versions = re.findall(rb"GLIBC_(\d+)\.(\d+)(?=\0|\.)", binary) if binary.startswith(b"\x7fELF") else []
    return max(((int(a), int(b)) for a, b in versions), default=(2, 17))


def contents(stage):
    """(name in the wheel, bytes, executable) of each file of an installation"""
    for folder, folders, files in os.walk(stage):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, stage)
            inside = relative[len("python/"):] if relative.startswith("python/attnfuzz/") else "attnfuzz/" + relative
            yield inside, stripped(path), os.access(path, os.X_OK)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("stage", help="folder that cmake --install has filled")
    parser.add_argument("to", help="folder for the wheel")
    arguments = parser.parse_args()
    files = list(contents(arguments.stage))
    by_name = {name: data for name, data, _ in files}
    version = by_name["attnfuzz/share/attnfuzz/VERSION"].decode().strip()
    glibc = max(glibc_of(data) for _, data, _ in files)
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{platform.machine()}"
    info = f"attnfuzz-{version}.dist-info"
    files += [
        (f"{info}/METADATA", METADATA.format(version=version).encode(), False),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: attnfuzz\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
         False),
        (f"{info}/entry_points.txt", ENTRY_POINTS.encode(), False),
        (f"{info}/LICENSE", by_name["attnfuzz/share/doc/attnfuzz/LICENSE"], False),
    ]
    os.makedirs(arguments.to, exist_ok=True)
    path = os.path.join(arguments.to, f"attnfuzz-{version}-{tag}.whl")
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data, executable in files:
            entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            wheel.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD", date_time=(2020, 1, 1, 0, 0, 0)),
                       "".join(record) + f"{info}/RECORD,,\n")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
