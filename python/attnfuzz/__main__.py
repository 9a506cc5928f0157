"""python -m attnfuzz ...: the command, with this interpreter for targets in Python."""

import os
import sys

from attnfuzz.home import command


def main():
    os.environ["ATTNFUZZ_PYTHON"] = sys.executable
    path = command()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
