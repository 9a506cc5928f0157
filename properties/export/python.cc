#include <cstring>

#include "base/printable.h"
#include "properties/case/words.h"
#include "properties/export/text.h"

namespace attnfuzz {
namespace {

using namespace exporting;

std::string tuple(const std::array<int64_t, 4>& n) {
  return cat("(", n[0], ", ", n[1], ", ", n[2], ", ", n[3], ")");
}

std::string library_text(const Export& e) {
  return cat("BACKEND, KERNEL = ", e.backend == ATTN_CUDA ? "CUDA" : "CPU", ", b",
             "\"" + in_literal(e.kernel_name) + "\"", "  # else its first kernel\n", "EXECUTOR = \"",
             kExecutorLibrary, "\"  # the CPU executor\n\n");
}

// The tensors of a Python function lie on the host; a function for a GPU gets copies.
std::string function_text(const Export& e) {
  const attn_plan& p = e.plan;
  const std::string path(p.path, strnlen(p.path, sizeof p.path));
  return cat("BACKEND, KERNEL = CPU, b\"", in_literal(e.kernel_name),
             "\"  # the function, by its name in the file\n", "FILE = \"", in_literal(e.places.library), "\"\n",
             "PLAN = dict(path=b\"", in_literal(path), "\", tile_q=", p.tile_q, ", tile_k=", p.tile_k,
             ", deterministic=", p.deterministic, ", saved=", p.saved, ", lse_base=", p.lse_base,
             ", lse_dead=", p.lse_dead,
             ")\n\n");
}

std::string python_case(const Export& e) {
  const Case& c = e.c;
  std::string text = e.is_python ? function_text(e) : library_text(e);
  text += "PROBLEM = Problem(\n    size=ctypes.sizeof(Problem),\n";
  for (const Field& f : problem_fields(c, Language::kPython)) {
    text += cat("    ", f.name, "=", f.value, ",", f.remark.empty() ? "" : "  # " + f.remark, "\n");
  }
  text += ")\n# What the caller of the check says about the LSE, in place of the kernel's plan.\nLSE = dict(";
  for (const Field& f : lse_fields(e)) text += cat(f.name, "=", f.value, ", ");
  text += cat(")\nMERGES = ", e.c.problem.features & ATTN_FEATURE_MERGE ? "True" : "False", "\n");
  text += "ENVIRONMENT = dict(\n";
  for (const Field& f : environment_fields(c)) {
    text += cat("    ", f.name, "=", f.value, ",", f.remark.empty() ? "" : "  # " + f.remark, "\n");
  }
  text +=
      ")\n\n# Bytes of an element, size, strides and offset in elements, whether it ends at unmapped memory, "
      "what\n"
      "# surrounds it, and bit patterns in index order: 3*abcd is abcd three times.\nTENSORS = {\n";
  std::string bounds, members, keyed, owned, states;
  for (const TensorText& t : tensor_texts(e)) {
    if (is_written(t.spec))
      bounds += cat("    \"", t.spec.name, "\":\n        ", literals(t.bounds, "        "), ",\n");
    if (t.spec.role == Role::kState) states += cat("\"", t.spec.name, "\", ");
    if (t.spec.role == Role::kOutput && of_keys(t.spec)) keyed += cat("\"", t.spec.name, "\", ");
    if (t.spec.role == Role::kOutput && t.owned < t.size[2]) owned += cat("\"", t.spec.name, "\": ", t.owned, ", ");
    if (std::string_view(t.spec.name) != t.spec.at.name)
      members += cat(members.empty() ? "" : ", ", "\"", t.spec.name, "\": \"", t.spec.at.name, "\"");
    text += cat("    \"", t.spec.name, "\": (", t.bytes, ", ", tuple(t.size), ", ", tuple(t.stride), ", ",
                t.offset, ", ", t.page_end ? "True" : "False", ", 0x", hex(t.surround), ",\n        ",
                literals(t.values, "        "), "),\n");
  }
  text += cat(
      "}\nMEMBERS = {", members, "}  # tensors whose member of Tensors has another name\n",
      "STATES = (", states, ")  # caches, which the kernel reads and writes in part; all of their bits are judged\n",
      "OF_KEYS = (", keyed, ")  # outputs of which a row belongs to a key\n",
      "OWNED = {", owned, "}  # rows of an output from this one on belong to no batch entry, and stay as they are\n\n",
      "# How far rounding may move each element of an output from the exact value, derived from the inputs\n"
      "# and from how the kernel says it computes. inf: any number (an LSE must be finite); any: anything;\n"
      "# nan: NaN is due. 3*0.1 is 0.1 three times.\nBOUNDS = {\n",
      bounds, "}\nOVERFLOW = ", e.reference.main().overflow,
      "  # from this size on, an element of O may be infinite\n\n");
  const bool page_end = c.layout[static_cast<size_t>(TensorId::kWorkspace)].placement == Placement::kPageEnd;
  text += cat("WORKSPACE_PAGE_END, WORKSPACE_POISON = ", page_end ? "True" : "False", ", 0x",
              hex(workspace_poison(c)), "\n");
  text += cat("MOST_WORKSPACE = ", kMaxCaseBytes, "  # bytes\n");
  text += "CALLS = [";  // dirty workspace, stream
  for (size_t n = 0; n < c.calls.size(); ++n) {
    text += cat(n ? ", (" : "(", c.calls[n].dirty_workspace ? "True" : "False", ", ", c.calls[n].stream, ")");
  }
  return text + "]  # each call: with a dirty workspace or not, and the stream\n";
}

}  // namespace

std::string export_python(const Export& e, const std::string& name) {
  std::vector<std::string> commands = {"python3 " + shell_word(name)};
  std::vector<std::string> needs = {"It needs NumPy; with PyTorch, its attention gives a second opinion."};
  if (e.is_python) {
    needs.push_back("It runs " + e.kernel_name + "() of " + e.places.library +
                    ": from a file of that name beside this one, else from there, or from the file that is its "
                    "argument. What that file imports must be installed; attnfuzz need not be.");
  } else {
    commands[0] += " " + library_arguments(e);
    needs.push_back("The paths are those of the machine where this file was made. " + library_words(e));
  }
  return fill_in(kProgramPython, {{"HEAD", head(e, commands, needs, "#")},
                                  {"CONTRACT", kContractPython},
                                  {"REFERENCE", reference_of(operation_of(e.c.problem.features))->python},
                                  {"LOAD", e.is_python ? kCallFunction : kCallLibrary},
                                  {"CASE", python_case(e)}});
}

}  // namespace attnfuzz
