#!/usr/bin/env python3
"""Times fa1 and splitk on problems with features beyond a causal mask, and on the seven smallest problems.

    python3 bench_features.py --lib build/full/lib --only features --markdown features.md
    python3 bench_features.py --lib build/full/lib --only small --markdown small.md

features: a window, eight query heads for each KV head, key lengths, a bias, a soft cap; in prefill (16 heads
of 128) and in decoding (one query). The contenders are FlexAttention, compiled for the problem, and PyTorch's
back ends if they support it. The back ends get a window, lengths or a bias as attn_mask, made before the
timing. They have no soft cap.
small: batch and heads 1, causal, 4 positions with dim 4, and 64 to 512 with dim 64, one call in a graph.

Contenders are compared and timed as timing.py says. TFLOP/s count visible pairs of query and key. GB/s count
the keys within the key lengths.

Exit status: 0, or 1 if one of our kernels gave a wrong result or did not run, or 2 without a GPU or for a wrong option.
"""

import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import attention
import bench
import timing
from timing import log


class Problem:
    """A shape with at most one feature: window (keys to the left), lengths, bias, softcap."""

    def __init__(self, name, kernel, batch, heads_q, heads_kv, seq_q, seq_k, dim, causal, window=None, lengths=False,
                 bias=False, softcap=0.0, dtype=torch.float16):
        self.name, self.kernel, self.batch, self.heads_q, self.heads_kv = name, kernel, batch, heads_q, heads_kv
        self.seq_q, self.seq_k, self.dim, self.causal, self.dtype = seq_q, seq_k, dim, causal, dtype
        self.window, self.lengths, self.bias, self.softcap = window, lengths, bias, softcap

    def kv_bytes(self):
        return 4 * self.batch * self.heads_kv * self.seq_k * self.dim

    def length_of(self, b):
        # A quarter to all of the keys; never a multiple of a tile.
        return self.seq_k - (b * 977 * self.seq_k // 4096) % (3 * self.seq_k // 4) if self.lengths else self.seq_k

    def visible(self, b, device):
        """(query, key) booleans; None: all are visible."""
        if not self.causal and self.window is None and not self.lengths:
            return None
        row = torch.arange(self.seq_q, device=device)[:, None]
        key = torch.arange(self.seq_k, device=device)[None, :]
        seen = (key < self.length_of(b)).expand(self.seq_q, self.seq_k)
        if self.causal:
            seen = seen & (key <= row)
        if self.window is not None:
            seen = seen & (key >= row - self.window)
        return seen

    def pairs(self):
        """The number of visible pairs of query and key, over all heads."""
        total = 0
        for b in range(self.batch):
            length = self.length_of(b)
            for i in range(self.seq_q) if self.causal else ():
                total += min(i + 1, length) - max(0, i - self.window if self.window is not None else 0)
            total += 0 if self.causal else self.seq_q * length
        return total * self.heads_q

    def describe(self):
        name = next(n for n, d in bench.DTYPES.items() if d == self.dtype)
        sizes = f"S={self.seq_k}" if self.seq_q > 1 else f"Sk={self.seq_k}"
        return f"{self.name}, {name} D{self.dim} {self.heads_q}/{self.heads_kv} B={self.batch} {sizes}"

    def rate(self, seconds):
        if self.seq_q > 1:
            return 4 * self.pairs() * self.dim / seconds / 1e12
        keys = sum(self.length_of(b) for b in range(self.batch))
        return 4 * self.heads_kv * keys * self.dim / seconds / 1e9


FEATURES = [
    Problem("causal, window 1024", "fa1", 2, 16, 16, 8192, 8192, 128, True, window=1024),
    Problem("causal, 8 heads a KV head", "fa1", 4, 16, 2, 4096, 4096, 128, True),
    Problem("key lengths", "fa1", 8, 16, 16, 2048, 2048, 128, False, lengths=True),
    Problem("bias", "fa1", 8, 16, 16, 2048, 2048, 128, False, bias=True),
    Problem("causal, soft cap 20", "fa1", 4, 16, 16, 4096, 4096, 128, True, softcap=20.0),
    Problem("decode, 8 heads a KV head", "splitk", 8, 64, 8, 1, 8192, 128, False),
    Problem("decode, key lengths", "splitk", 64, 32, 8, 1, 8192, 128, False, lengths=True),
    Problem("decode, bias", "splitk", 8, 32, 8, 1, 8192, 128, False, bias=True),
    Problem("decode, soft cap 20", "splitk", 8, 32, 8, 1, 8192, 128, False, softcap=20.0),
]
SMALL = [Problem("causal", "fa1", 1, 1, 1, s, s, d, True)
         for s, d in ((4, 4), (64, 64), (65, 64), (128, 64), (192, 64), (256, 64), (512, 64))]


class Inputs(bench.Inputs):
    """One set of tensors, including the feature's."""

    def __init__(self, p, device):
        super().__init__(p, device)
        self.lengths = torch.tensor([p.length_of(b) for b in range(p.batch)], device=device) if p.lengths else None
        self.bias = torch.randn(1, p.heads_q, p.seq_q, p.seq_k, dtype=p.dtype, device=device) if p.bias else None


def dense_mask(p, inputs):
    """The tensor for attn_mask; None if is_causal suffices."""
    if p.bias:
        return inputs.bias.expand(p.batch, -1, -1, -1)
    if p.window is None and not p.lengths:
        return None
    seen = torch.stack([p.visible(b, inputs.q.device) for b in range(p.batch if p.lengths else 1)])[:, None]
    return torch.where(seen, 0.0, -math.inf).to(p.dtype).expand(p.batch, p.heads_q, -1, -1)


class Ours(timing.Prepared):
    def __init__(self, kernel, p, sets, env):
        super().__init__(sets, lambda inputs, o, lse, workspace: kernel.prepare(
            inputs.q, inputs.k, inputs.v, o, lse, p.causal, env, workspace,
            window_left=-1 if p.window is None else p.window, softcap=p.softcap, key_lengths=inputs.lengths,
            bias=None if inputs.bias is None else inputs.bias.expand(p.batch, -1, -1, -1)))
        self.path = self.calls[0].plan.path.decode()


class Torch:
    def __init__(self, back_end, p, sets):
        if p.softcap > 0:
            raise attention.Refused("it knows no soft cap")
        self.back_end, self.p, self.sets, self.path = back_end, p, sets, ""
        self.masks = [dense_mask(p, inputs) for inputs in sets]

    def run(self, n):
        inputs, mask = self.sets[n], self.masks[n]
        with sdpa_kernel([self.back_end]):
            return F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v, attn_mask=mask,
                                                  is_causal=self.p.causal and mask is None,
                                                  enable_gqa=self.p.heads_q != self.p.heads_kv)

    def result(self):
        return self.run(0), None


