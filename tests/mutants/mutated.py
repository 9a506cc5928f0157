"""The sources that are mutated, and the kernels in which they run. generate.py and run.py read these tables."""
# The kernels that run a source: one kernel, or all that share it.
MUTATED = {
    "fa1": ["fa1/fa1.cu", "fa1/kernel.h", "fa1/launch.h"],
    "splitk": ["splitk/splitk.cu", "splitk/plan.h", "splitk/kernel.h", "splitk/launch.h"],
    "fa1a": ["fa1/ampere/ampere.cu", "fa1/ampere/kernel.h", "fa1/ampere/launch.h", "fa1/ampere/load.h",
             "fa1/ampere/mask.h", "fa1/ampere/params.h", "fa1/ampere/scores.h", "fa1/ampere/softmax.h",
             "fa1/ampere/spec.h", "fa1/ampere/store.h"],
    "fa1h": ["fa1/hopper/consumer.h", "fa1/hopper/finish.h", "fa1/hopper/hopper.cu", "fa1/hopper/hopper.h",
             "fa1/hopper/layout.h", "fa1/hopper/params.h", "fa1/hopper/producer.h"],
    "splitkh": ["splitk/hopper/consumer.h", "splitk/hopper/finish.h", "splitk/hopper/hopper.cu",
                "splitk/hopper/hopper.h", "splitk/hopper/latent.cu", "splitk/hopper/latent/compute.h",
                "splitk/hopper/latent/finish.h", "splitk/hopper/latent/latent.h", "splitk/hopper/latent/layout.h",
                "splitk/hopper/latent/load.h", "splitk/hopper/latent/params.h", "splitk/hopper/layout.h",
                "splitk/hopper/make_params.h", "splitk/hopper/params.h", "splitk/hopper/producer.h"],
    "fa1, splitk": ["forward/attend.h", "forward/checks.cu", "forward/checks.h", "forward/online_softmax.h",
                    "forward/params.h", "forward/scores.h", "forward/shapes.cu", "forward/shapes.h",
                    "forward/store.h", "forward/tile_loader.h", "call.h", "check_tensors.h", "plug_in.h", "read_call.h"],
    "fa1h, splitkh": ["forward/clear_rows.h", "forward/ring.h", "forward/warpgroup_softmax.h"],
    "fa1a, fa1h, splitkh": ["forward/score_terms.h"],
}
KERNELS = tuple(name for name in MUTATED if "," not in name)

# The oracle's sources: reference/ without its tables (call/tensor_spec.h, calibrations/), its sweeps (calibrate/)
# and its CUDA version (cuda/), which tests compare with these.
ORACLE = ["semantics.h", "agreement.cc", "oracle.cc", "call/expected.cc", "call/expected.h", "call/row_sample.cc",
          "call/row_space.h", "model/calibration.cc", "model/error_cap.cc", "model/error_model.cc",
          "model/error_model.h", "numbers/formats.cc", "numbers/ratio.h", "rows/key_block.cc", "rows/key_block.h",
          "rows/mean_columns.cc", "rows/operands.cc", "rows/operands.h", "partials.cc",
          "rows/products.cc", "rows/rounded_p.cc", "rows/row_loops.cc", "rows/row_terms.h", "rows/scores.cc",
          "rows/tile_walk.cc", "rows/visibility.cc", "rows/visibility.h", "rows/weighted_mean.cc",
          "rows/weighted_mean.h"]

# The CUDA oracle's sources, which are compiled for the executor. Of the host's side only packing is mutated.
ORACLE_ON_DEVICE = ["cuda/block.cuh", "cuda/mean.cuh", "cuda/pack.cc", "cuda/pack_forward.h", "cuda/row.cuh",
                    "cuda/rows.cu", "cuda/scores.cuh", "cuda/weights.cuh"]

# The judge's sources: properties/judge/ without its headers, which only declare, and the files of properties/memory/
# that check redzones, gaps, inputs and outputs after a run.
JUDGE = ["judge/accept.cc", "judge/bad_plan.cc", "judge/compare_runs.cc", "judge/execution.cc",
         "judge/integer_outputs.cc", "judge/judge.cc", "judge/judge_case.cc", "judge/oracles.cc",
         "judge/shape/shape_places.cc", "judge/shape/shape_values.cc", "judge/situations.cc",
         "judge/statistical_warning.cc", "judge/tally.cc", "judge/trial.cc", "judge/target/peer.cc", "judge/verdict.cc", "case/codec/as_contract.cc", "memory/extent.cc",
         "memory/layout.cc", "memory/layout_checks.cc", "memory/layout_reads.cc", "memory/case_poison.cc"]

# The path for which a kernel's cases are drawn (attnfuzz check --path): its mutated sources are those of this path.
PATHS = {"fa1a": "mma", "fa1h": "wgmma", "splitkh": "wgmma"}

# The files below kernels/ that instantiate the changed sources.
UNITS = ["fa1/fa1_f16.cu", "fa1/fa1_bf16.cu", "fa1/fa1.cu", "splitk/splitk_f16.cu", "splitk/splitk_bf16.cu",
         "splitk/splitk_wide.cu", "splitk/splitk_reduce.cu", "splitk/splitk.cu", "forward/checks.cu",
         "forward/shapes.cu", "fa1a/fa1a.cu", "fa1h/fa1h.cu", "fa1a/large.cu", "splitkh/splitkh.cu"]


# folder -> (its mutated sources, its compiled units, their namespace).
ROOMS = {"kernels": ([name for names in MUTATED.values() for name in names], UNITS, "attn"),
         "reference": (ORACLE, [name for name in ORACLE if name.endswith(".cc")], "attnfuzz"),
         "judge": (JUDGE, JUDGE, "attnfuzz"),
         "device": (ORACLE_ON_DEVICE, ["cuda/pack.cc", "cuda/rows.cu"], "attnfuzz")}


def kernels_of(file):
    """The kernels that a changed source is run in."""
    return next((names.split(", ") for names, files in MUTATED.items() if file in files), [])
