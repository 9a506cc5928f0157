#include "base/printable.h"
#include "properties/case/words.h"
#include "properties/export/text.h"

namespace attnfuzz {
namespace {

using namespace exporting;

std::string braces(const std::array<int64_t, 4>& n) {
  return cat("{", n[0], ", ", n[1], ", ", n[2], ", ", n[3], "}");
}

std::string layout_line(const TensorText& t) {
  return cat("    {\"", t.spec.name, "\", ", t.bytes, ", ", braces(t.size), ", ", braces(t.stride), ", ",
             t.offset, ", ", t.page_end ? "true" : "false", ", 0x", hex(t.surround),
             ", offsetof(attn_tensors, ", t.spec.at.name, "), ", t.spec.strided() ? "true" : "false", ", ",
             of_keys(t.spec) ? "true" : "false", ", ", t.spec.role == Role::kState ? "true" : "false", ", ",
             t.owned, ",\n     ", literals(t.values, "     "), ",\n     ",
             is_written(t.spec) ? literals(t.bounds, "     ") : "nullptr", "},\n");
}

std::string function_of(const char* type, const char* name, const std::vector<Field>& fields) {
  std::string text = cat(type, " ", name, "() {\n  ", type, " x = {};\n  x.size = sizeof x;\n");
  for (const Field& f : fields) {
    text += cat("  x.", f.name, " = ", f.value, ";", f.remark.empty() ? "" : "  // " + f.remark, "\n");
  }
  return text + "  return x;\n}\n\n";
}

// The plan by which outputs are judged.
std::string judged_plan(const Export& e) {
  std::string text = "// The kernel's plan says what its LSE holds";
  const std::vector<Field> fields = lse_fields(e);
  text += fields.empty() ? ".\n" : ", but here the caller of the check did.\n";
  text += "attn_plan judged(attn_plan plan) {\n";
  for (const Field& f : fields) text += cat("  plan.", f.name, " = ", f.value, ";\n");
  return text + "  return plan;\n}\n\n";
}

std::string cpp_case(const Export& e) {
  const Case& c = e.c;
  std::vector<Field> environment = environment_fields(c);
  environment.insert(environment.begin(), {"backend", e.backend == ATTN_CUDA ? "ATTN_CUDA" : "ATTN_CPU", ""});
  std::string text =
      cat("constexpr int32_t kBackend = ", e.backend == ATTN_CUDA ? "ATTN_CUDA" : "ATTN_CPU", ";\n");
  text += cat("const char kKernel[] = ", "\"" + in_literal(e.kernel_name) + "\"",
              ";  // if the library lacks it, its first kernel is called\n");
  text += cat("const std::string kExecutor = \"", kExecutorLibrary, "\";  // the CPU executor\n\n");
  text += function_of("attn_problem", "problem", problem_fields(c, Language::kCpp));
  text += function_of("attn_env", "environment", environment);
  text += judged_plan(e);
  text += "const Layout kTensors[] = {\n";
  for (const TensorText& t : tensor_texts(e)) text += layout_line(t);
  text += cat("};\nconstexpr double kOverflow = ", e.reference.main().overflow,
              ";  // from this size on, an element of O may be infinite\n");
  const bool page_end = c.layout[static_cast<size_t>(TensorId::kWorkspace)].placement == Placement::kPageEnd;
  text += cat("constexpr bool kWorkspacePageEnd = ", page_end ? "true" : "false", ";\n");
  text += cat("constexpr uint32_t kWorkspacePoison = 0x", hex(workspace_poison(c)), ";\n");
  text += cat("constexpr uint64_t kMostWorkspace = ", kMaxCaseBytes, ";  // bytes\n");
  text += "const Call kCalls[] = {";
  for (size_t n = 0; n < c.calls.size(); ++n) {
    text += cat(n ? ", {" : "{", c.calls[n].dirty_workspace ? "true" : "false", ", ", c.calls[n].stream, "}");
  }
  return text + "};\n";
}

}  // namespace

std::string export_cpp(const Export& e, const std::string& name) {
  const std::string program =
      name.substr(0, name.rfind('.')) == name ? "finding" : name.substr(0, name.rfind('.'));
  const std::string include = e.places.include.empty() ? "INCLUDE" : shell_word(e.places.include);
  const std::vector<std::string> commands = {
      "c++ -std=c++17 -O2 -I " + include + " " + shell_word(name) + " -o " + shell_word(program) + " -ldl",
      shell_word("./" + program) + " " + library_arguments(e)};
  const std::vector<std::string> needs = {
      "The paths are those of the machine where this file was made. After -I stands the folder in which "
      "kernels/attention.h is: attnfuzz's source tree, or include/attnfuzz of where it is installed.",
      library_words(e)};
  return fill_in(kProgramCpp, {{"HEAD", head(e, commands, needs, "//")},
                               {"CASE", cpp_case(e)},
                               {"REFERENCE", reference_of(operation_of(e.c.problem.features))->cpp},
                               {"MEMORY", e.backend == ATTN_CUDA ? kMemoryCuda : kMemoryCpu}});
}

}  // namespace attnfuzz
