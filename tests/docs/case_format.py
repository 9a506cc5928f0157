"""case_format.py SOURCES: checks that docs/case-format.md lists the sources' fields, defaults and names, and no others.

The structures and the names of their fields are read from codec_fields.h, problem.h and case.h in properties/case/, the
defaults from the latter two, the fields of a reproducer from reproducer.cc.
"""

import os
import re
import sys

SOURCES = sys.argv[1]
PAGE = "docs/case-format.md"


def read(name):
    with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
        return file.read()


def sources():
    return "".join(read(f"properties/case/{name}") for name in ("codec/codec_fields.h", "problem.h", "case.h"))


def structures():
    """{C++ type: (heading, {field: (member, name of its list of names or None)})}"""
    text = re.sub(r"//.*", "", sources())
    found = {}
    for of, what, body in re.findall(r"kFields<(\w+)> = fields\(\"([^\"]*)\",(.*?)\);\n", text, re.S):
        fields = {name: (member, names) for name, member, names in
                  re.findall(r"field\(\"(\w+)\", &\w+::(\w+)(?:, Names\{(\w+)\})?", body)}
        if "FormatField{}" in body:
            fields["format"] = ("format", None)
        found[of] = (what[0].upper() + what[1:], fields)
    assert len(found) > 10, "no fields found: has codec_fields.h changed its form?"
    return found


def name_lists():
    """{C++ name: [names]}"""
    text = sources() + read("reference/model/arithmetic_names.h")
    lists = {name: re.findall(r"\"([^\"]+)\"", body)
             for name, body in re.findall(r"constexpr const char\* (k\w+)\[\] = \{(.*?)\};", text, re.S)}
    rows = re.findall(r"^ +\{k\w+, \"(\w+)\"", read("reference/call/tensor_spec.h"), re.M)
    assert rows, "no tensors found: has tensor_spec.h changed its form?"
    return lists | {"kTensorNames": rows}


def split(text):
    """The parts of the text between the commas that are outside of all brackets."""
    parts, depth = [""], 0
    for at in text:
        depth += (at in "{<(") - (at in "}>)")
        parts = parts + [""] if at == "," and depth == 0 else parts[:-1] + [parts[-1] + at]
    return parts


def defaults():
    """{C++ type: {member: its default as the sources write it}}"""
    text = re.sub(r"//.*", "", read("properties/case/problem.h") + read("properties/case/case.h"))
    found = {}
    for of, body in re.findall(r"^struct (\w+) \{(.*?)^\};", text, re.S | re.M):
        found[of] = {}
        for statement in re.sub(r"\w[^;{}]*\([^;]*\) const \{[^}]*\}", "", body).split(";"):
            for part in split(statement):
                name, _, value = part.partition(" = ")
                if name.strip() and "operator" not in name:
                    found[of][name.split()[-1]] = value.strip() or None
    return found


def as_json(value):
    """A C++ default as the page writes it, or None if the page describes it in words."""
    if value is None or "Call{" in value:
        return None
    name = re.fullmatch(r"\w+::k(\w+)", value)
    if name:
        return '"' + re.sub(r"(?<!^)(?=[A-Z])", "_", name[1]).lower() + '"'
    if value.startswith("ATTN_"):
        return '"' + re.sub(r"^ATTN_(ARITHMETIC_)?", "", value).lower() + '"'
    if value.startswith("{"):
        return value.replace("{", "[").replace("}", "]")
    return re.sub(r"\.0f$", "", value)


def sections():
    """{heading: (its text, {field: (type, default)})}"""
    found = {}
    for heading, body in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", read(PAGE), re.S | re.M):
        rows = {}
        table = re.search(r"^\| field \|.*?(?=\n\n|\Z)", body, re.S | re.M)
        for row in table[0].splitlines()[2:] if table else []:
            names, kind, default = (cell.strip() for cell in row.split("|")[1:4])
            for name in re.findall(r"`(\w+)`", names):
                rows[name] = (kind, default)
        found[heading] = (body, rows)
    return found


def different(where, documented, known):
    for name in sorted(set(known) - set(documented)):
        yield f"{where}: `{name}` is missing"
    for name in sorted(set(documented) - set(known)):
        yield f"{where}: `{name}` is in no file"


def main():
    page, lists, members = sections(), name_lists(), defaults()
    bad = []
    for of, (heading, fields) in structures().items():
        if heading not in page:
            bad.append(f"the section ## {heading} is missing")
            continue
        body, rows = page[heading]
        bad += different(heading, rows, fields)
        for name, (member, names) in fields.items():
            default = as_json(members[of].get(member))
            if name in rows and default is not None and rows[name][1] not in (f"`{default}`", f'`"0x{default:0>4}"`'):
                bad.append(f"{heading}: the default of `{name}` is {default}, not {rows[name][1]}")
            if names:
                bad += [f"{heading}: `{name}` may be `{one}`, which is missing" for one in lists[names]
                        if f"`{one}`" not in body]
        # The first cell of each row of a table of names is a name.
        allowed = {one for _, names in fields.values() if names for one in lists[names]}
        for table in re.findall(r"\n\n(\| `\w+` \|.*?)(?=\n\n|\Z)", body, re.S):
            for row in table.splitlines()[2:]:
                bad += [f"{heading}: `{one}` is no name that is read" for one in re.findall(r"`([\w:]+)`", row.split("|")[1])
                        if one not in allowed]
    written = set(re.findall(r"\bjson\[\"(\w+)\"\]", read("properties/reduce/reproducer.cc")))
    bad += different("A reproducer file", page["A reproducer file"][1], written)
    for message in bad:
        print(f"{PAGE}: {message}")
    return 1 if bad else 0


sys.exit(main())
