"""Libraries as targets, one file each. A check names file and function:

    python -m attnfuzz check "$(python -m attnfuzz.targets torch_sdpa)":flash --for 60s
"""

import os


def path(name):
    """The file of a target's module: path("torch_sdpa")."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    if not os.path.exists(file):
        there = sorted(f[:-3] for f in os.listdir(os.path.dirname(file)) if f.endswith(".py") and f[0] != "_")
        raise FileNotFoundError(f"there is no target {name!r}; there are: {', '.join(there)}")
    return file