class Flex:
    def __init__(self, p, sets):
        torch._dynamo.reset()
        self.compiled, self.p, self.sets, self.path = torch.compile(flex_attention, dynamic=False), p, sets, ""
        first = sets[0]
        lengths, bias = first.lengths, first.bias  # in the block mask, and so the same for all sets
        self.block_mask, self.score_mod = None, None
        if p.causal or p.lengths:
            def seen(b, h, q, k):
                result = k >= 0
                if p.causal:
                    result = result & (k <= q)
                if p.window is not None:
                    result = result & (k >= q - p.window)
                return result & (k < lengths[b]) if p.lengths else result
            self.block_mask = create_block_mask(seen, p.batch if p.lengths else None, None, p.seq_q, p.seq_k,
                                                device=first.q.device)
        if p.softcap > 0:
            self.score_mod = lambda score, b, h, q, k: p.softcap * torch.tanh(score / p.softcap)
        if p.bias:
            self.score_mod = lambda score, b, h, q, k: score + bias[0, h, q, k]

    def run(self, n):
        inputs = self.sets[n]
        return self.compiled(inputs.q, inputs.k, inputs.v, score_mod=self.score_mod, block_mask=self.block_mask,
                             enable_gqa=self.p.heads_q != self.p.heads_kv)

    def result(self):
        return self.run(0), None


