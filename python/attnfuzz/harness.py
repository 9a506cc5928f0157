"""Judges kernels from public harnesses as untrusted kernels. Each is called as its harness calls it, on problems that
nobody chose, with a bound for every element instead of a tolerance.

    attnfuzz.harness.kernelbench("new_model.py", domain=attnfuzz.Domain(dtypes=("f32",), dim={32, 64}, ...))
    attnfuzz.harness.flashinfer_bench("solution.json", "definition.json")

Both return the result of attnfuzz.judge(). A submission is not imported in this process, but in a worker once that is
confined (docs/untrusted.md); untrusted=False disables this. Code that compiles while it runs cannot be confined.

KernelBench: a file with a class ModelNew, whose forward(Q, K, V) takes (batch, heads, length, dim) and returns O.
FlashInfer-Bench: a Solution in Python or Triton and its Definition, of the kinds gqa_ragged (prefill) and gqa_paged
(prefill and decode); the LSE has base 2.
"""

import importlib.util
import json
import math
import os
import sys
import tempfile
from dataclasses import replace

from attnfuzz.declare import Unsupported
from attnfuzz.domain import Domain, Size, at_least, at_most
from attnfuzz.errors import Errors
from attnfuzz.judge import named_modules, verdict_on

# Features that neither harness has.
_PLAIN = dict(window=False, softcap=False, bias=False, mask=False, non_finite=False)

_FILE = """import attnfuzz
from attnfuzz import harness
from attnfuzz.domain import Domain, Size
from attnfuzz.errors import Errors

{imports}
submission = attnfuzz.target({made}, device={device!r}, arrays={arrays!r}, errors={errors!r}, domain={domain!r})
"""


def kernelbench(path, name="ModelNew", causal=False, domain=None, errors=None, device="cuda", arrays="torch", seconds=20,
                seed=None, untrusted=True):
    """`causal`: true if the model is. `domain`: the sizes and formats that it must take; by default any batch, lengths up to
    1024 and 32, 64 or 128 dims, in fp32. A model has its own scale, 1/sqrt(dim)."""
    if domain is None:
        domain = Domain(dtypes=("f32",), seq=range(1, 1025), dim={32, 64, 128})
    domain = replace(domain, equal_lengths=True, equal_dims=True, gqa=False, causal="only" if causal else False,
                     align="top_left" if causal else None, key_lengths=False, lse=False, scale=False,
                     batch=_without_none(domain.batch), **_PLAIN)
    path = os.path.abspath(path)
    made = f"harness.model_of({path!r}, {name!r})"
    return _judged(made, [path], domain, errors, device, arrays, seconds, seed, untrusted, os.path.dirname(path))


def flashinfer_bench(solution, definition, errors=None, device="cuda", arrays="torch", seconds=20, seed=None,
                     untrusted=True):
    """Each argument is a path of a JSON file, or its content."""
    solution, definition = (_read(one) for one in (solution, definition))
    shape = Shape(definition)
    spec = solution["spec"]
    if spec["language"] not in ("python", "triton"):
        raise ValueError(f"a solution in {spec['language']}: only python and triton are called from here")
    domain = Domain(dtypes=(shape.dtype,), dim=at_most(shape.dim), heads_q=at_most(shape.heads_kv),
                    seq_q=1 if shape.decode else None, causal="only" if shape.causal else False,
                    align="bottom_right" if shape.causal else None, scale="positive", equal_dims=True, gqa=False,
                    batch=at_least(1), **_PLAIN)
    with tempfile.TemporaryDirectory() as folder:
        for source in solution["sources"]:
            path = os.path.normpath(os.path.join(folder, source["path"]))
            if not path.startswith(folder + os.sep):
                raise ValueError(f"a source of the path {source['path']!r}, which leaves the solution's folder")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(source["content"])
        file, function = spec["entry_point"].split("::")
        passes = spec.get("destination_passing_style", True)
        made = f"harness.solution_of({folder!r}, {file!r}, {function!r}, {passes!r}, {_part_of(definition)!r})"
        files = [os.path.join(folder, s["path"]) for s in solution["sources"] if s["path"].endswith(".py")]
        return _judged(made, files, domain, errors, device, arrays, seconds, seed, untrusted, folder)


