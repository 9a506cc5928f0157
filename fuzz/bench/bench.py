#!/usr/bin/env python3
"""Times fa1 and splitk on a GPU beside PyTorch's attention back ends and FlashInfer's MLA decode.

    python3 bench.py --lib build/full/lib [--only prefill|decode|mla|backward] [--json FILE]
    python3 bench.py --lib build/full/lib --only prefill --kernels fa1 --against cudnn,flash \\
                     --dtype both --cold --markdown speed.md
    python3 bench.py --lib build/full/lib --only decode --kernels splitk --against cudnn,flash \\
                     --dtype both --cold --markdown decode.md

Prefill: batch * positions = 16384, heads * dim = 2048, 512 to 16384 positions, dim 64, 128 and 256,
full and causal; in TFLOP/s, 4 B H S^2 D operations, half of it if causal. Decode: one query, 32
query heads on 8 KV heads, dim 128, 512 to 131072 keys; in GB/s of K and V read once. MLA: one query
of 16 or 128 heads on one latent head, 576 columns of Q and K, of which V is the first 512, 512 to
32768 keys; in GB/s of the latent read once. PyTorch's back ends get the heads as queries of one head,
the form that suits them best. FlashInfer's (fi-fa2, fi-fa3), if it is installed, get the same latents as
pages of 64 keys, and write no LSE. Backward runs only on request; backward.py describes it.

timing.py compares and times the contenders. Figures are medians of --rounds replays; with --cold,
each is also timed after a rest. A large matrix product, a large copy and a large read are timed
before and after, and give the device's ceilings at that time.

Exit status: 0, or 1 if one of our kernels gave a wrong result, or 2 without a GPU.
"""

import json
import math
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attention
import backward
import timing
from timing import log, say_ceilings

OURS = ("fa1", "splitk")
BACK_ENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "fi-fa2": "fa2",  # of FlashInfer's wrapper
    "fi-fa3": "fa3",
}
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
MATH_BYTES = 32 << 30  # scores that the plain back end may materialise, in fp32


class Shape:
    def __init__(self, kind, batch, heads_q, heads_kv, seq_q, seq_k, dim, causal, dtype):
        self.kind, self.batch, self.heads_q, self.heads_kv = kind, batch, heads_q, heads_kv
        self.seq_q, self.seq_k, self.dim, self.causal, self.dtype = seq_q, seq_k, dim, causal, dtype
        self.dim_v = 512 if kind == "mla" else dim

    def describe(self):
        name = next(n for n, d in DTYPES.items() if d == self.dtype)
        if self.kind == "prefill":
            return f"prefill {name} D{self.dim} {'causal' if self.causal else 'full'} S={self.seq_k}"
        return f"{self.kind} {name} D{self.dim} {self.heads_q}/{self.heads_kv} B={self.batch} Sk={self.seq_k}"

    def flops(self):
        return 4 * self.batch * self.heads_q * self.seq_q * self.seq_k * self.dim / (2 if self.causal else 1)

    def kv_bytes(self):
        columns = self.dim if self.kind == "mla" else 2 * self.dim
        return 2 * self.batch * self.heads_kv * self.seq_k * columns

    def rate(self, seconds):
        return self.flops() / seconds / 1e12 if self.kind == "prefill" else self.kv_bytes() / seconds / 1e9

    def unit(self):
        return "TFLOP/s" if self.kind == "prefill" else "GB/s"


