"""ci_files.py ATTNFUZZ SOURCES: the files of docs/ci are YAML, and name options, presets and scripts that there are."""

import json
import os
import re
import subprocess
import sys

attnfuzz, sources = sys.argv[1:]
folder = os.path.join(sources, "docs", "ci")
text = {name: open(os.path.join(folder, name)).read() for name in ("action.yml", "workflow.yml", "Dockerfile", "README.md")}
try:
    import yaml
except ImportError:
    print("not tried: whether they are YAML (python3-yaml)")
else:
    action, workflow = (yaml.safe_load(text[name]) for name in ("action.yml", "workflow.yml"))
    given = workflow["jobs"]["check"]["steps"][1]["with"]
    required = {name for name, said in action["inputs"].items() if said.get("required")}
    assert required <= set(given) <= set(action["inputs"]), (required, given)
help_text = subprocess.run([attnfuzz, "check", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
for name in ("action.yml", "README.md"):
    for line in re.findall(r"attnfuzz check .*\n(?:        --.*\n)?", text[name]):
        for option in re.findall(r"--[a-z-]+", line):
            assert re.search(rf"{option}\b", help_text), f"{name}: attnfuzz check has no {option}"
presets = {preset["name"] for preset in json.load(open(os.path.join(sources, "CMakePresets.json")))["workflowPresets"]}
for name, words in text.items():
    for preset in re.findall(r"--workflow --preset (\S+)", words):
        assert preset in presets, f"{name}: there is no preset {preset}"
assert os.access(os.path.join(sources, "cmake", "install-packages.sh"), os.X_OK)