def _without_none(batch):
    """The same sizes of a batch, but not 0, which no harness has."""
    size = Size.of(batch)
    return Size(max(size.least or 1, 1), size.most, size.multiple, size.only and [n for n in size.only if n > 0])


def _read(one):
    if isinstance(one, dict):
        return one
    with open(one) as f:
        return json.load(f)


def _part_of(definition):
    return {key: definition[key] for key in ("name", "axes", "inputs", "outputs")}


def _judged(made, files, domain, errors, device, arrays, seconds, seed, untrusted, beside):
    own = {os.path.splitext(os.path.basename(f))[0] for f in files}
    imports = sorted({m for f in files for m in named_modules(f) if m.split(".")[0] not in own | {"attnfuzz"}})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "submitted.py")
        with open(path, "w") as f:
            f.write(_FILE.format(imports="\n".join(f"import {m}" for m in imports), made=made, device=device,
                                 arrays=arrays, errors=errors or Errors(), domain=domain))
        return verdict_on(f"{path}:submission", seconds, seed, errors, domain, untrusted, beside)


# Runs in the worker.


def _imported(path):
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def model_of(path, name):
    module = _imported(path)
    models = {}

    def model(p, q, k, v):
        """a model of KernelBench's form"""
        place = str(getattr(q, "device", "cpu")), str(q.dtype)
        if place not in models:
            arguments = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
            made = getattr(module, name)(*arguments)
            models[place] = made.to(q.device, q.dtype).eval() if hasattr(made, "eval") else made
        made = models[place]
        return (made if callable(made) else made.forward)(*(_dense(t) for t in (q, k, v)))

    return model


class Shape:
    """The domain of a Definition's kernel; ValueError for an unknown kind."""

    def __init__(self, definition):
        inputs, axes = definition["inputs"], definition["axes"]
        fixed = {name: axis["value"] for name, axis in axes.items() if axis["type"] == "const"}
        if "q" not in inputs or not {"num_qo_heads", "num_kv_heads", "head_dim"} <= fixed.keys():
            raise ValueError(f"{definition['name']} is neither gqa_ragged nor gqa_paged")
        self.names, self.outputs = list(inputs), list(definition["outputs"])
        self.paged, self.decode = "k_cache" in inputs, "qo_indptr" not in inputs
        self.causal = not self.decode and "causal" in definition["name"]
        self.heads_q, self.heads_kv, self.dim = (fixed[n] for n in ("num_qo_heads", "num_kv_heads", "head_dim"))
        self.page = fixed.get("page_size", 1)
        self.dtype = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}[inputs["q"]["dtype"]]
        known = {"q", "k", "v", "k_cache", "v_cache", "qo_indptr", "kv_indptr", "kv_indices", "kv_last_page_len",
                 "sm_scale"}
        if not set(self.names) <= known:
            raise ValueError(f"{definition['name']} has inputs that are not known here: {set(self.names) - known}")