def shapes(only, dtypes, dims, batches, tokens, width, longest):
    for dtype in dtypes:
        if only in (None, "prefill"):
            for dim in dims:
                for causal in (False, True):
                    seq = 512
                    while seq <= min(tokens, longest):
                        heads = width // dim
                        yield Shape("prefill", tokens // seq, heads, heads, seq, seq, dim, causal, dtype)
                        seq *= 2
        if only in (None, "decode"):
            for batch in batches:
                seq = 512
                while seq <= min(131072, 8 * longest):
                    shape = Shape("decode", batch, 32, 8, 1, seq, 128, False, dtype)
                    if shape.kv_bytes() <= 40 << 30:
                        yield shape
                    seq *= 2
        if only in (None, "mla"):
            for heads in (16, 128):
                for batch in batches:
                    for seq in (512, 2048, 8192, 32768):
                        yield Shape("mla", batch, heads, 1, 1, seq, 576, False, dtype)


class Inputs:
    """One set of tensors, which every contender reads."""

    def __init__(self, shape, device):
        def random(heads, seq):
            return torch.randn(shape.batch, heads, seq, shape.dim, dtype=shape.dtype, device=device)

        self.q = random(shape.heads_q, shape.seq_q)
        self.k = random(shape.heads_kv, shape.seq_k)
        self.v = self.k[..., : shape.dim_v] if shape.kind == "mla" else random(shape.heads_kv, shape.seq_k)


class Ours(timing.Prepared):
    def __init__(self, kernel, shape, sets, env):
        super().__init__(sets, lambda inputs, o, lse, workspace: kernel.prepare(
            inputs.q, inputs.k, inputs.v, o, lse, shape.causal, env, workspace, latent=shape.kind == "mla"))
        plan = self.calls[0].plan
        self.path = f"{plan.path.decode()}, {plan.num_splits} split(s)"


class Torch:
    def __init__(self, back_end, shape, sets):
        if back_end is SDPBackend.MATH and 4 * shape.batch * shape.heads_q * shape.seq_q * shape.seq_k > MATH_BYTES:
            raise attention.Refused("its scores would take too much memory")
        self.back_end, self.shape, self.sets, self.path = back_end, shape, sets, ""

    def run(self, n):
        inputs = self.sets[n]
        with sdpa_kernel([self.back_end]):
            if self.shape.kind == "mla":
                return F.scaled_dot_product_attention(inputs.q.transpose(1, 2), inputs.k, inputs.v).transpose(1, 2)
            return F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v, is_causal=self.shape.causal,
                                                  enable_gqa=self.shape.heads_q != self.shape.heads_kv)

    def result(self):
        return self.run(0), None


class FlashInfer:
    """FlashInfer's decode of multi-head latent attention. A batch entry's latents are consecutive pages of 64 keys."""

    def __init__(self, back_end, shape, sets):
        if shape.kind != "mla":
            raise attention.Refused("only MLA is timed")
        try:
            from flashinfer.mla import BatchMLAPagedAttentionWrapper, MLAPlanMetadata
        except ImportError as error:
            raise attention.Refused(f"no FlashInfer: {error}") from error
        pages, device = shape.seq_k // 64, sets[0].q.device

        def indices(count, step=1):
            return step * torch.arange(count, dtype=torch.int32, device=device)

        self.sets, self.path = sets, ""
        self.wrapper = BatchMLAPagedAttentionWrapper(torch.empty(128 << 20, dtype=torch.uint8, device=device),
                                                     backend=back_end)
        lengths = torch.full((shape.batch,), shape.seq_k, dtype=torch.int32, device=device)
        self.wrapper.plan(metadata=MLAPlanMetadata.csr(
            qo_indptr=indices(shape.batch + 1), kv_indptr=indices(shape.batch + 1, pages),
            kv_indices=indices(shape.batch * pages), kv_len_arr=lengths), num_heads=shape.heads_q, head_dim_ckv=512,
            head_dim_kpe=64, page_size=64, causal=False, sm_scale=shape.dim**-0.5, q_data_type=shape.dtype,
            kv_data_type=shape.dtype)

    def run(self, n):
        inputs = self.sets[n]
        o = self.wrapper.run(query=inputs.q.squeeze(2), kv_cache=inputs.k.view(-1, 64, inputs.k.shape[3]))
        return o.unsqueeze(2)

    def result(self):
        return self.run(0), None


