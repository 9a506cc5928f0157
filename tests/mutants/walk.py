"""The walk over syntax trees. It finds the code that runs, and chooses the rules for it.

Nothing is changed where the language requires a constant (array bounds, template
arguments, constexpr), nor in the expansion of macros.
"""
import re

from clang_tree import strip
from rules import CALLS, LEFT_ALONE, MAKERS, MEETINGS, Rules


class Walk(Rules):
    """Call visit() on each top-level node."""

    record = ""

    def statement(self, node):
        inner = strip(node)
        if not inner.is_expr or not inner.placed:
            return
        name = self.callee_name(inner) if inner.kind in CALLS else ""
        if name in LEFT_ALONE or self.is_probe(inner):
            return
        self.dropped(inner, "dropped meeting" if name in MEETINGS else "dropped statement")

    def is_probe(self, node):
        return node.placed and bool(re.match(r"p\.probe\b", self.text(node)))

    def function_body(self, node):
        name = node.raw.get("name", "")
        if node.raw.get("isImplicit") or node.raw.get("explicitlyDefaulted") or name in LEFT_ALONE:
            return
        outer, self.function = self.function, self.function or name
        for child in node.children:
            if child.kind in ("CompoundStmt", "CXXTryStmt"):
                self.walk(child)
        self.function = outer

    def visit(self, node):
        """Declarations: functions, records with their members' initial values."""
        if node.kind in ("FunctionDecl", "CXXMethodDecl"):
            if node.file in self.files or node.file is None:
                self.function_body(node)
            return
        if node.kind == "FieldDecl":
            if node.file in self.files:
                outer, self.function = self.function, self.record
                for child in node.children:
                    if child.is_expr:
                        self.walk(child)
                self.function = outer
            return
        if node.kind in ("VarDecl", "EnumDecl", "ParmVarDecl"):
            return
        outer = getattr(self, "record", "")
        if node.kind == "CXXRecordDecl" and "name" in node.raw:
            self.record = node.raw["name"]
        for child in node.children:
            self.visit(child)
        self.record = outer

    def walk(self, node):
        node = strip(node)
        kind = node.kind
        if kind in ("ConstantExpr", "StaticAssertDecl", "CXXDefaultArgExpr", "UnaryExprOrTypeTraitExpr",
                    "CXXNoexceptExpr", "StringLiteral", "TypeTraitExpr"):
            return
        if kind == "VarDecl":
            return self.variable(node)
        if kind == "LambdaExpr":
            for child in node.children:
                if child.kind == "CompoundStmt":
                    self.walk(child)
                elif child.kind == "CXXRecordDecl":
                    self.visit_lambda(child)
            return
        if kind in ("CXXRecordDecl", "TypedefDecl", "TypeAliasDecl", "UsingDecl"):
            return
        if node.is_expr and (node.file not in self.files or node.macro):
            return
        if kind == "CXXForRangeStmt":
            return self.body(node.children[-1])
        if kind in CALLS:
            name = self.callee_name(node)
            if name in LEFT_ALONE:
                return
            self.call(node, name)
            self.weaker_wait(node)
        elif kind in MAKERS:
            for argument in node.children:
                self.passed_on(argument)
            self.swapped(node, node.children)
        elif kind == "InitListExpr":
            for element in node.children:
                if element.is_expr and strip(element).placed and strip(element).kind != "InitListExpr":
                    self.off_by_one(element)
                    self.switched(element)
            self.swapped(node, [c for c in node.children if strip(c).placed])
        elif kind in ("BinaryOperator", "CompoundAssignOperator"):
            if node.placed:
                if self.is_probe(node):
                    return
                self.relation_or_arithmetic(node)
                if one := self.one_of(node):
                    self.ones[one.begin] = one  # x + 0 is x, a mutant that already exists
                if node.raw["opcode"] == "=":
                    self.off_by_one(node.children[1])
                    self.switched(node.children[1])
        elif kind == "UnaryOperator":
            if node.placed:
                self.negation(node)
        elif kind == "ConditionalOperator":
            self.condition(node.children[0])
        elif kind in ("IntegerLiteral", "FloatingLiteral"):
            if node.placed and node is not self.ones.get(node.begin):
                self.literal(node)
        elif kind == "CXXBoolLiteralExpr":
            if node.placed:
                self.boolean_literal(node)
        elif kind == "ArraySubscriptExpr":
            self.off_by_one(node.children[1])
        elif kind == "MemberExpr":
            if node.placed:
                self.wrong_member(node)
        elif kind == "ReturnStmt":
            if node.children:
                self.off_by_one(node.children[0])
        elif kind == "IfStmt":
            return self.if_statement(node)
        elif kind == "ForStmt":
            for part in node.children[:-1]:
                self.walk(part)
            return self.body(node.children[-1])
        elif kind == "CompoundStmt":
            for child in node.children:
                self.body(child)
            return
        for child in node.children:
            self.walk(child)

    def visit_lambda(self, record):
        for child in record.children:
            if child.kind == "CXXMethodDecl":
                self.function_body(child)
            elif child.kind == "FunctionTemplateDecl":
                for inner in child.children:
                    if inner.kind == "CXXMethodDecl":
                        self.function_body(inner)

    def variable(self, node):
        if node.raw.get("constexpr") or node.raw.get("isImplicit"):
            return
        for child in node.children:
            if child.is_expr:
                self.off_by_one(child)
                self.switched(child)
                self.walk(child)

    def body(self, node):
        """Visits a node in the place of a statement."""
        self.statement(node)
        if node.kind == "IfStmt" and node.raw.get("hasVar") and not node.raw.get("hasElse"):
            self.dropped_guard(node)
        self.walk(node)

    def if_statement(self, node):
        children = [c for c in node.children]
        if node.raw.get("hasInit"):
            self.walk(children.pop(0))
        if node.raw.get("hasVar"):
            for child in children[:-1]:
                if child.kind == "DeclStmt":
                    self.walk(child)
            return self.body(children[-1])
        condition, branches = children[0], children[1:]
        if node.raw.get("isConstexpr"):
            for branch in branches:
                self.body(branch)
            return
        if strip(condition).placed and self.left_alone(strip(condition)):
            return
        self.condition(condition)
        self.walk(condition)
        for branch in branches:
            self.body(branch)
