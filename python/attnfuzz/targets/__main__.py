import sys

from attnfuzz.targets import path

try:
    print(path(sys.argv[1] if len(sys.argv) > 1 else ""))
except FileNotFoundError as e:
    sys.exit(str(e))
