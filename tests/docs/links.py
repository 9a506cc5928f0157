"""links.py SOURCES: checks that each link of a tracked Markdown file leads to a file, and to a heading if it names one.

A document that any other tracked text file names, for instance docs/checks.md, must exist as well.
"""

import functools
import os
import re
import subprocess
import sys
import urllib.parse

SOURCES = os.path.realpath(sys.argv[1])


def tracked():
    listed = subprocess.run(["git", "-C", SOURCES, "ls-files", "-z"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if listed.returncode == 0:
        return [name for name in listed.stdout.decode().split("\0") if name]
    skipped = {"build", ".git"}  # a source archive
    return [os.path.relpath(os.path.join(folder, name), SOURCES) for folder, folders, names in os.walk(SOURCES)
            for name in names if not skipped & set(os.path.relpath(folder, SOURCES).split(os.sep))]


@functools.cache
def text_of(name):
    try:
        with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
            return file.read()
    except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
        return ""


def prose(text):
    """The text without its code blocks and code spans, which hold no links."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda span: "`" * len(span[0]) if "](" in span[0] else span[0], text)


@functools.cache
def anchors(name):
    """The anchors that GitHub makes of a file's headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", re.sub(r"^(```|~~~).*?^\1", "", text_of(name), flags=re.M | re.S), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        number = 0
        while slug + (f"-{number}" if number else "") in found:
            number += 1
        found.add(slug + (f"-{number}" if number else ""))
    return found


def bad_links(name):
    for target in re.findall(r"\]\(([^()\s]+)(?: \"[^\"]*\")?\)", prose(text_of(name))):
        if re.match(r"[a-z+]+:", target):
            continue
        path, _, anchor = urllib.parse.unquote(target).partition("#")
        where = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(os.path.join(SOURCES, where)):
            yield f"{name}: ({target}) is not there"
        elif anchor and where.endswith(".md") and anchor not in anchors(where):
            yield f"{name}: {where} has no heading for #{anchor}"


def bad_mentions(name):
    for mention in re.findall(r"(?<![\w/.-])docs/[\w./-]*\.(?:md|svg|json|py)\b", text_of(name)):
        if not os.path.exists(os.path.join(SOURCES, mention)):
            yield f"{name}: {mention} is not there"


def main():
    names = tracked()
    documents = [name for name in names if name.endswith(".md")]
    assert len(documents) > 20, f"{SOURCES} has {len(documents)} Markdown files: is it the source tree?"
    bad = [message for name in documents for message in bad_links(name)]
    bad += [message for name in names for message in bad_mentions(name)]
    for message in bad:
        print(message)
    print(f"{len(documents)} documents, {len(bad)} bad links")
    return 1 if bad else 0


sys.exit(main())
