#!/usr/bin/env python3
"""Times nsa and nsa_backward, attention over listed blocks and its gradients, beside fla.

    python3 bench_listed.py --lib build/full/lib [--only forward|backward] [--json listed.json]

A training step of native sparse attention: batch 1, causal, 64 query heads on 4 KV heads, blocks of 64 keys, lists of 16
blocks with the first and the own block in each, the others random. timing.py compares and times the contenders. TFLOP/s
count a product of four (backward: ten) operations for each visible pair of query and key and each column.

Exit status: 0, or 1 if one of our kernels gave a wrong result or did not run, or 2 without a GPU or for a wrong option.
"""

import json
import pathlib
import sys

import torch

import attention
import timing
from timing import log

HEADS_Q, HEADS_KV, BLOCK, SELECT = 64, 4, 64, 16
GROUP = HEADS_Q // HEADS_KV


class Shape:
    def __init__(self, backward, tokens, dim, dtype=torch.bfloat16):
        self.backward, self.tokens, self.dim, self.dtype = backward, tokens, dim, dtype
        self.kernel = "nsa_backward" if backward else "nsa"

    def describe(self):
        return f"{'gradients' if self.backward else 'forward'}, D{self.dim} {HEADS_Q}/{HEADS_KV} S={self.tokens}"

    def kv_bytes(self):
        return 4 * HEADS_KV * self.tokens * self.dim

    def rate(self, pairs, seconds):
        return (10 if self.backward else 4) * pairs * GROUP * self.dim / seconds / 1e12


