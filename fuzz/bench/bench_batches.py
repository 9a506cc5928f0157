#!/usr/bin/env python3
"""Times fa1 on packed entries and splitk on pages, at lengths that differ, beside FlashInfer, vLLM and PyTorch.

    python3 bench_batches.py --lib build/full/lib [--only packed|paged] [--markdown batches.md] [--json batches.json]

packed: causal prefill of packed entries, 16 heads of 128 or 32 of 64, or 32 heads on 8 KV heads. Three mixes of
lengths with 16,384 rows in all: equal, uniform (128 to 4,096 rows), and one long entry among short ones.
paged: one query of 32 heads on 8 KV heads with 128 columns (or 64) for each of 64 entries, or of 8; K and V in pages of
16 or 64 keys, in random order; lengths from an eighth to all of the longest.

FlashInfer compiles its kernels at the first call. Its plans, which read the lengths on the host, are made before the
timing, as are ours. timing.py compares and times the contenders. TFLOP/s count visible pairs of query and key; GB/s count
each key once.

Exit status: 0, or 1 if one of our kernels gave a wrong result or did not run, or 2 without a GPU or for a wrong option.
"""

import json
import pathlib
import random
import sys

import torch

import attention
import bench
import timing
from timing import log

ROWS = 16384


def mixes(rng):
    """name -> lengths of packed entries, ROWS in all."""
    uniform = []
    while sum(uniform) < ROWS:
        uniform.append(min(rng.randint(128, 4096), ROWS - sum(uniform)))
    short = [rng.randint(64, 512) for _ in range(24)]
    return {"equal": [2048] * 8, "uniform": uniform, "one long": short + [ROWS - sum(short)]}


