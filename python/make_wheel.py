"""Puts the package and the binaries of a build into a wheel: a zip with three files of metadata.

    python3 make_wheel.py --version 0.1.0 --package python/attnfuzz --to build/cpu/wheel BINARY...

Programs go to attnfuzz/bin, libraries to attnfuzz/lib; debug information stays behind. The wheel needs nothing:
no network to build it, no compiler and no other package to install it.
"""

import argparse
import base64
import hashlib
import os
import platform
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


def stripped(path):
    """The bytes of a binary without debug information."""
    tool = next((t for t in ("llvm-strip-19", "llvm-strip", "strip") if shutil.which(t)), None)
    with tempfile.NamedTemporaryFile() as copy:
        if tool and subprocess.run([tool, "--strip-debug", "-o", copy.name, path]).returncode == 0:
            path = copy.name
        with open(path, "rb") as f:
            return f.read()


def contents(package, binaries):
    """(name in the wheel, bytes, executable)"""
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(files):
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                yield "attnfuzz/" + os.path.relpath(path, package), f.read(), False
    for path in binaries:
        name = os.path.basename(path)
        where = "lib" if name.endswith(".so") else "bin"
        yield f"attnfuzz/{where}/{name}", stripped(path), where == "bin"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--package", required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("binaries", nargs="+")
    arguments = parser.parse_args()
    # Of this machine's C library: an older one may lack symbols.
    glibc = platform.libc_ver()[1].replace(".", "_")
    tag = f"py3-none-manylinux_{glibc}_{platform.machine()}"
    info = f"attnfuzz-{arguments.version}.dist-info"
    files = list(contents(arguments.package, arguments.binaries))
    files += [
        (f"{info}/METADATA", f"Metadata-Version: 2.1\nName: attnfuzz\nVersion: {arguments.version}\n"
                             "Summary: Property-based and differential fuzz testing of attention kernels\n"
                             "License: Apache-2.0\nRequires-Python: >=3.9\n".encode(), False),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: attnfuzz\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
         False),
        (f"{info}/entry_points.txt", ENTRY_POINTS.encode(), False),
    ]
    os.makedirs(arguments.to, exist_ok=True)
    path = os.path.join(arguments.to, f"attnfuzz-{arguments.version}-{tag}.whl")
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