def lists_of(tokens, device):
    """(1, KV head, query, place): blocks 0 and of the query, and others before it; -1 where there are no more."""
    own = torch.arange(tokens, device=device) // BLOCK
    blocks = torch.arange(-(-tokens // BLOCK), device=device)
    rank = torch.rand(HEADS_KV, tokens, len(blocks), device=device)
    rank[:, :, 0], rank[:, torch.arange(tokens), own] = 2, 3
    rank.masked_fill_(blocks > own[:, None], -1)
    if len(blocks) < SELECT:
        rank = torch.nn.functional.pad(rank, (0, SELECT - len(blocks)), value=-1)
    best = rank.topk(SELECT, dim=-1)
    return torch.where(best.values >= 0, best.indices, -1).int()[None]


class Inputs:
    """Tensors (1, head, position, column). O and LSE are the double reference's, rounded; `due` is what a contender of this
    shape should give, as one row of numbers for each KV head."""

    def __init__(self, p, device):
        def random(heads):
            return torch.randn(1, heads, p.tokens, p.dim, dtype=p.dtype, device=device)

        self.q, self.k, self.v, self.dout = random(HEADS_Q), random(HEADS_KV), random(HEADS_KV), random(HEADS_Q)
        self.indices = lists_of(p.tokens, device)
        self.o, self.lse = torch.empty_like(self.q), torch.empty(1, HEADS_Q, p.tokens, device=device)
        self.due = {}
        for g in range(HEADS_KV):
            self._reference(p, g)

    def visible(self, g):
        """(query, key) booleans of a KV head."""
        tokens = self.q.shape[2]
        seen = torch.zeros(tokens, -(-tokens // BLOCK) + 1, dtype=torch.bool, device=self.q.device)
        seen.scatter_(1, self.indices[0, g].long() % seen.shape[1], True)  # -1: the last column, which is no block
        return seen[:, :-1].repeat_interleave(BLOCK, 1)[:, :tokens].tril()

    def pairs(self):
        return sum(self.visible(g).sum().item() for g in range(HEADS_KV))

    def _reference(self, p, g):
        seen, k, v = self.visible(g), self.k[0, g].double(), self.v[0, g].double()
        dk, dv, rows = torch.zeros_like(k), torch.zeros_like(v), []
        for h in range(g * GROUP, (g + 1) * GROUP):
            q, dout = self.q[0, h].double(), self.dout[0, h].double()
            scores = (q @ k.T * p.dim**-0.5).masked_fill_(~seen, -torch.inf)
            lse = torch.logsumexp(scores, -1)
            weights = scores.sub_(lse[:, None]).exp_()
            o = weights @ v
            self.o[0, h], self.lse[0, h] = o.to(p.dtype), lse.float()
            if p.backward:
                dv += weights.T @ dout
                ds = (dout @ v.T).sub_((dout * o).sum(-1, keepdim=True)).mul_(weights)
                dk += ds.T @ q * p.dim**-0.5
                rows.append(ds @ k * p.dim**-0.5)
            else:
                rows.append(o)
        self.due[g] = torch.cat([*rows, dk, dv] if p.backward else rows).flatten()


def by_kv_head(tensors):
    """(1, KV head, numbers) of tensors (1, head, position, column)."""
    return torch.cat([t.reshape(1, HEADS_KV, -1) for t in tensors], -1)


class Ours(timing.Prepared):
    def __init__(self, kernel, p, sets, env):
        def prepare(inputs, o, lse, workspace):
            lists = attention.Lists(inputs.indices, BLOCK)
            if not p.backward:
                return kernel.prepare(inputs.q, inputs.k, inputs.v, o, lse, True, env, workspace, lists=lists)
            grads = tuple(torch.full_like(t, torch.nan) for t in (inputs.q, inputs.k, inputs.v))
            return kernel.prepare_backward(inputs.q, inputs.k, inputs.v, inputs.o, inputs.lse, inputs.dout, grads, True, env,
                                           workspace, lists)

        super().__init__(sets, prepare)
        self.path = self.calls[0].plan.path.decode()

    def result(self):
        self.run(0)
        call = self.calls[0]
        return by_kv_head(call.grads if hasattr(call, "grads") else [call.o]), None


class Fla:
    path = ""

    def __init__(self, p, sets):
        from fla.ops.nsa.parallel import parallel_nsa_bwd, parallel_nsa_fwd

        def call_of(x):
            q, k, v, o, lse, dout, lists = (t.transpose(1, 2).contiguous() for t in (
                x.q, x.k, x.v, x.o, x.lse, x.dout, x.indices))
            if p.backward:
                return lambda: parallel_nsa_bwd(q, k, v, o, lse, dout, lists, SELECT, BLOCK, p.dim**-0.5)
            return lambda: parallel_nsa_fwd(q, k, v, lists, SELECT, BLOCK, p.dim**-0.5)[:1]
        self.calls = [call_of(x) for x in sets]

    def run(self, n):
        return self.calls[n]()

    def result(self):
        return by_kv_head([t.transpose(1, 2) for t in self.run(0)]), None


def reference(inputs):
    for g, due in inputs.due.items():
        yield 0, g, due, None


def main():
    parser = timing.parser_of(__doc__)
    parser.add_argument("--only", choices=("forward", "backward"))
    parser.add_argument("--seqs", default="2048,8192", help="positions, with commas between")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    device, properties, env, kernels = timing.begin(arguments, ("nsa", "nsa_backward"))
    card = f"{properties.name}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    log(f"{card}\n\n| problem | kernel: path | us | TFLOP/s | fla us | ratio | after a rest |\n|{'-|' * 7}")
    rows, held = [], True
    for backward in (False, True) if arguments.only is None else (arguments.only == "backward",):
        for p in [Shape(backward, int(tokens), dim) for tokens in arguments.seqs.split(",") for dim in (64, 128)]:
            sets = [Inputs(p, device)]
            pairs = sets[0].pairs()
            makers = {p.kernel: lambda: Ours(kernels[p.kernel], p, sets, env), "fla": lambda: Fla(p, sets)}
            found, notes = timing.measure(sets, makers, lambda: reference(sets[0]), p.dtype, arguments.rounds)
            for name, why in notes.items():
                log(f"    {name}: {why[:160]}")
            held &= p.kernel in found
            rows.append({"problem": p.describe(), "pairs": pairs, "notes": notes,
                         "microseconds": {name: hot * 1e6 for name, (hot, _, _) in found.items()},
                         "rested": {name: rested * 1e6 for name, (_, rested, _) in found.items()}})
            if p.kernel in found:
                hot, rested, path = found[p.kernel]
                theirs = [f"{found['fla'][0] * 1e6:.0f}", f"{found['fla'][0] / hot:.3f}", f"{found['fla'][1] / rested:.3f}"] \
                    if "fla" in found else ["-"] * 3
                log(f"| {p.describe()} | {p.kernel}: {path} | {hot * 1e6:.0f} | {p.rate(pairs, hot):.1f} | {' | '.join(theirs)} |")
    if arguments.json:
        arguments.json.write_text(json.dumps({"card": card, "rows": rows}, indent=1) + "\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
