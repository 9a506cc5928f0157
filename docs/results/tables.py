"""tables.py [--check]: writes the pages of this folder from the figures in its JSON files.

Each NAME.json becomes NAME.md; README.md lists them. With --check nothing is written, and a page that differs from what
would be written ends the program with status 1. To add a figure, edit the JSON file and run this.

A file is an object: `title`, `about` (paragraphs) and `tables`. A table has
    heading   what it shows
    card      the machine that it was measured on: a key of MACHINES, or words
    date      when it was recorded, as 2026-11-23
    commands  what printed the figures (an array)
and some of
    about     paragraphs that stand before it (an array)
    columns   names of its columns, and `rows`, an array of arrays of cells
    text      lines as a command prints them (an array), shown as they are
    notes     sentences that stand after it, shown as a list (an array)
"""

import json
import pathlib
import sys

MACHINES = {
    "h200": "one NVIDIA H200, 16 cores (driver 580.159.04, CUDA 13.0)",
    "h100": "one NVIDIA H100 with 80 GB (driver 580.159.04, CUDA 13.0)",
    "laptop": "2 cores of an AMD EPYC, no GPU",
    "xeon": "2 cores of an Intel Xeon with AVX-512, no GPU, other programs beside",
    "cpu": "the CPU executor",
}
REQUIRED, OPTIONAL = {"heading", "card", "date", "commands"}, {"about", "columns", "rows", "text", "notes"}


def table(columns, rows, where):
    for row in rows:
        if len(row) != len(columns):
            sys.exit(f"{where}: {row} has {len(row)} cells, the table has {len(columns)} columns")
    lines = [columns] + rows
    text = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "-|" * len(columns)] + text[1:])


def section(part, where):
    if REQUIRED - part.keys() or part.keys() - REQUIRED - OPTIONAL:
        sys.exit(f"{where}: a table has {sorted(REQUIRED)}, and may have {sorted(OPTIONAL)}; this one has {sorted(part)}")
    blocks = [f"## {part['heading']}", f"Measured on {MACHINES.get(part['card'], part['card'])}. Recorded {part['date']}."]
    if part["commands"]:
        blocks.append("\n".join("    " + command for command in part["commands"]))
    else:
        blocks.append("The command was not recorded.")
    blocks += part.get("about", [])
    if "rows" in part:
        blocks.append(table(part["columns"], part["rows"], f"{where}, {part['heading']}"))
    if "text" in part:
        blocks.append("\n".join("    " + line for line in part["text"]))
    if "notes" in part:
        blocks.append("\n".join("- " + note for note in part["notes"]))
    return "\n\n".join(blocks)


def pages(folder):
    """{file name: text}"""
    found, index = {}, []
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            sys.exit(f"{path}: {error}")
        made = f"<!-- Written by tables.py from {path.name}: edit that file. -->"
        blocks = [f"# {data['title']}", made] + data["about"] + [section(part, path.name) for part in data["tables"]]
        found[path.stem + ".md"] = "\n\n".join(blocks) + "\n"
        index.append([f"[{data['title']}]({path.stem}.md)", "; ".join(part["heading"] for part in data["tables"])])
    found["README.md"] = "\n\n".join([
        "# Results", "<!-- Written by tables.py: edit that file, or the JSON files. -->",
        "Each table was measured. It names its machine, its date and, if it was recorded, the command. `python3 docs/results/tables.py` writes "
        "these pages from the JSON files beside them, and `ctest -R docs.results` fails where they differ. Times are from shared "
        "machines: compare figures of one table, not of two.",
        table(["page", "tables"], index, "README.md")]) + "\n"
    return found


def main():
    folder = pathlib.Path(__file__).resolve().parent
    differing = []
    for name, text in pages(folder).items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        differing.append(name)
        if sys.argv[1:] != ["--check"]:
            path.write_text(text, encoding="utf-8")
    for name in differing:
        print(f"{name} {'differs: run docs/results/tables.py' if sys.argv[1:] == ['--check'] else 'written'}")
    return 1 if differing and sys.argv[1:] == ["--check"] else 0


sys.exit(main())
