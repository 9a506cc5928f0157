#!/usr/bin/env python3
"""Checks the length of functions: none has more than 80 lines, from the line of its name to its closing brace.

    tests/function_length.py               lists the functions that are too long
    tests/function_length.py --over N      lists every function of more than N lines

The test reads the C++, CUDA and Python files of the product and of its tests. LONGER names the functions that are
still too long, each with its own limit. An entry that is no longer needed is a fault as well, so that the list
only shrinks. Exit status 1: there is a fault.
"""
import argparse
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOP = ("base", "kernels", "reference", "properties", "fuzz", "cli", "python", "cmake", "examples", "tests")
LIMIT = 80

# The lines that a function may have.
LONGER = {
    "long_double_row": 269,
    "fa_kernel": 105,
    "attention_forward": 89,
    "main": 87,
    "wmma_attention": 81,
}

WORDS = re.compile(
    r'//[^\n]*|/\*.*?\*/'                                   # comments
    r'|R"(?P<fence>[^()\\ ]*)\(.*?\)(?P=fence)"'            # raw strings
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])*\''
    r'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', re.S | re.M)         # the preprocessor's lines
MARK, PARENTHESIS = re.compile("[;}:({]"), re.compile("[()]")
CONTROL = re.compile(r'(if|for|while|switch|catch|else|do|try|return)\b')


def bare(text):
    """The text without comments, strings and the preprocessor's lines; lines keep their numbers."""
    return WORDS.sub(lambda m: re.sub(r'[^\n]+', ' ', m[0]) if m[0][0] in '/#' or m[0].lstrip()[:1] == '#'
                     else '""' + '\n' * m[0].count('\n'), text)


def matching(text, at, pair=re.compile("[{}]")):
    """The index of the brace, or of the other character of `pair`, that closes the one at `at`."""
    depth = 0
    for found in pair.finditer(text, at):
        depth += 1 if found[0] == text[at] else -1
        if depth == 0:
            return found.start()
    return len(text) - 1


def name_in(head):
    """(name, its index) of the function that a declaration up to its opening brace declares, or None."""
    plain = re.sub(r'\[\[.*?\]\]', lambda m: ' ' * len(m[0]), head, flags=re.S)
    if re.search(r'(^|[^=!<>])=\s*$', plain) or plain.count('(') != plain.count(')'):
        return None
    for found in re.finditer(r'(operator\s*(?:\(\s*\)|[^\s\w(]+|\w+)|~?\w+)\s*\(', plain):
        if not re.match(r'(__launch_bounds__|alignas|decltype|requires|noexcept|__attribute__|explicit|asm)\b', found[1]):
            if found[1].startswith('TEST'):  # GoogleTest's macros: the suite and the test are the name
                return ".".join(re.findall(r'\w+', plain[found.end():])), found.start(1)
            return found[1], found.start(1)
    return None


def cpp_functions(text):
    """(name, first line, last line) of each function; what is inside of one counts as its own."""
    text = bare(text)
    start = at = 0  # of a declaration, and where the reader is
    while found := MARK.search(text, at):
        at, c = found.start(), found[0]
        if c in ';}' or (c == ':' and re.search(r'\b(public|private|protected)\s*$', text[start:at])):
            start = at + 1
        elif c == '(':
            at = matching(text, at, PARENTHESIS)
        elif c == '{':
            head = text[start:at]
            end = matching(text, at)
            in_list = re.search(r'\)\s*(noexcept\s*)?:[^:]', head) and re.search(r'[\w>]\s*$', head)
            if re.search(r'(^|\s)(namespace|extern "")\b[^()]*$|extern\s+""\s*$', head) or (
                    re.search(r'\b(class|struct|union)\b', re.sub(r'<[^;]*?>', '', head)) and not name_in(head)):
                start = at + 1  # its members are read
            elif in_list or not (name := name_in(head)):
                at = end  # an initialiser
            else:
                yield name[0], text.count('\n', 0, start + name[1]) + 1, text.count('\n', 0, end) + 1
                at, start = end, end + 1
        at += 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def functions():
    """(file, name, first line, number of lines) of each function."""
    for path in sorted(path for top in TOP for path in (ROOT / top).rglob("*.*")):
        if path.suffix in (".h", ".cc", ".cu", ".cuh", ".py"):
            of = python_functions if path.suffix == ".py" else cpp_functions
            for name, first, last in of(path.read_text()):
                yield path.relative_to(ROOT), name, first, last - first + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--over", type=int, metavar="N", help="list every function of more than N lines")
    over = parser.parse_args().over
    found = list(functions())
    if over is not None:
        for path, name, line, lines in sorted(found, key=lambda f: -f[3]):
            if lines > over:
                print(f"{lines:4} {path}:{line} {name}")
        return 0
    faults = [f"{path}:{line}: {name} has {lines} lines, and may have {LONGER.get(name, LIMIT)}: split it"
              for path, name, line, lines in found if lines > LONGER.get(name, LIMIT)]
    faults += [f"tests/function_length.py: no {name} is longer than {LIMIT} lines: take it out of LONGER"
               for name in LONGER if not any(lines > LIMIT for _, other, _, lines in found if other == name)]
    for fault in faults:
        print(fault)
    print(f"{len(found)} functions, {len(LONGER)} that may be longer than {LIMIT} lines, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
