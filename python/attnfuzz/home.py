"""Finds the command and its libraries: in the package (a wheel), or in the build tree around it."""

import os

_package = os.path.dirname(os.path.abspath(__file__))

worker_of = None  # in a process that runs targets (worker.py): the file of the targets


def find(*parts):
    """The path of a file of this build or installation."""
    for home in (_package, os.path.dirname(os.path.dirname(_package))):
        path = os.path.join(home, *parts)
        if os.path.exists(path):
            return path
    raise FileNotFoundError(f"attnfuzz: {os.path.join(*parts)} is missing in {_package} and in the build tree around it: "
                            "build attnfuzz, or install the wheel")


def command():
    """The path of the command attnfuzz."""
    return find("bin", "attnfuzz")


def version():
    """The version, "0.2.0", as CMake's project states it."""
    with open(find("share", "attnfuzz", "VERSION")) as f:
        return f.read().strip()