def solution_of(folder, file, function, passes_outputs, definition):
    shape = Shape(definition)
    run = getattr(_imported(os.path.join(folder, file)), function)

    def solution(p, q, k, v, key_lengths=None):
        """a solution of FlashInfer-Bench's form"""
        group = shape.heads_q // shape.heads_kv
        if p.heads_kv > shape.heads_kv:
            raise Unsupported("more heads than the definition has")
        # A case's heads, repeated; which copy counts depends on the case's lengths.
        turn = (p.seq_k + p.seq_q) % shape.heads_kv
        of_slot = [(slot - turn) % shape.heads_kv % p.heads_kv for slot in range(shape.heads_kv)]
        slots = [(head + turn) % shape.heads_kv * group + p.seq_k % group for head in range(p.heads_q)]
        lengths = [p.seq_k if key_lengths is None else min(max(int(key_lengths[b]), 0), p.seq_k) for b in range(p.batch)]
        rows = _filled((p.batch * p.seq_q, shape.heads_q, shape.dim), q, 0)
        for b in range(p.batch):
            for head in range(shape.heads_q):
                rows[b * p.seq_q : (b + 1) * p.seq_q, head, : p.dim_qk] = q[b, of_slot[head // group]]
        given = {"q": rows, "sm_scale": p.scale, "qo_indptr": _numbers([b * p.seq_q for b in range(p.batch + 1)], q)}
        keys, values = (_by_rows(t, lengths, of_slot, shape.dim) for t in (k, v))
        if shape.paged:
            given.update(_paged(keys, values, lengths, shape.page, q))
        else:
            total = [sum(lengths[:b]) for b in range(p.batch + 1)]
            given.update(k=_joined(keys, k), v=_joined(values, v), kv_indptr=_numbers(total, q))
        arguments = [given[name] for name in shape.names]
        o = _filled(rows.shape, q, math.nan)
        lse = _filled(rows.shape[:2], q, math.nan, wide=True)
        if passes_outputs:
            run(*arguments, *({"output": o, "lse": lse}[name] for name in shape.outputs))
        else:
            got = run(*arguments)
            got = tuple(got[name] for name in shape.outputs) if isinstance(got, dict) else got
            o, lse = got if isinstance(got, tuple) else (got, lse)
        heads = [o[:, slot, : p.dim_v].reshape(p.batch, p.seq_q, p.dim_v) for slot in slots]
        lses = [lse[:, slot].reshape(p.batch, p.seq_q) * math.log(2) for slot in slots]
        return _stacked(heads, q), _stacked(lses, q)

    return solution


def _by_rows(tensor, lengths, of_slot, dim):
    """Each batch entry as (length, heads, dim), padded with zeros, which change no score and no other column."""
    all_rows = []
    for b, length in enumerate(lengths):
        rows = _filled((length, len(of_slot), dim), tensor, 0)
        for slot, head in enumerate(of_slot):
            rows[:, slot, : tensor.shape[3]] = tensor[b, head, :length]
        all_rows.append(rows)
    return all_rows


def _paged(keys, values, lengths, page, like):
    """Pages in a mixed order, with one that nobody uses, and NaN where there is no key."""
    counts = [-(-length // page) for length in lengths]
    order = list(range(sum(counts)))
    order = order[1::2] + order[::2]
    caches, begin = {}, [sum(counts[:b]) for b in range(len(counts) + 1)]
    for name, rows in (("k_cache", keys), ("v_cache", values)):
        cache = _filled((len(order) + 1, page, *rows[0].shape[1:]), like, math.nan)
        for b, length in enumerate(lengths):
            for n in range(counts[b]):
                part = rows[b][n * page : (n + 1) * page]
                cache[order[begin[b] + n], : len(part)] = part
        caches[name] = cache
    last = [(length - 1) % page + 1 if length else 0 for length in lengths]
    return dict(caches, kv_indptr=_numbers(begin, like), kv_indices=_numbers(order, like),
                kv_last_page_len=_numbers(last, like))


# The functions come from torch if the case's arrays are torch's, otherwise from NumPy.


def _is_torch(array):
    return type(array).__module__.split(".")[0] == "torch"


def _dense(array):
    if _is_torch(array):
        return array.contiguous()
    import numpy

    return numpy.ascontiguousarray(array)


def _filled(shape, like, value, wide=False):
    if _is_torch(like):
        import torch

        return torch.full(shape, value, dtype=torch.float32 if wide else like.dtype, device=like.device)
    import numpy

    return numpy.full(shape, value, numpy.float32 if wide else like.dtype)


def _numbers(values, like):
    if _is_torch(like):
        import torch

        return torch.tensor(values, dtype=torch.int32, device=like.device)
    import numpy

    return numpy.array(values, numpy.int32)


def _joined(parts, like):
    if _is_torch(like):
        import torch

        return torch.cat(parts)
    import numpy

    return numpy.concatenate(parts)


def _stacked(heads, like):
    if _is_torch(like):
        import torch

        return torch.stack(heads, 1)
    import numpy

    return numpy.stack(heads, 1)
