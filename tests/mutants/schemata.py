"""The places of a source that mutants change, and the text that holds all mutants.

A Site replaces the text of one node by code that calls mutant.h to learn which mutant
is on. Sites nest like the syntax tree. Lines keep their numbers, so reports name the
lines of the original.
"""
import re
from dataclasses import dataclass, field

OPEN, CLOSE, STOP = "\x01", "\x02", "\x03"  # around a site in rendered text: OPEN number STOP ... CLOSE


@dataclass
class Mutant:
    file: str  # below kernels/
    line: int
    function: str
    operator: str
    original: str
    mutated: str
    id: int = 0
    occurrence: int = 1

    def key(self):
        """The name of the mutant in SURVIVORS.md. It does not change when lines move."""
        number = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.file} {self.function}: {self.original} => {self.mutated}{number}"


@dataclass
class Site:
    begin: int
    end: int
    rank: int      # of sites with one range, the higher is the outer
    mutants: list  # ids follow one another
    text: object   # text(first id, render) -> str; render(begin, end) gives the text inside
    number: int = 0
    dropped: bool = False
    inside: list = field(default_factory=list)


def one_line(text):
    """The text without comments and line breaks."""
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S)).strip()


class File:
    """A source and its sites."""

    def __init__(self, name, text):
        self.name, self.text, self.sites = name, text, []

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def render(self):
        """The whole text, with every site's first and last character marked."""
        live = sorted((s for s in self.sites if not s.dropped), key=lambda s: (s.begin, -s.end, -s.rank))
        for number, site in enumerate(live):
            site.number, site.inside = number, []
        self._live = live
        roots, stack = [], []
        for site in live:
            while stack and stack[-1].end <= site.begin:
                stack.pop()
            if stack and site.end > stack[-1].end:
                raise ValueError(f"{self.name}: sites cross at {site.begin}: {self.text[site.begin:site.end]!r}")
            (stack[-1].inside if stack else roots).append(site)
            stack.append(site)
        return self._between(0, len(self.text), roots)

    def _between(self, begin, end, sites):
        out, at = [], begin
        for site in sites:
            if site.begin < begin or site.end > end:
                continue
            out.append(self.text[at:site.begin])
            out.append(self._site(site))
            at = site.end
        out.append(self.text[at:end])
        return "".join(out)

    def _site(self, site):
        body = site.text(site.mutants[0].id, lambda b, e: self._between(b, e, site.inside))
        # The number of lines must not change.
        body = body if body.count("\n") == self.text.count("\n", site.begin, site.end) else one_line(body)
        return f"{OPEN}{site.number}{STOP}{body}{CLOSE}"

    def finished(self):
        """(text without marks, spans): spans are (line, column, line, column, site), innermost last."""
        marked = self.render()
        out, spans, stack = [], [], []
        line, column, i = 1, 1, 0
        while i < len(marked):
            c = marked[i]
            if c == OPEN:
                stop = marked.index(STOP, i)
                stack.append((line, column, self._live[int(marked[i + 1:stop])]))
                i = stop + 1
                continue
            if c == CLOSE:
                l0, c0, site = stack.pop()
                spans.append((l0, c0, line, column, site))
            else:
                out.append(c)
                line, column = (line + 1, 1) if c == "\n" else (line, column + 1)
            i += 1
        return "".join(out), spans


def site_at(spans, line, column):
    """The site to blame for an error at a place in the generated text, or None.

    It is the innermost site that covers the place, but never a dropped statement
    (rank 20), which compiles if the statement does. An error at the name of a call
    may also come from the arguments, which follow it in the line."""
    covering = [s for s in spans if (s[0], s[1]) <= (line, column) < (s[2], s[3]) and s[4].rank != 20]
    if covering:
        return min(covering, key=lambda s: (s[2] - s[0], s[3] - s[1]))[4]
    behind = [s for s in spans if s[0] == line and s[1] >= column and s[4].rank != 20]
    return max(behind, key=lambda s: (s[4].rank, -s[1]))[4] if behind else None
