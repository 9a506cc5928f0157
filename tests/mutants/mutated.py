"""Which sources are changed, of which kernels: what generate.py and run.py go by."""
SHARED = "forward"  # by all kernels
MUTATED = {
    "fa1": ["fa1/fa1.cu", "fa1/kernel.h", "fa1/launch.h"],
    "splitk": ["splitk/splitk.cu", "splitk/plan.h", "splitk/kernel.h", "splitk/launch.h"],
    SHARED: ["forward/attend.h", "forward/checks.cu", "forward/checks.h", "forward/online_softmax.h",
             "forward/params.h", "forward/scores.h", "forward/shapes.cu", "forward/shapes.h", "forward/store.h",
             "forward/tile_loader.h", "plug_in.h"],
}
KERNELS = tuple(name for name in MUTATED if name != SHARED)
