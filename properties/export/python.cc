#include "properties/case/words.h"
#include "properties/export/text.h"
#include "text/printable.h"

namespace attnfuzz {
namespace {

using namespace exporting;

std::string tuple(const std::array<int64_t, 4>& n) {
  return cat("(", n[0], ", ", n[1], ", ", n[2], ", ", n[3], ")");
}

std::string python_case(const Export& e) {
  const Case& c = e.c;
  std::string text = cat("BACKEND, KERNEL = ", e.backend == ATTN_CUDA ? "CUDA" : "CPU", ", b",
                         "\"" + in_literal(e.kernel_name) + "\"", "  # of the library's, or its first\n");
  text += cat("EXECUTOR = \"", kExecutorLibrary, "\"  # what a CPU kernel runs on\n\n");
  text += "PROBLEM = Problem(\n    size=ctypes.sizeof(Problem),\n";
  for (const Field& f : problem_fields(c, Language::kPython)) {
    text += cat("    ", f.name, "=", f.value, ",", f.remark.empty() ? "" : "  # " + f.remark, "\n");
  }
  text += ")\nENVIRONMENT = dict(\n";
  for (const Field& f : environment_fields(c)) {
    text += cat("    ", f.name, "=", f.value, ",", f.remark.empty() ? "" : "  # " + f.remark, "\n");
  }
  text +=
      ")\n\n# Bytes of an element, size, strides and offset in elements, whether it ends at unmapped memory, "
      "what\n"
      "# surrounds it, and bit patterns in index order: 3*abcd is abcd three times.\nTENSORS = {\n";
  std::string bounds;
  for (const TensorText& t : tensor_texts(e)) {
    if (t.spec.role == Role::kOutput)
      bounds += cat("    \"", t.spec.name, "\":\n        ", literals(t.bounds, "        "), ",\n");
    text += cat("    \"", t.spec.name, "\": (", t.bytes, ", ", tuple(t.size), ", ", tuple(t.stride), ", ",
                t.offset, ", ", t.page_end ? "True" : "False", ", 0x", hex(t.surround), ",\n        ",
                literals(t.values, "        "), "),\n");
  }
  text += cat(
      "}\n\n",
      "# How far rounding may bring each element of an output off the exact value, derived from the inputs\n"
      "# and from how the kernel says it computes. inf: any number (an LSE must be finite); any: anything;\n"
      "# nan: NaN is due. 3*0.1 is 0.1 three times.\nBOUNDS = {\n",
      bounds, "}\nOVERFLOW = ", e.reference[TensorId::kO].overflow,
      "  # what of O would round to this may be infinite\n\n");
  const bool page_end = c.layout[static_cast<size_t>(TensorId::kWorkspace)].placement == Placement::kPageEnd;
  text += cat("WORKSPACE_PAGE_END, WORKSPACE_PREFILL = ", page_end ? "True" : "False", ", 0x",
              hex(workspace_prefill(c)), "\n");
  text += cat("MOST_WORKSPACE = ", kMaxCaseBytes, "  # bytes\n");
  text += "CALLS = [";  // dirty workspace, stream
  for (size_t n = 0; n < c.calls.size(); ++n) {
    text += cat(n ? ", (" : "(", c.calls[n].dirty_workspace ? "True" : "False", ", ", c.calls[n].stream, ")");
  }
  return text + "]  # on a dirty workspace? which stream\n";
}

}  // namespace

std::string export_python(const Export& e, const std::string& name) {
  const std::vector<std::string> how = {
      "python3 " + shell_word(name) + (e.backend == ATTN_CUDA ? " LIBRARY" : " LIBRARY [EXECUTOR]"), "",
      "It needs NumPy; where PyTorch is, its attention gives a second opinion. LIBRARY is the kernel's: "
      "libattn_NAME_" +
          std::string(e.backend == ATTN_CUDA ? "cuda" : "cpu") +
          ".so, or another that exports attn_kernel_at() of attnfuzz's kernels/attention.h."};
  return fill_in(kProgramPython,
                 {{"HEAD", head(e, how, "#")}, {"CONTRACT", kContractPython}, {"CASE", python_case(e)}});
}

}  // namespace attnfuzz
