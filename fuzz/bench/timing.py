"""Compares and times contenders, for bench.py, bench_features.py and bench_batches.py.

Every contender first computes one problem into outputs filled with NaN, and is compared with a double-precision
reference. A wrong one is not timed. Each is then captured into a CUDA graph of enough calls, over as many sets of
random tensors as keep the L2 cache cold. All graphs are replayed in turn, in one order and then in the other. Figures
are medians over the rounds of one run, with the same tensors for all. A card at its power limit is slower hot than
after a rest, and the time of a graph depends on the power that the graph before it took. Rested measurements therefore
replay each graph after 50 ms of sleep. A rested figure is the median of 4 replays.

A contender has run(n), which computes with the n-th set of tensors, result(), which computes with the first set and
returns O, and LSE or None, and path, the name of what ran.
"""

import argparse
import math
import pathlib
import statistics
import sys
import time
import warnings

import torch

import attention

UNIT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # half an ulp of 1
COLD_BYTES = 192 << 20  # three times an H200's L2
GRAPH_SECONDS = 1e-3  # least work in a graph
COLD_GRAPH_SECONDS, COLD_SLEEP, COLD_ROUNDS = 3e-3, 0.05, 4


def log(text=""):
    print(text, flush=True)


def parser_of(manual):
    """The parser of a script, with --lib."""
    parser = argparse.ArgumentParser(description=manual, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "lib",
                        help="folder of libattn_*_cuda.so")
    return parser


def begin(arguments, names, variant=0):
    """The device, its properties, and the environment and the kernels to call. Without a GPU the script ends with status 2."""
    if not torch.cuda.is_available():
        log(f"{pathlib.Path(sys.argv[0]).name}: torch sees no GPU")
        sys.exit(2)
    warnings.filterwarnings("ignore")  # torch says at length why a back end is not available
    torch.manual_seed(1)
    device = torch.device("cuda")
    properties = torch.cuda.get_device_properties(device)
    kernels = {name: attention.load(str(arguments.lib.resolve() / f"libattn_{name}_cuda.so")) for name in names}
    return device, properties, attention.environment(properties, variant), kernels


def cells_of(found, kernel, digits=1):
    """The best other contender beside a kernel, hot and cold, as cells of a table; and the names of the others."""
    hot, cold, _ = found[kernel]
    others = sorted((name for name in found if name != kernel), key=lambda name: found[name][0])
    if not others:
        return ["-"] * 4, []
    best, best_hot, best_cold = others[0], *found[others[0]][:2]
    return [best, f"{best_hot * 1e6:.{digits}f}", f"{best_hot / hot:.2f}", f"{best_cold / cold:.2f}"], others[1:]


def make_sets(shape, device, make):
    """Enough sets of tensors to keep the L2 cache cold, made by `make(shape, device)`."""
    count = max(1, min(128, math.ceil(COLD_BYTES / shape.kv_bytes())))
    return [make(shape, device) for _ in range(count)]


class Prepared:
    """One of our kernels: a call for each set of tensors, planned beforehand by `prepare(inputs, o, lse, workspace)`."""

    def __init__(self, sets, prepare):
        self.calls = []
        workspace = None
        for inputs in sets:
            o = torch.full((*inputs.q.shape[:3], inputs.v.shape[3]), math.nan, dtype=inputs.q.dtype, device=inputs.q.device)
            lse = torch.full(inputs.q.shape[:3], math.nan, dtype=torch.float32, device=inputs.q.device)
            call = prepare(inputs, o, lse, workspace)
            workspace = call.workspace
            self.calls.append(call)

    def run(self, n):
        self.calls[n]()

    def result(self):
        self.run(0)
        return self.calls[0].o, self.calls[0].lse


def larger(a, b):
    """The larger of two numbers; NaN if one is NaN. Python's max() loses a NaN in one of the two orders."""
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def errors(expected, results):
    """name -> (||O - ref|| / ||ref||, largest |LSE - ref| or None). NaN stays NaN. `expected` yields the right result
    of one or more heads: (batch, heads, O, LSE) in double precision."""
    o_error = {name: 0.0 for name in results}
    lse_error = {name: None if lse is None else 0.0 for name, (_, lse) in results.items()}
    size = 0.0
    for b, heads, o, lse in expected:
        size += (o * o).sum().item()
        for name, (got_o, got_lse) in results.items():
            o_error[name] += (got_o[b][heads].double() - o).square().sum().item()
            if got_lse is not None:
                worst = (got_lse[b][heads].double() - lse).abs().max().item()
                lse_error[name] = larger(worst, lse_error[name])
    return {name: (math.sqrt(o_error[name] / size), lse_error[name]) for name in results}


def right(dtype, error):
    """A sanity check before timing; the judge is attnfuzz. Rounding P and O costs about unit / sqrt(3) each."""
    o_error, lse_error = error
    return o_error <= 4 * UNIT[dtype] and (lse_error is None or lse_error <= 1e-4)


def capture(contender, sets, seconds, graph_seconds):
    """A graph of calls over all sets, at least graph_seconds long; and the number of calls."""
    calls = len(sets) * max(1, math.ceil(graph_seconds / (seconds * len(sets))))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for n in range(min(3, len(sets))):
            contender.run(n)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for n in range(calls):
            contender.run(n % len(sets))
    return graph, calls


