"""The results of a mutation run: figures, the page MUTANTS.md, and a check of the claims of SURVIVORS.md.

SURVIVORS.md claims of single mutants that no test can kill them, and gives reasons:

    - `forward/attend.h live_tiles: ... => ...` : only changes the speed: the tile is fully masked

The name in backquotes is the mutant's key. A claim about a killed mutant is wrong; a
survivor without a claim is unanswered. Both fail the run. So does a share of killed
mutants below, or of claimed ones above, the limits below.
"""
import collections
import re
import statistics

KILLED_AT_LEAST, CLAIMED_AT_MOST = 0.90, 0.08
CLAIM = re.compile(r"^- `(?P<key>.+)`\s*:\s*(?P<why>.+)$")


def read_claims(path):
    claims = {}
    if path.exists():
        for line in path.read_text().splitlines():
            found = CLAIM.match(line)
            if found:
                claims[found["key"]] = found["why"]
    return claims


def verdicts(mutants, answers):
    """({id: the answer that killed the mutant}, {id: the cases that the survivor passed})."""
    killers, lived = {}, collections.Counter()
    for answer in answers:
        if answer["end"] == "killed":
            best = killers.get(answer["id"])
            if best is None or answer["asked"] < best["asked"]:
                killers[answer["id"]] = answer
        elif answer["end"] == "survived":
            lived[answer["id"]] = max(lived[answer["id"]], answer["asked"])
    known = {m["id"] for m in mutants}
    return {i: a for i, a in killers.items() if i in known}, lived


def share(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "0"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "-|" * len(head)]
    return lines + ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]


OF_KERNELS = ["Written by `tests/mutants/run.py --page`. Each mutant is one change to the sources; one library holds all of",
              "them. A mutant is killed if a check finds the kernel wrong, or if a unit test of the kernels (tests/kernels)",
              "fails. A run writes `killed.md` beside this page: it lists what killed each mutant."]


def page(listing, mutants, killers, lived, claims, head=OF_KERNELS):
    living = [m for m in mutants if m["id"] not in killers]
    lines = ["# Mutants", "", *head, ""]
    lines += [f"- compiled: {len(mutants)}; of {listing['generated']} made, {listing['do_not_compile']} do not compile",
              f"- killed: {share(len(killers), len(mutants))}",
              f"- claimed equivalent: {share(sum(m['key'] in claims for m in living), len(mutants))}",
              f"- unanswered: {sum(m['key'] not in claims for m in living)}"]
    cases = [k["cases"] for k in killers.values() if k["cases"] > 0]
    if cases:
        lines.append(f"- cases until killed: median {statistics.median(cases):g}, "
                     f"9 in 10 within {sorted(cases)[int(0.9 * (len(cases) - 1))]}, most {max(cases)}")
    lines += ["", "## By operator"]
    rows = []
    for operator in sorted({m["operator"] for m in mutants}):
        of = [m for m in mutants if m["operator"] == operator]
        dead = [m for m in of if m["id"] in killers]
        rows.append((operator, len(of), len(dead), len(of) - len(dead)))
    lines += table(("operator", "mutants", "killed", "live"), rows)
    lines += ["", "## By file"]
    rows = []
    for file in sorted({m["file"] for m in mutants}):
        of = [m for m in mutants if m["file"] == file]
        dead = [m for m in of if m["id"] in killers]
        rows.append((file, len(of), len(dead), len(of) - len(dead)))
    lines += table(("file", "mutants", "killed", "live"), rows)
    lines += ["", "## By killer"]
    by = collections.defaultdict(list)
    for k in killers.values():
        by[k["lane"], k["kind"]].append(k)
    lines += table(("build", "kind", "killed", "median cases"),
                   [(build_kind, kind, len(ks), f"{statistics.median(k['cases'] for k in ks):g}")
                    for (build_kind, kind), ks in sorted(by.items(), key=lambda item: -len(item[1]))])
    by = collections.Counter(k["property"] for k in killers.values())
    lines += ["", "A run takes all properties in turn, and most mutants fail the first one:", ""]
    lines += table(("property", "killed"), by.most_common())
    lines += ["", "## Live"]
    lines += table(("mutant", "operator", "line", "cases", "why no test can tell"),
                   [(f"`{m['key']}`", m["operator"], f"{m['file']}:{m['line']}", lived[m["id"]],
                     claims.get(m["key"], "**unanswered**")) for m in living])
    return "\n".join(lines) + "\n"


def killed_page(mutants, killers):
    """The page that lists what killed each mutant. It is too long to be kept in the tree."""
    lines = ["# Killed mutants", ""]
    lines += table(("mutant", "operator", "line", "build", "property", "kind", "cases"),
                   [(f"`{m['key']}`", m["operator"], m["line"], k["lane"], k["property"], k["kind"], k["cases"])
                    for m in mutants if (k := killers.get(m["id"]))])
    return "\n".join(lines) + "\n"


def report(listing, mutants, answers, survivors, page_path, killed_at_least=KILLED_AT_LEAST,
           claimed_at_most=CLAIMED_AT_MOST, head=OF_KERNELS):
    """Prints everything that a person must act on, and returns 0 if there is nothing."""
    killers, lived = verdicts(mutants, answers)
    claims = read_claims(survivors)
    living = [m for m in mutants if m["id"] not in killers]
    if page_path:
        page_path.write_text(page(listing, mutants, killers, lived, claims, head))
        page_path.with_name("killed.md").write_text(killed_page(mutants, killers))
    names = {m["key"] for m in listing["mutants"]}
    wrong = [m["key"] for m in mutants if m["id"] in killers and m["key"] in claims]
    stale = [key for key in claims if key not in names]
    unanswered = [m for m in living if m["key"] not in claims]
    for key in wrong:
        print(f"wrong claim, it is killed: {key}")
    for key in stale:
        print(f"claim about no mutant there is: {key}")
    for m in unanswered:
        print(f"unanswered: {m['file']}:{m['line']} [{m['id']}] {m['key']}")
    claimed = len(living) - len(unanswered)
    print(f"{share(len(killers), len(mutants))} killed; claimed equivalent: {share(claimed, len(mutants))}; "
          f"unanswered {len(unanswered)}; wrong claims {len(wrong)}; stale claims {len(stale)}")
    enough = len(killers) >= killed_at_least * len(mutants) and claimed <= claimed_at_most * len(mutants)
    return 0 if enough and not wrong and not stale and not unanswered else 1