def reference(shape, inputs):
    """Yields (batch, query heads, O, LSE) in double precision, some heads at a time."""
    group = shape.heads_q // shape.heads_kv
    at_once = max(1, (1 << 27) // (shape.seq_q * group * shape.seq_k + shape.seq_k * shape.dim))
    for b in range(shape.batch):
        for first in range(0, shape.heads_kv, at_once):
            heads = slice(first, min(first + at_once, shape.heads_kv))
            k, v = inputs.k[b, heads].double(), inputs.v[b, heads].double()
            q_heads = slice(heads.start * group, heads.stop * group)
            # The queries of a group are rows of one product.
            q = inputs.q[b, q_heads].double().reshape(k.shape[0], group * shape.seq_q, shape.dim)
            scores = q @ k.transpose(1, 2) * shape.dim**-0.5
            if shape.causal:
                row = torch.arange(shape.seq_q, device=q.device).repeat(group)[:, None]
                scores.masked_fill_(torch.arange(shape.seq_k, device=q.device)[None, :] > row, -math.inf)
            lse = torch.logsumexp(scores, -1)
            scores.sub_(lse[..., None]).exp_()
            o = scores @ v
            rows = (q_heads.stop - q_heads.start, shape.seq_q)
            yield b, q_heads, o.reshape(*rows, shape.dim_v), lse.reshape(rows)


def bench_shape(shape, kernels, against, env, device, rounds, cold):
    sets = timing.make_sets(shape, device, Inputs)
    makers = {kernel.name: (lambda kernel=kernel: Ours(kernel, shape, sets, env)) for kernel in kernels}
    makers |= {name: (lambda back_end=back_end: (FlashInfer if isinstance(back_end, str) else Torch)(back_end, shape, sets))
               for name, back_end in BACK_ENDS.items() if name in against}
    contenders, found, notes = timing.compare(
        makers, lambda results: timing.errors(reference(shape, sets[0]), results), lambda error: timing.right(shape.dtype, error))
    wrong = [name for name in found if name not in contenders]
    samples, rested, failed = timing.time_all(contenders, sets, rounds, cold)
    notes |= failed
    row = {"shape": shape.describe(), "unit": shape.unit(), "notes": notes, "contenders": {},
           "wrong": [name for name in wrong if name in OURS]}
    for name, seconds in samples.items():
        median = statistics.median(seconds)
        row["contenders"][name] = {
            "seconds": median, "least_seconds": min(seconds), "most_seconds": max(seconds),
            "rate": shape.rate(median), "relative_error": found[name][0], "path": contenders[name].path}
        if cold:
            row["contenders"][name]["cold_rate"] = shape.rate(statistics.median(rested[name]))
    theirs = {name: c["rate"] for name, c in row["contenders"].items() if name in BACK_ENDS}
    row["fastest"] = max(theirs, key=theirs.get) if theirs else None
    if theirs:
        row["ratio"] = {n: row["contenders"][n]["rate"] / theirs[row["fastest"]]
                        for n in OURS if n in row["contenders"]}
    return row


def print_row(row):
    cells = []
    for name in (*OURS, *BACK_ENDS):
        contender = row["contenders"].get(name)
        value = f"{contender['rate']:.1f}" if contender else ("WRONG" if "WRONG" in row["notes"].get(name, "") else "-")
        cells.append(f"{value:>10}")
    if any("cold_rate" in contender for contender in row["contenders"].values()):
        cells.append("  cold:" + "".join(f"{row['contenders'][name]['cold_rate']:>8.1f}" for name in
                                         (*OURS, *BACK_ENDS) if name in row["contenders"]))
    ratios = "  ".join(f"{ratio:5.2f}" for ratio in (row.get("ratio", {}).get(name, math.nan) for name in OURS))
    log(f"{row['shape']:<36}{''.join(cells)}   {row['fastest'] or '-':<9} {ratios}")


def print_head(unit):
    log(f"\n{unit:<36}{''.join(f'{name:>10}' for name in (*OURS, *BACK_ENDS))}   fastest   ours / fastest: {', '.join(OURS)}")


def markdown(out, kernel):
    """The table rows of one kernel: its cold rate, and its ratios to cuDNN and flash, cold and hot,
    if these ran. For decode, also its hot time and its share of the read rate."""
    decode = any(row["unit"] == "GB/s" for row in out["rows"])
    unit = "GB/s" if decode else "TFLOP/s"
    rivals = [(name, title) for name, title in (("cudnn", "cuDNN"), ("flash", "flash"))
              if any(name in row["contenders"] for row in out["rows"])]
    head = ["problem", "path", *(["us hot", "of read rate"] if decode else []), f"{unit} cold",
            *(f"{title} cold" for _, title in rivals[:1])]
    for _, title in rivals:
        head += [f"x {title} cold", "hot"]
    lines = [f"{out['device']}, torch {out['torch']}, CUDA {out['cuda']}, cuDNN {out['cudnn']}; "
             f"{say_ceilings(out['before'])} before, {say_ceilings(out['after'])} after.", "",
             f"| {' | '.join(head)} |", "|" + "-|" * len(head)]
    logs = []
    for row in out["rows"]:
        mine = row["contenders"].get(kernel)
        if mine is None or "cold_rate" not in mine or row["unit"] != unit:
            continue
        cells = [row["shape"].removeprefix("prefill ").removeprefix("decode "), mine["path"]]
        if decode:
            read = out["before"]["read_gbs"]
            cells += [f"{mine['seconds'] * 1e6:.2f}", f"{mine['rate'] / read:.2f}" if read else "-"]
        cells.append(f"{mine['cold_rate']:.0f}")
        others = [row["contenders"].get(name) for name, _ in rivals]
        for other in others[:1]:
            cells.append(f"{other['cold_rate']:.0f}" if other else "-")
            if other:
                logs.append(math.log(mine["cold_rate"] / other["cold_rate"]))
        for other in others:
            for rate in ("cold_rate", "rate"):
                cells.append(f"{mine[rate] / other[rate]:.2f}" if other else "-")
        lines.append("| " + " | ".join(cells) + " |")
    if logs:
        lines += ["", f"Geometric mean of the cold ratios to {rivals[0][1]}: {math.exp(sum(logs) / len(logs)):.3f}, "
                      f"least {math.exp(min(logs)):.3f}, of {len(logs)}."]
    return "\n".join(lines) + "\n"


def main():
    parser = timing.parser_of(__doc__)
    parser.add_argument("--only", choices=("prefill", "decode", "mla", "backward"))
    parser.add_argument("--dtype", choices=("f16", "bf16", "both"), default="f16")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=420, help="begin no new problem after this time")
    parser.add_argument("--longest", type=int, default=16384, help="most positions; keys of decode and MLA: 8 times")
    parser.add_argument("--dims", default="64,128,256", help="of prefill")
    parser.add_argument("--batches", default="1,8,64", help="of decode and MLA")
    parser.add_argument("--variant", type=int, default=0,
                        help="instantiation to ask for; 2: fa1's path for sm_80, whatever the GPU")
    parser.add_argument("--kernels", help=f"which of ours: {','.join(OURS)}; backward: {backward.OURS}")
    parser.add_argument("--against", default=",".join(BACK_ENDS), help="which of PyTorch's and FlashInfer's back ends")
    parser.add_argument("--seqs", help="of backward, instead of all from 512 to --longest")
    parser.add_argument("--cold", action="store_true", help="measure after a rest as well")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path, help="with --cold: a table of the first kernel's rows")
    arguments = parser.parse_args()
    start, is_backward = time.monotonic(), arguments.only == "backward"
    names = [] if is_backward else (arguments.kernels or ",".join(OURS)).split(",")
    device, properties, env, kernels = timing.begin(arguments, names, arguments.variant)
    if is_backward:
        return backward.run(arguments, [DTYPES[name] for name in DTYPES if arguments.dtype in (name, "both")], device)
    dtypes = list(DTYPES.values()) if arguments.dtype == "both" else [DTYPES[arguments.dtype]]
    out = {"device": properties.name, "torch": torch.__version__, "cuda": torch.version.cuda,
           "cudnn": torch.backends.cudnn.version(), "rounds": arguments.rounds, "before": timing.ceilings(device), "rows": []}
    log(f"{out['device']}, torch {out['torch']}, CUDA {out['cuda']}, cuDNN {out['cudnn']}; {say_ceilings(out['before'])}")
    skipped, unit = [], None
    dims, batches = ([int(n) for n in text.split(",")] for text in (arguments.dims, arguments.batches))
    for shape in shapes(arguments.only, dtypes, dims, batches, 16384, 2048, arguments.longest):
        if time.monotonic() - start > arguments.seconds:
            skipped.append(shape.describe())
            continue
        row = bench_shape(shape, list(kernels.values()), arguments.against.split(","), env, device, arguments.rounds, arguments.cold)
        torch.cuda.empty_cache()
        out["rows"].append(row)
        if row["unit"] != unit:
            unit = row["unit"]
            print_head(unit)
        print_row(row)
    out["after"], out["skipped"] = timing.ceilings(device), skipped
    log(f"\nafter: {say_ceilings(out['after'])}")
    notes = sorted({f"{row['shape']}: {name}: {note}" for row in out["rows"] for name, note in row["notes"].items()
                    if name in OURS})
    for note in notes:
        log(note)
    if skipped:
        log(f"{len(skipped)} problems left out after {arguments.seconds:.0f} s: {', '.join(skipped)}")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(out, names[0]))
    if arguments.json:
        arguments.json.write_text(json.dumps(out, indent=1) + "\n")
    return 1 if any(row["wrong"] for row in out["rows"]) or not out["rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