def elapsed(work):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3


def time_all(contenders, sets, rounds, cold):
    """name -> list of seconds for a call, hot and cold; the graphs run in turn, in one order and then in the other."""
    graphs, notes = {}, {}
    graph_seconds = COLD_GRAPH_SECONDS if cold else GRAPH_SECONDS
    for name, contender in contenders.items():
        try:
            contender.run(0)
            once = max(1e-6, min(elapsed(lambda: contender.run(0)) for _ in range(3)))
            graphs[name] = capture(contender, sets, once, graph_seconds)
            elapsed(graphs[name][0].replay)
        except RuntimeError as error:
            graphs.pop(name, None)
            notes[name] = str(error).splitlines()[0]
    samples = {name: [] for name in graphs}
    for n in range(rounds):
        for name in list(graphs)[:: 1 if n % 2 == 0 else -1]:
            graph, calls = graphs[name]
            samples[name].append(elapsed(graph.replay) / calls)
    rested = {name: [] for name in graphs}
    for n in range(COLD_ROUNDS if cold else 0):
        for name in list(graphs)[:: 1 if n % 2 == 0 else -1]:
            graph, calls = graphs[name]
            time.sleep(COLD_SLEEP)
            rested[name].append(elapsed(graph.replay) / calls)
    return samples, rested, notes


def compare(makers, errors_of, is_right, words="relative error {0[0]:.3g} of O, LSE off by {0[1]}"):
    """Makes the contenders of a problem and compares their results. `makers`: name -> a function that makes the contender;
    `errors_of(results)`: name -> error, of which is_right() says whether it is small enough. Returns the right contenders,
    all errors, and name -> why a contender is left out."""
    contenders, results, notes = {}, {}, {}
    for name, make in makers.items():
        try:
            contender = make()
            result = contender.result()
            torch.cuda.synchronize()
        except Exception as error:  # includes a compiler's errors
            notes[name] = (str(error).splitlines() or [type(error).__name__])[0]
            continue
        contenders[name], results[name] = contender, result
    found = errors_of(results)
    for name in results:
        if not is_right(found[name]):
            contenders.pop(name)
            notes[name] = "WRONG: " + words.format(found[name])
    return contenders, found, notes


def measure(sets, makers, reference, dtype, rounds):
    """Makes, compares and times the contenders of a problem. `makers`: as of compare(); `reference()` yields the right
    result of the first set, as errors() takes it. Returns name -> (seconds of a call, hot and after a rest; path), and
    name -> why there is no time."""
    contenders, _, notes = compare(makers, lambda results: errors(reference(), results), lambda error: right(dtype, error))
    samples, rested, failed = time_all(contenders, sets, rounds, True)
    found = {name: (statistics.median(samples[name]), statistics.median(rested[name]), contenders[name].path)
             for name in samples}
    return found, notes | failed


READ = r"""
extern "C" __global__ void read(const uint4* from, long long count, uint4* seen) {
  const long long step = (long long)gridDim.x * blockDim.x;
  uint4 all = {0, 0, 0, 0};
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i + 3 * step < count; i += 4 * step) {
    const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    all.x ^= a.x ^ b.x ^ c.x ^ d.x, all.y ^= a.y ^ b.y ^ c.y ^ d.y;
    all.z ^= a.z ^ b.z ^ c.z ^ d.z, all.w ^= a.w ^ b.w ^ c.w ^ d.w;
  }
  if (all.x == 1 && all.y == 2 && all.z == 3) *seen = all;
}
"""


def read_rate(source):
    """GB/s of reading a tensor once, the best of a few grids; None without CuPy, which compiles the kernel."""
    try:
        import cupy
    except ImportError:
        return None
    kernel, seen = cupy.RawKernel(READ, "read"), torch.zeros(16, device=source.device)
    size = source.numel() * source.element_size()

    def read(blocks):
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel((blocks,), (512,), (source.data_ptr(), size // 16, seen.data_ptr()))

    sms = torch.cuda.get_device_properties(source.device).multi_processor_count
    best = min(statistics.median(elapsed(lambda: read(blocks)) for _ in range(11)) for blocks in (8 * sms, 16 * sms, 32 * sms))
    return size / best / 1e9


def ceilings(device):
    """TFLOP/s of a bf16 matrix product, GB/s of a copy (read and written) and of a read, on random data."""
    a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device=device) for _ in range(2))
    source = torch.randn(1 << 30, device=device)
    target = torch.empty_like(source)
    for _ in range(3):
        a @ b
        target.copy_(source)
    product = statistics.median(elapsed(lambda: a @ b) for _ in range(10))
    copy = statistics.median(elapsed(lambda: target.copy_(source)) for _ in range(10))
    return {"matmul_tflops": 2 * 8192**3 / product / 1e12, "copy_gbs": 2 * 4 * (1 << 30) / copy / 1e9,
            "read_gbs": read_rate(source)}


def say_ceilings(found):
    read = "" if found["read_gbs"] is None else f", read {found['read_gbs']:.0f} GB/s"
    return f"bf16 product {found['matmul_tflops']:.0f} TFLOP/s, copy {found['copy_gbs']:.0f} GB/s{read}"
