"""options.py ATTNFUZZ SOURCES: checks that documents name only subcommands and options that the command's --help shows.

It reads commands in blocks and in `code`, and `--option` by itself. It skips pages of figures, which keep the commands
that they were measured with.
"""

import functools
import os
import re
import subprocess
import sys

ATTNFUZZ, SOURCES = sys.argv[1:]
PYTEST = "--attnfuzz-"
LEFT_OUT = ("docs/results/", "docs/found/", "CHANGELOG.md", "tests/")


@functools.cache
def help_of(*subcommand):
    return subprocess.run([ATTNFUZZ, *subcommand, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout


def commands(text):
    """(subcommand, its arguments) of each command in the text."""
    text = text.replace("\\\n", " ")
    for line in text.splitlines():
        spans = re.findall(r"`([^`]*)`", line) if "`" in line else [line]
        for span in spans:
            for match in re.finditer(r"(?:^|[\s/])attnfuzz ([a-z]+(?:-[a-z]+)*)\b((?:(?! attnfuzz ).)*)", span):
                yield match[1], match[2]


def options(text):
    return re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.sub(r"'[^']*'|\"[^\"]*\"", "", text))


def shows(text, option):
    return re.search(rf"(?<![\w-]){option}(?![\w-])", text)


def main():
    listed = subprocess.run(["git", "-C", SOURCES, "ls-files", "*.md"], stdout=subprocess.PIPE, text=True, check=False).stdout
    names = [name for name in listed.split() if not name.startswith(LEFT_OUT)]
    if not names:
        print("skipped: the source tree is no git checkout")
        return 77
    known = set(re.findall(r"^  ([a-z-]+) {2,}", help_of().split("Subcommands:")[1], re.M))
    seen, bad = 0, []
    for name in names:
        with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
            text = file.read()
        for subcommand, rest in commands(text):
            if subcommand not in known:
                continue  # prose: "attnfuzz writes two files"
            seen += 1
            bad += [f"{name}: attnfuzz {subcommand} shows no {option}" for option in options(rest)
                    if not shows(help_of(subcommand), option)]
        for span in re.findall(r"`(--[^`\n]*)`", text):
            bad += [f"{name}: no subcommand shows {option}" for option in options(span)
                    if not option.startswith(PYTEST) and not any(shows(help_of(each), option) for each in known)]
    assert seen > 30, f"only {seen} commands found"
    for message in bad:
        print(message)
    print(f"{seen} commands in {len(names)} documents, {len(bad)} bad")
    return 1 if bad else 0


sys.exit(main())
