"""Mutation operators: they turn a node of the syntax tree into sites.

Each rule is a method; walk.py chooses the nodes to which it is applied. LEFT_ALONE
names the code that is not mutated, with reasons.
"""
import re

from clang_tree import strip
from schemata import Mutant, Site, one_line

# operator -> (name in mutant.h, wrong ones as (operator of the report, name, how it reads))
BINARY = {
    "<": ("Less", [("boundary", "LessEqual", "{0} <= {1}"), ("negated", "GreaterEqual", "{0} >= {1}")]),
    "<=": ("LessEqual", [("boundary", "Less", "{0} < {1}"), ("negated", "Greater", "{0} > {1}")]),
    ">": ("Greater", [("boundary", "GreaterEqual", "{0} >= {1}"), ("negated", "LessEqual", "{0} <= {1}")]),
    ">=": ("GreaterEqual", [("boundary", "Greater", "{0} > {1}"), ("negated", "Less", "{0} < {1}")]),
    "==": ("Equal", [("negated", "NotEqual", "{0} != {1}")]),
    "!=": ("NotEqual", [("negated", "Equal", "{0} == {1}")]),
    "+": ("Plus", [("arithmetic", "Minus", "{0} - {1}"), ("arithmetic", "First", "{0}")]),
    "-": ("Minus", [("arithmetic", "Plus", "{0} + {1}"), ("arithmetic", "First", "{0}")]),
    "*": ("Times", [("arithmetic", "Divided", "{0} / {1}"), ("arithmetic", "First", "{0}")]),
    "/": ("Divided", [("arithmetic", "Modulo", "{0} % {1}"), ("arithmetic", "First", "{0}")]),
    "%": ("Modulo", [("arithmetic", "Divided", "{0} / {1}"), ("arithmetic", "First", "{0}")]),
}
UPDATE = {
    "+=": ("Plus", [("assignment", "Second", "{0} = {1}"), ("assignment", "Minus", "{0} -= {1}")]),
    "-=": ("Minus", [("assignment", "Second", "{0} = {1}"), ("assignment", "Plus", "{0} += {1}")]),
    "*=": ("Times", [("assignment", "Second", "{0} = {1}")]),
    "/=": ("Divided", [("assignment", "Modulo", "{0} %= {1}")]),
}
CALLS = {"CallExpr", "CXXMemberCallExpr"}
MAKERS = {"CXXTemporaryObjectExpr", "CXXUnresolvedConstructExpr"}
MEETINGS = {"cta_sync", "cp_wait", "cp_commit", "quad_max", "quad_sum", "warp_max", "warp_sum", "warp_sync"}

LEFT_ALONE = {
    "probing": "probes are a debugging aid, with tests of their own",
    "probe": "as probing",
    "probed": "as probing",
    "probe_of": "as probing",
    "probe_rows": "as probing",
    "check_quad_agrees": "a check on the CPU, nothing on a GPU",
    "choose_splits": "a heuristic of speed: any number of splits is right",
    "describe_arithmetic": "what a plan tells the oracle about rounding: the oracle's own tests hold it",
    "snprintf": "the plan's name for people",
    "name_value": "wording of refusals",
    "to_string": "wording of refusals",
    "with_shape": "a fold over template arguments: nothing of it happens at run time",
}

INTEGERS = re.compile(r"^(const )?(unsigned |signed )?(int|long|short|char|unsigned|u?int\d+_t|size_t|long long|"
                      r"unsigned int|unsigned long)$")


def on(id):
    return f"attn_mutants::on({id})"


def is_integer(node):
    return bool(INTEGERS.match(node.type)) and "bool" not in node.type


def same_type(node):
    return node.type if "*" in node.type else node.type.replace("const ", "")


def is_bool(node):
    return node.type in ("bool", "const bool")


def is_float(node):
    return node.type.replace("const ", "") in ("float", "double")