class Packed:
    """Packed entries, in causal prefill."""
    kernel, unit, causal = "fa1", "TFLOP/s", True

    def __init__(self, mix, lengths, heads_q, heads_kv, dim, dtype):
        self.mix, self.lengths, self.heads_q, self.heads_kv, self.dim, self.dtype = mix, lengths, heads_q, heads_kv, dim, dtype

    def describe(self):
        return f"packed, {self.mix}, {len(self.lengths)} entries, longest {max(self.lengths)}, D{self.dim} {self.heads_q}/{self.heads_kv}"

    def rate(self, seconds):
        return 4 * sum(n * (n + 1) // 2 for n in self.lengths) * self.heads_q * self.dim / seconds / 1e12

    def kv_bytes(self):
        return 4 * self.heads_kv * sum(self.lengths) * self.dim


class Paged:
    """One query for each entry, keys in pages."""
    kernel, unit, causal = "splitk", "GB/s", False

    def __init__(self, batch, longest, page, heads_q, heads_kv, dim, dtype, rng):
        self.page, self.heads_q, self.heads_kv, self.dim, self.dtype = page, heads_q, heads_kv, dim, dtype
        self.lengths = [rng.randint(longest // 8, longest) for _ in range(batch - 1)] + [longest]

    def describe(self):
        return f"pages of {self.page}, {len(self.lengths)} entries, longest {max(self.lengths)}, D{self.dim} {self.heads_q}/{self.heads_kv}"

    def rate(self, seconds):
        return self.kv_bytes() / seconds / 1e9

    def kv_bytes(self):
        return 4 * self.heads_kv * sum(self.lengths) * self.dim


class PackedInputs:
    """Rows (row, head, dim); q, k and v are views of them as (1, head, row, dim)."""

    def __init__(self, p, device):
        total = sum(p.lengths)
        self.rows = [torch.randn(total, heads, p.dim, dtype=p.dtype, device=device) for heads in (p.heads_q, p.heads_kv, p.heads_kv)]
        self.q, self.k, self.v = (t.transpose(0, 1)[None] for t in self.rows)
        self.cu = torch.tensor([0, *p.lengths], device=device).cumsum(0).int()

    def entry(self, p, b):
        """Q, K and V of an entry: (head, row, dim); and its rows of O."""
        rows = slice(*self.cu[b : b + 2].tolist())
        return (*(t[0, :, rows] for t in (self.q, self.k, self.v)), 0, rows)


class PagedInputs:
    """Pools (page, slot, head, dim), and k and v, views of them as (page, head, slot, dim)."""

    def __init__(self, p, device):
        counts = [-(-n // p.page) for n in p.lengths]
        order = torch.randperm(sum(counts), device=device).int()
        self.pools = [torch.randn(sum(counts), p.page, p.heads_kv, p.dim, dtype=p.dtype, device=device) for _ in range(2)]
        self.k, self.v = (t.transpose(1, 2) for t in self.pools)
        self.q = torch.randn(len(counts), p.heads_q, 1, p.dim, dtype=p.dtype, device=device)
        self.lengths = torch.tensor(p.lengths, dtype=torch.int32, device=device)
        self.borders = torch.tensor([0, *counts], device=device).cumsum(0).int()
        self.order = order  # the pages of all entries, one entry after the other
        self.table = torch.full((len(counts), max(counts)), -1, dtype=torch.int32, device=device)
        for b, n in enumerate(counts):
            self.table[b, :n] = order[self.borders[b] : self.borders[b + 1]]

    def entry(self, p, b):
        pages = self.order[self.borders[b] : self.borders[b + 1]].long()
        k, v = (t[pages].reshape(-1, p.heads_kv, p.dim)[: p.lengths[b]].transpose(0, 1) for t in self.pools)
        return self.q[b], k, v, b, slice(0, 1)


def reference(p, inputs):
    """Yields (entry of O, (head, rows of O), O, LSE) in double precision."""
    for b, length in enumerate(p.lengths):
        q, k, v, entry, rows = inputs.entry(p, b)
        hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1) if p.causal else None
        for h in range(p.heads_q):
            kv = h // (p.heads_q // p.heads_kv)
            scores = q[h].double() @ k[kv].double().T * p.dim**-0.5
            if hidden is not None:
                scores.masked_fill_(hidden, -torch.inf)
            yield entry, (h, rows), torch.softmax(scores, -1) @ v[kv].double(), torch.logsumexp(scores, -1)


class Ours(timing.Prepared):
    def __init__(self, kernel, p, sets, env):
        def prepare(inputs, o, lse, workspace):
            if isinstance(p, Packed):
                form = {"packed": attention.Packed(inputs.cu, len(p.lengths), max(p.lengths))}
            else:
                form = {"table": inputs.table, "key_lengths": inputs.lengths}
            return kernel.prepare(inputs.q, inputs.k, inputs.v, o, lse, p.causal, env, workspace, **form)

        super().__init__(sets, prepare)
        self.path = self.calls[0].plan.path.decode()


class Other:
    """A library's kernel: `call(inputs)` gives O as rows."""
    path = ""

    def __init__(self, sets, make):
        self.calls = [make(inputs) for inputs in sets]

    def run(self, n):
        return self.calls[n]()

    def result(self):
        o = self.run(0)
        return (o[:, :, None] if self.one_query else o.transpose(0, 1)[None]), None


class OtherPacked(Other):
    one_query = False


class OtherPaged(Other):
    one_query = True


def flash(p):
    def make(inputs):
        q, k, v = inputs.rows
        k, v = (t.repeat_interleave(p.heads_q // p.heads_kv, dim=1) if p.heads_q != p.heads_kv else t for t in (k, v))
        longest = max(p.lengths)
        return lambda: torch.ops.aten._flash_attention_forward(q, k, v, inputs.cu, inputs.cu, longest, longest, 0.0, True, False,
                                                               scale=p.dim**-0.5)[0]
    return make


def flashinfer_ragged(p, back_end):
    import flashinfer

    def make(inputs):
        call = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
            torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), "NHD", backend=back_end)
        call.plan(inputs.cu, inputs.cu, p.heads_q, p.heads_kv, p.dim, causal=True, sm_scale=p.dim**-0.5, q_data_type=p.dtype)
        o = torch.empty_like(inputs.rows[0])
        return lambda: call.run(*inputs.rows, out=o)
    return make


def flashinfer_paged(p, tensor_cores):
    import flashinfer

    def make(inputs):
        call = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), "NHD", use_tensor_cores=tensor_cores)
        last = (inputs.lengths - 1) % p.page + 1
        call.plan(inputs.borders, inputs.order, last, p.heads_q, p.heads_kv, p.dim, p.page, sm_scale=p.dim**-0.5,
                  q_data_type=p.dtype)
        q, o = inputs.q[:, :, 0], torch.empty_like(inputs.q[:, :, 0])
        return lambda: call.run(q, tuple(inputs.pools), out=o)
    return make


def vllm(p):
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    def make(inputs):
        q = inputs.q[:, :, 0] if isinstance(p, Paged) else inputs.rows[0]
        o, longest = torch.empty_like(q), max(p.lengths)
        cu = torch.arange(len(p.lengths) + 1, dtype=torch.int32, device="cuda")
        table = inputs.table.clamp(min=0)

        def call():
            unified_attention(q=q, k=inputs.pools[0], v=inputs.pools[1], out=o, cu_seqlens_q=cu, max_seqlen_q=1,
                              seqused_k=inputs.lengths, max_seqlen_k=longest, softmax_scale=p.dim**-0.5, causal=True,
                              window_size=(-1, -1), block_table=table, softcap=0, q_descale=None, k_descale=None, v_descale=None)
            return o
        return call
    return make


def contenders_of(p, sets, kernels, env):
    """name -> a function that makes the contender."""
    makers = {p.kernel: lambda: Ours(kernels[p.kernel], p, sets, env)}
    if isinstance(p, Packed):
        makers["flash"] = lambda: OtherPacked(sets, flash(p))
        for back_end in ("fa3", "fa2"):
            makers[f"flashinfer {back_end}"] = lambda back_end=back_end: OtherPacked(sets, flashinfer_ragged(p, back_end))
    else:
        for name, tensor_cores in (("flashinfer", False), ("flashinfer mma", True)):
            makers[name] = lambda tensor_cores=tensor_cores: OtherPaged(sets, flashinfer_paged(p, tensor_cores))
        makers["vllm triton"] = lambda: OtherPaged(sets, vllm(p))
    return makers


def measure(p, kernels, env, device, rounds):
    sets = timing.make_sets(p, device, PackedInputs if isinstance(p, Packed) else PagedInputs)
    return timing.measure(sets, contenders_of(p, sets, kernels, env), lambda: reference(p, sets[0]), p.dtype, rounds)


def problems(only):
    rng = random.Random(33)
    if only != "paged":
        for heads_q, heads_kv, dim in ((16, 16, 128), (32, 8, 128), (32, 32, 64)):
            for mix, lengths in mixes(rng).items():
                yield Packed(mix, lengths, heads_q, heads_kv, dim, torch.float16)
    if only != "packed":
        for dim in (128, 64):
            for page in (16, 64):
                for batch, longest in ((64, 1024), (64, 8192), (8, 8192), (8, 65536)):
                    yield Paged(batch, longest, page, 32, 8, dim, torch.float16, rng)


def main():
    parser = timing.parser_of(__doc__)
    parser.add_argument("--only", choices=("packed", "paged"))
    parser.add_argument("--named", default="", help="only problems whose description has this: 'D64'")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    chosen = [p for p in problems(arguments.only) if arguments.named in p.describe()]
    if not chosen:
        parser.error(f"--named {arguments.named}: no such problem; each is described like {next(problems(arguments.only)).describe()!r}")
    device, properties, env, kernels = timing.begin(arguments, bench.OURS)
    card = (f"{properties.name}, torch {torch.__version__}, CUDA {torch.version.cuda}; "
            f"{timing.say_ceilings(timing.ceilings(device))}.")
    lines = [card, "", "| problem | kernel: path | us | rate | best other | us | ratio | cold | others |", "|" + "-|" * 9]
    log("\n".join(lines))
    rows, held = [], True
    for p in chosen:
        found, notes = measure(p, kernels, env, device, arguments.rounds)
        torch.cuda.empty_cache()
        for name, why in notes.items():
            log(f"    {name}: {why[:160]}")
        if p.kernel not in found:
            held = False
            continue
        hot, _, path = found[p.kernel]
        best, others = timing.cells_of(found, p.kernel)
        cells = [p.describe(), f"{p.kernel}: {path}", f"{hot * 1e6:.1f}", f"{p.rate(hot):.0f} {p.unit}", *best,
                 ", ".join(f"{name} {found[name][0] * 1e6:.1f}" for name in others)]
        lines.append(f"| {' | '.join(cells)} |")
        log(lines[-1])
        rows.append({"problem": p.describe(), "path": path, "rate": p.rate(hot), "unit": p.unit,
                     "microseconds": {name: found[name][0] * 1e6 for name in found},
                     "rested": {name: found[name][1] * 1e6 for name in found}, "notes": notes})
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({"card": card, "rows": rows}, indent=1) + "\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
