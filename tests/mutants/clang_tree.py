"""Reads the syntax trees that clang prints as JSON, with every node's place in its file.

    nodes = parse(["clang++-19", ...flags], "kernels/fa1/fa1.cu", wanted)

A template occurs as its pattern and as each instantiation: these nodes have the same
place and kind, and the instantiated ones know their types. clang prints a file's name
only if it differs from that of the last place, so places are read in order.
"""
import json
import subprocess

# Nodes that the compiler puts around others. They have no text in the source.
WRAPPERS = {"ImplicitCastExpr", "ExprWithCleanups", "MaterializeTemporaryExpr", "CXXBindTemporaryExpr",
            "SubstNonTypeTemplateParmExpr", "FullExpr"}


class Node:
    """One node: `begin`, `end` are byte offsets into `file`; macro: its text is a macro's."""

    __slots__ = ("kind", "file", "begin", "end", "last", "macro", "raw", "children", "type")

    @property
    def placed(self):
        return self.file is not None and not self.macro

    @property
    def is_expr(self):
        return "valueCategory" in self.raw

    def __repr__(self):
        return f"{self.kind}[{self.begin}:{self.end}]"


class _Reader:
    def __init__(self):
        self.file = None

    def place(self, loc):
        """(file, offset, length of the token, whether a macro wrote it), or None."""
        if "spellingLoc" in loc:
            self.place(loc["spellingLoc"])
            place = self.place(loc["expansionLoc"])
            return None if place is None else (*place[:3], True)
        if "offset" not in loc:
            return None
        self.file = loc.get("file", self.file)
        return self.file, loc["offset"], loc["tokLen"], False

    def node(self, raw):
        n = Node()
        n.kind, n.raw, n.children = raw.get("kind"), raw, []
        n.file, n.begin, n.end, n.last, n.macro = None, 0, 0, 0, False
        n.type = raw.get("type", {}).get("desugaredQualType", raw.get("type", {}).get("qualType", ""))
        for key, value in raw.items():
            if key == "loc":
                self.place(value)
            elif key == "range":
                begin = self.place(value.get("begin", {}))
                end = self.place(value.get("end", {}))
                if begin and end and begin[0] == end[0]:
                    n.file, n.begin, n.last, n.end = begin[0], begin[1], end[1], end[1] + end[2]
                    n.macro = end[3]
            elif key == "inner":
                n.children = [self.node(child) for child in value if child]
        raw.pop("inner", None)
        return n


def parse(command, source, namespace):
    """The top-level nodes of `source` whose name has `namespace` in it."""
    text = subprocess.run([*command, "-fsyntax-only", "-w", "-Xclang", "-ast-dump=json", "-Xclang",
                           f"-ast-dump-filter={namespace}", source],
                          check=True, capture_output=True, text=True).stdout
    decoder, at, nodes = json.JSONDecoder(), 0, []
    while (at := text.find("{", at)) >= 0:
        raw, at = decoder.raw_decode(text, at)
        nodes.append(_Reader().node(raw))
    return nodes


def strip(node):
    """The node with a text, without the wrappers that the compiler put around it."""
    while node.kind in WRAPPERS and node.children:
        node = node.children[-1]
    return node


def fields_by_id(nodes):
    """{data member: all members of the same type in its struct, in order}"""
    alike = {}

    def visit(node):
        if node.kind == "CXXRecordDecl":
            by_type = {}
            for child in node.children:
                if child.kind == "FieldDecl" and "name" in child.raw:
                    by_type.setdefault(child.type, []).append(child.raw)
            for members in by_type.values():
                for member in members:
                    alike[member["id"]] = [m["name"] for m in members]
        for child in node.children:
            visit(child)

    for node in nodes:
        visit(node)
    return alike
