"""Where the command and its libraries are: in the package itself (a wheel), or in the build tree around it."""

import os

_package = os.path.dirname(os.path.abspath(__file__))


def find(*parts):
    for home in (_package, os.path.dirname(os.path.dirname(_package))):
        path = os.path.join(home, *parts)
        if os.path.exists(path):
            return path
    raise FileNotFoundError(f"attnfuzz: {os.path.join(*parts)} is neither in the package nor beside it: build it, or "
                            "install the wheel")


def command():
    return find("bin", "attnfuzz")