def reference(p, inputs):
    """Yields (batch, query head, O, LSE) in double precision."""
    for b in range(p.batch):
        seen = p.visible(b, inputs.q.device)
        for h in range(p.heads_q):
            kv = h // (p.heads_q // p.heads_kv)
            scores = inputs.q[b, h].double() @ inputs.k[b, kv].double().T * p.dim**-0.5
            if p.softcap > 0:
                scores = p.softcap * torch.tanh(scores / p.softcap)
            if p.bias:
                scores += inputs.bias[0, h].double()
            if seen is not None:
                scores.masked_fill_(~seen, -math.inf)
            yield b, h, torch.softmax(scores, -1) @ inputs.v[b, kv].double(), torch.logsumexp(scores, -1)


def measure(p, kernels, env, device, rounds, flex):
    # A mask or a bias is read, too: one set of tensors exceeds the cache.
    sets = [Inputs(p, device)] if p.bias else timing.make_sets(p, device, Inputs)
    makers = {p.kernel: lambda: Ours(kernels[p.kernel], p, sets, env)}
    makers |= {name: (lambda back_end=back_end: Torch(back_end, p, sets)) for name, back_end in bench.BACK_ENDS.items()
               if name != "math" or p.seq_q * p.seq_k <= 512**2}
    if flex:
        makers["flex"] = lambda: Flex(p, sets)
    return timing.measure(sets, makers, lambda: reference(p, sets[0]), p.dtype, rounds)


def main():
    parser = timing.parser_of(__doc__)
    parser.add_argument("--only", choices=("features", "small"), required=True)
    parser.add_argument("--named", default="", help="only problems whose name has one of these words: bias,cap")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--variant", type=int, default=0)
    parser.add_argument("--no-flex", action="store_true", help="do not compile FlexAttention")
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    small, words = arguments.only == "small", arguments.named.split(",")
    of_kind = SMALL if small else FEATURES
    chosen = [p for p in of_kind if any(word in p.name for word in words)]
    if not chosen:
        parser.error(f"--named {arguments.named}: no such problem; there are {', '.join(sorted({p.name for p in of_kind}))}")
    device, properties, env, kernels = timing.begin(arguments, bench.OURS, arguments.variant)
    ceilings = timing.ceilings(device)
    lines = [f"{properties.name}, torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN "
             f"{torch.backends.cudnn.version()}; {timing.say_ceilings(ceilings)}.", ""]
    # Prints the hot time of a call and, for features, its rate.
    head = ["problem", "kernel: path", "us", *([] if small else ["rate"]), "best other", "us", "ratio", "cold", "others"]
    lines += [f"| {' | '.join(head)} |", "|" + "-|" * len(head)]
    log("\n".join(lines))
    held = True
    for p in chosen:
        found, notes = measure(p, kernels, env, device, arguments.rounds, not small and not arguments.no_flex)
        torch.cuda.empty_cache()
        if p.kernel not in found:
            held = False
            log(f"{p.describe()}: {notes[p.kernel]}")
            continue
        hot, _, path = found[p.kernel]
        cells = [p.describe(), f"{p.kernel}: {path}", f"{hot * 1e6:.2f}"]
        if not small:
            cells.append(f"{p.rate(hot):.0f} {'TFLOP/s' if p.seq_q > 1 else 'GB/s'}")
        best, others = timing.cells_of(found, p.kernel, 2)
        cells += best + [", ".join(f"{name} {found[name][0] * 1e6:.1f}" for name in others)]
        lines.append(f"| {' | '.join(cells)} |")
        log(lines[-1])
        for name, why in notes.items():
            log(f"    {name}: {why[:160]}")
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