class Rules:
    """Collects sites in `files` ({path: File}). `function` is the function that is being walked."""

    function = ""

    def __init__(self, files, fields):
        self.files, self.fields, self.seen, self.ones = files, fields, {}, {}

    # -- helpers of the rules

    def text(self, node):
        return self.files[node.file].text[node.begin:node.end]

    def add(self, node, rank, wrong, render, operator_key, span=None):
        """wrong: (operator, text) of each mutant of the site. A known place is not added twice."""
        begin, end = span or (node.begin, node.end)
        key = (node.file, begin, end, rank, operator_key)
        if key in self.seen:
            return self.seen[key]
        file = self.files[node.file]
        original = one_line(file.text[begin:end])
        mutants = [Mutant(file.name, file.line_of(begin), self.function, operator, original, reads)
                   for operator, reads in wrong]
        site = Site(begin, end, rank, mutants, render)
        file.sites.append(site)
        self.seen[key] = site
        return site

    # -- rules; of sites with the same range, the one with the higher rank is outside

    def relation_or_arithmetic(self, node):
        op = node.raw.get("opcode")
        left, right = strip(node.children[0]), strip(node.children[1])
        if not (left.placed and right.placed and left.end <= right.begin):
            return
        between = one_line(self.files[node.file].text[left.end:right.begin])
        if between != op:
            return
        b0, e0, b1, e1 = left.begin, left.end, right.begin, right.end
        t0, t1 = one_line(self.text(left)), one_line(self.text(right))
        if op in BINARY:
            name, wrong = BINARY[op]
            if (node.file, node.begin, node.end, 9, "condition") in self.seen:
                wrong = [w for w in wrong if w[0] != "negated"]  # the mutants true and false cover it
            if not wrong:
                return
            known = "dependent" not in node.type
            if op in "+-*/%":
                if known and not (is_integer(node) or is_float(node) or node.type.endswith("*")):
                    return
                if is_float(node):
                    wrong = [w if w[1] != "Modulo" else ("arithmetic", "Times", "{0} * {1}") for w in wrong]
                if not known:
                    return
            names = ", ".join("attn_mutants::" + n for n in [name, *(w[1] for w in wrong)])
            self.add(node, 1, [(w[0], w[2].format(t0, t1)) for w in wrong], lambda id, render:
                     f"attn_mutants::binary<{names}>({id}, {render(b0, e0)}, {render(b1, e1)})", op)
        elif op in UPDATE and (is_integer(node) or is_float(node)):
            name, wrong = UPDATE[op]
            names = ", ".join("attn_mutants::" + n for n in [name, *(w[1] for w in wrong)])
            self.add(node, 1, [(w[0], w[2].format(t0, t1)) for w in wrong], lambda id, render:
                     f"attn_mutants::update<{names}>({id}, {render(b0, e0)}, {render(b1, e1)})", op)
        elif op in ("&&", "||"):
            neutral = "true" if op == "&&" else "false"
            for operand, other in ((left, t1), (right, t0)):
                if strip(operand).raw.get("opcode") == op:
                    continue  # its own operands are dropped one by one
                b, e = operand.begin, operand.end
                reads = f"{neutral} {op} .." if operand is left else f".. {op} {neutral}"
                self.add(operand, 8, [("dropped operand", reads)],
                         lambda id, render, b=b, e=e: f"({on(id)} ? {neutral} : ({render(b, e)}))", "operand")

    def literal(self, node):
        value = node.raw.get("value")
        b, e = node.begin, node.end
        source = self.text(node)
        if node.kind == "IntegerLiteral":
            wrong = [0 if int(value) == 1 else int(value) + 1]
            suffix = re.sub(r"^(0[xX][0-9a-fA-F]+|\d+)", "", source)
            texts = [f"{w}{suffix}" for w in wrong]
        else:
            texts = ["1.0f"] if float(value) == 0 else ["0.0f"] if float(value) == 1 else [f"2 * {source}"]
        def render(id, _):
            text = source
            for i, w in enumerate(texts):
                text = f"attn_mutants::instead({id + i}, {text}, {w})"
            return text
        self.add(node, 1, [("constant", w) for w in texts], render, "literal")

    def boolean_literal(self, node):
        other = "false" if self.text(node) == "true" else "true"
        self.add(node, 1, [("constant", other)],
                 lambda id, _: f"attn_mutants::instead({id}, {self.text(node)}, {other})", "literal")

    def off_by_one(self, node):
        """An integer that is an index, is stored, or is an argument and not just a name."""
        node = strip(node)
        if not (node.placed and is_integer(node)) or node.kind in ("IntegerLiteral", "UnaryExprOrTypeTraitExpr"):
            return
        if self.one_of(node):
            return  # x - 1 + 1 is x, a mutant that already exists
        b, e, t = node.begin, node.end, one_line(self.text(node))
        self.add(node, 5, [("off by one", f"{t} + 1")],
                 lambda id, render: f"attn_mutants::next({id}, {render(b, e)})", "next")

    def one_of(self, node):
        """The 1 in x + 1 and x - 1."""
        if node.kind == "BinaryOperator" and node.raw["opcode"] in ("+", "-"):
            right = strip(node.children[1])
            if right.kind == "IntegerLiteral" and right.raw.get("value") == "1":
                return right
        return None

    def passed_on(self, node):
        if strip(node).kind not in ("DeclRefExpr", "MemberExpr"):
            self.off_by_one(node)

    def condition(self, node):
        """The condition of if and ?: is always true or always false."""
        node = strip(node)
        if not node.placed or node.kind == "CXXBoolLiteralExpr" or self.left_alone(node):
            return
        b, e = node.begin, node.end
        self.add(node, 9, [("condition", "true"), ("condition", "false")],
                 lambda id, render: f"({on(id)} ? true : {on(id + 1)} ? false : bool({render(b, e)}))",
                 "condition")

    def switched(self, node):
        """A bool that is passed on or stored."""
        node = strip(node)
        if node.placed and is_bool(node) and node.kind != "CXXBoolLiteralExpr":
            self.condition(node)

    def dropped(self, node, operator="dropped statement"):
        b, e = node.begin, node.end
        if not node.placed or e - b > 200 or "{\n" in self.text(node):
            return
        self.add(node, 20, [(operator, "dropped")],
                 lambda id, render: f"({on(id)} ? void() : void(({render(b, e)})))", "dropped")

    def dropped_guard(self, node):
        """if (Refusal r = ...) return r;"""
        b, e = node.begin, node.end
        self.add(node, 20, [("dropped guard", "dropped")],
                 lambda id, render: f"if (!{on(id)}) {render(b, e)}", "guard")

    def negation(self, node):
        operand = strip(node.children[0])
        if not operand.placed or node.raw["opcode"] not in ("-", "!"):
            return
        b, e = operand.begin, operand.end
        lead = node.raw["opcode"]
        # A bool, because the negation of an optional would otherwise become an optional, which has a value either way.
        kept = "bool" if lead == "!" else ""
        self.add(node, 1, [("dropped sign", one_line(self.text(operand)))],
                 lambda id, render: f"({on(id)} ? {kept}({render(b, e)}) : {lead}({render(b, e)}))", "sign")

    def swapped(self, parent, arguments):
        """Neighbouring arguments of one type, exchanged."""
        arguments = [strip(a) for a in arguments]
        for first, second in zip(arguments, arguments[1:]):
            t0, t1 = (one_line(self.text(a)) if a.placed else "" for a in (first, second))
            if not t0 or not t1 or t0 == t1 or first.end > second.begin or t0[0] in "{[" or t1[0] in "{[":
                continue
            if "dependent" in first.type or same_type(first) != same_type(second):
                continue
            b0, e0, b1, e1 = first.begin, first.end, second.begin, second.end
            between = self.files[first.file].text[e0:b1]
            if one_line(between) != ",":
                continue
            def render(id, render, b0=b0, e0=e0, b1=b1, e1=e1, between=between):
                x, y = render(b0, e0), render(b1, e1)
                return (f"({on(id)} ? {one_line(y)} : {x}){between}"
                        f"({on(id)} ? {one_line(x)} : {y})")
            # In a list a, b, c each pair is a site, and sites must not overlap, so every second pair is taken.
            if any(s.rank == 30 and s.begin < e1 and b0 < s.end and (s.begin, s.end) != (b0, e1)
                   for s in self.files[first.file].sites):
                continue
            self.add(first, 30, [("swapped arguments", f"{t1}, {t0}")], render, "swap", span=(b0, e1))

    def wrong_member(self, node):
        alike = self.fields.get(node.raw.get("referencedMemberDecl"), [])
        name = node.raw.get("name", "")
        if name not in alike or len(alike) < 2 or node.raw.get("isArrow") or not node.children:
            return
        base = strip(node.children[0])
        if base.kind == "CXXThisExpr" or not base.placed or self.text(node)[node.last - node.begin:] != name:
            return
        other = alike[(alike.index(name) + 1) % len(alike)]
        b, e = node.begin, node.last
        self.add(node, 2, [("wrong member", one_line(self.files[node.file].text[b:e] + other))],
                 lambda id, render: f"({on(id)} ? {one_line(render(b, e))}{other} : {render(b, e)}{name})",
                 "member")

    def callee_name(self, node):
        callee = strip(node.children[0]) if node.children else None
        while callee is not None and not {"name", "referencedDecl"} & callee.raw.keys() and callee.children:
            callee = strip(callee.children[0])
        if callee is None:
            return ""
        return callee.raw.get("name") or callee.raw.get("referencedDecl", {}).get("name", "") or ""

    def call(self, node, name):
        arguments = node.children[1:]
        if name in ("fmax", "max", "min") and len(arguments) == 2:
            x, y = (strip(a) for a in arguments)
            if x.placed and y.placed:
                t0, t1 = one_line(self.text(x)), one_line(self.text(y))
                other, reads = ("larger", "max") if name == "min" else ("smaller", "min")
                def render(id, render):
                    a, b = render(x.begin, x.end), render(y.begin, y.end)
                    whole = render(node.begin, node.end)
                    a, b = one_line(a), one_line(b)
                    return (f"({on(id)} ? attn_mutants::{other}({a}, {b}) : {on(id + 1)} ? {a} : "
                            f"{on(id + 2)} ? {b} : {whole})")
                self.add(node, 3, [("min/max", reads) for reads in (f"{reads}({t0}, {t1})", t0, t1)], render, "minmax")
                return
        if name == "neg_inf":
            self.add(node, 1, [("constant", "-1e30f"), ("constant", "0.0f")],
                     lambda id, _: f"({on(id)} ? -1e30f : {on(id + 1)} ? 0.0f : {self.text(node)})",
                     "infinity")
            return
        for argument in arguments:
            self.passed_on(argument)
            self.switched(argument)
        self.swapped(node, arguments)

    def weaker_wait(self, node):
        found = re.fullmatch(r"cp_wait<(\d+)>\(\)", self.text(node))
        if found:
            more = f"cp_wait<{int(found[1]) + 1}>()"
            self.add(node, 4, [("weaker wait", more)],
                     lambda id, _: f"({on(id)} ? {more} : {self.text(node)})", "wait")

    def left_alone(self, node):
        """Is the node a name in LEFT_ALONE, or a call of one?"""
        return (self.callee_name(node) if node.kind in CALLS else self.text(node)) in LEFT_ALONE
