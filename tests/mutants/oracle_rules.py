"""Rules for mutants of the oracle's formulas, besides those of rules.py.

Sums, products and quotients of doubles and of Eigen's arrays lose a term or a factor, or change a sign;
abs() is dropped; a maximum becomes a minimum, and a sum becomes a maximum. Members that a constructor sets
are mutated as well.
"""
import re

from clang_tree import strip
from rules import is_float, on, same_type
from schemata import one_line
from walk import Walk

EIGEN = re.compile(r"\b(Eigen::|Cwise|Array<|ArrayWrapper|Lanes|Map<)")


def is_formula(node):
    return is_float(node) or bool(EIGEN.search(node.type))


class OracleWalk(Walk):
    """Adds these rules to those of Walk. Used like it: call visit() on each top-level node."""

    unlike = set()  # places of neighbouring arguments whose types differ in some instantiation

    def swapped(self, parent, arguments):
        for first, second in zip(arguments, arguments[1:]):
            first, second = strip(first), strip(second)
            types = {same_type(first), same_type(second)}
            if first.placed and second.placed and len(types) > 1 and not any("dependent" in t for t in types):
                self.unlike.add((first.file, first.begin, second.end))
        super().swapped(parent, arguments)
        for name, file in self.files.items():
            file.sites = [s for s in file.sites if s.rank != 30 or (name, s.begin, s.end) not in self.unlike]

    def relation_or_arithmetic(self, node):
        op = node.raw.get("opcode")
        if op in ("+", "-", "*", "/") and is_float(node):
            self.formula(node, op, node.children[0], node.children[1])
        elif "vector" not in node.type:
            super().relation_or_arithmetic(node)

    def formula(self, node, op, left, right):
        left, right = strip(left), strip(right)
        if not (left.placed and right.placed and left.end <= right.begin):
            return
        if one_line(self.files[node.file].text[left.end:right.begin]) != op:
            return
        b0, e0, b1, e1 = left.begin, left.end, right.begin, right.end
        t0, t1 = one_line(self.text(left)), one_line(self.text(right))
        if op in ("+", "-"):
            self.add(node, 1, [("arithmetic", f"{t0} {'-' if op == '+' else '+'} {t1}"), ("arithmetic", t0)],
                     lambda id, render: f"(({render(b0, e0)}) {op} attn_mutants::term({id}, {render(b1, e1)}))", op)
        elif op == "*":
            self.add(node, 1, [("arithmetic", t0), ("arithmetic", t1)],
                     lambda id, render: f"(attn_mutants::factor({id + 1}, {render(b0, e0)}) * "
                                        f"attn_mutants::factor({id}, {render(b1, e1)}))", op)
        else:
            self.add(node, 1, [("arithmetic", t0)],
                     lambda id, render: f"(({render(b0, e0)}) / attn_mutants::factor({id}, {render(b1, e1)}))", op)

    def call(self, node, name):
        arguments = node.children[1:]
        callee = strip(node.children[0])
        if name in ("abs", "fabs") and len(arguments) == 1 and is_float(node) and strip(arguments[0]).placed:
            b, e = strip(arguments[0]).begin, strip(arguments[0]).end
            t = one_line(self.text(strip(arguments[0])))
            self.add(node, 3, [("dropped size", t)], lambda id, render:
                     f"({on(id)} ? ({one_line(render(b, e))}) : {render(node.begin, node.end)})", "size")
        elif name in ("maxCoeff", "minCoeff", "sum") and not arguments and callee.kind == "MemberExpr":
            of = strip(callee.children[0])
            other = {"maxCoeff": "minCoeff", "minCoeff": "maxCoeff", "sum": "maxCoeff"}[name]
            if of.placed:
                b, e, t = of.begin, of.end, one_line(self.text(of))
                self.add(node, 3, [("min/max", f"{t}.{other}()")], lambda id, render:
                         f"({on(id)} ? ({one_line(render(b, e))}).{other}() : ({render(b, e)}).{name}())", "most")
        elif name == "abs" and not arguments and callee.kind == "MemberExpr":
            of = strip(callee.children[0])
            if of.placed and EIGEN.search(node.type):
                b, e, t = of.begin, of.end, one_line(self.text(of))
                self.add(node, 3, [("dropped size", t)],
                         lambda id, render: f"attn_mutants::size({id}, {render(b, e)})", "size")
        else:
            super().call(node, name)

    def walk(self, node):
        inner = strip(node)
        if inner.kind == "BindingDecl":
            return
        if inner.kind == "CXXOperatorCallExpr" and inner.placed and inner.file in self.files:
            name = self.callee_name(inner)
            if name in ("operator[]", "operator()"):
                for argument in inner.children[2:]:
                    self.off_by_one(argument)
                    self.switched(argument)
                if name == "operator()":
                    self.swapped(inner, inner.children[2:])
            elif name[8:] in ("+", "-", "*", "/") and len(inner.children) == 3 and EIGEN.search(inner.type):
                self.formula(inner, name[8:], *inner.children[1:])
        super().walk(node)

    def visit(self, node):
        if node.kind == "CXXConstructorDecl" and node.file in self.files and not node.raw.get("isImplicit"):
            outer, self.function = self.function, self.record
            for child in node.children:
                if child.kind == "CXXCtorInitializer":
                    for value in child.children:
                        self.off_by_one(value)
                        self.switched(value)
                        self.walk(value)
            self.function_body(node)
            self.function = outer
            return
        super().visit(node)
