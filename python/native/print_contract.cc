// Prints attnfuzz/contract.py: python/contract.py.in with its @NAMES@ replaced by the tables of
// kernels/contract/.
//
//   print_contract python/contract.py.in contract.py
//   print_contract python/contract.py.in contract.cc     the same text as kContractPython, for exported programs
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/contract/call_fields.h"
#include "kernels/contract/domain_fields.h"
#include "kernels/contract/plan_fields.h"
#include "kernels/contract/problem_fields.h"
#include "reference/call/tensor_spec.h"

namespace {

using namespace attnfuzz::contract;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "print_contract: %s\n", why.c_str());
  std::exit(1);
}

// The ctypes name of each type, in the order of Type.
constexpr const char* kTypes[] = {"c_int32",
                                  "c_uint32",
                                  "c_int64",
                                  "c_uint64",
                                  "c_float",
                                  "c_char * 64",
                                  "c_uint32 * 3",
                                  "c_int64 * 4",
                                  "c_int64 * 12",
                                  "Sizes",
                                  "TensorView",
                                  "c_char_p",
                                  "ctypes.POINTER(c_char_p)",
                                  "ReportFunction",
                                  "PlanFunction",
                                  "RunFunction",
                                  "c_void_p"};
static_assert(std::size(kTypes) == static_cast<size_t>(Type::kPointer) + 1);

std::string quoted(const char* text) { return text ? "\"" + std::string(text) + "\"" : "None"; }

std::string tuple(std::span<const char* const> names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + quoted(name);
  return "(" + text + (names.size() == 1 ? ",)" : ")");
}

// The lines of a table, each indented.
class Lines {
 public:
  explicit Lines(std::string indent) : indent_(std::move(indent)) {}
  void add(const std::string& line) { text_ += (text_.empty() ? "" : "\n") + indent_ + line; }
  const std::string& text() const { return text_; }

 private:
  std::string indent_, text_;
};

std::string field_text(const Field& at, const char* words) {
  const std::string remark = words && *words ? std::string("  # ") + words : "";
  return "(" + quoted(at.name) + ", " + kTypes[static_cast<size_t>(at.type)] + ")," + remark;
}

template <class Rows>
std::string struct_of(const Rows& rows, size_t bytes = SIZE_MAX) {
  Lines lines("        ");
  for (const auto& row : rows) {
    if (row.at.offset >= bytes) continue;
    if constexpr (requires { row.words; })
      lines.add(field_text(row.at, row.words));
    else
      lines.add(field_text(row.at, nullptr));
  }
  return lines.text();
}

std::string constants() {
  constexpr std::pair<const char*, int64_t> all[] = {{"ABI", ATTN_ABI},
                                                     {"OK", ATTN_OK},
                                                     {"UNSUPPORTED", ATTN_UNSUPPORTED},
                                                     {"INVALID", ATTN_INVALID},
                                                     {"LAUNCH_FAILED", ATTN_LAUNCH_FAILED},
                                                     {"FAULT", ATTN_FAULT},
                                                     {"NONE", ATTN_NONE},
                                                     {"F16", ATTN_F16},
                                                     {"BF16", ATTN_BF16},
                                                     {"F32", ATTN_F32},
                                                     {"FEATURE_F32", ATTN_FEATURE_F32},
                                                     {"FEATURE_WIDE", ATTN_FEATURE_WIDE},
                                                     {"USUAL_DIMS", kUsualDims},
                                                     {"FORMAT_TF32", ATTN_FORMAT_TF32},
                                                     {"TOP_LEFT", ATTN_TOP_LEFT},
                                                     {"BOTTOM_RIGHT", ATTN_BOTTOM_RIGHT},
                                                     {"CPU", ATTN_CPU},
                                                     {"CUDA", ATTN_CUDA}};
  Lines lines("");
  for (const auto& [name, value] : all) lines.add(name + std::string(" = ") + std::to_string(value));
  lines.add("FEATURE_NO_FORWARD = " + std::to_string(ATTN_FEATURE_NO_FORWARD));
  lines.add("OF_FORWARD = " + std::to_string(attnfuzz::kOfForward));
  return lines.text();
}

// Python does not know these features.
constexpr uint64_t kNotInPython =
    ATTN_FEATURE_KV8 | ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NSA_COMBINE;

std::string operations() {
  Lines lines("    ");
  for (const attnfuzz::OperationBit& one : attnfuzz::kOperationBits) {
    if ((one.feature & kNotInPython) == 0)
      lines.add(quoted(one.name) + ": " + std::to_string(one.feature) + ",");
  }
  return lines.text();
}

std::string problem_meanings() {
  constexpr const char* kMeanings[] = {nullptr, nullptr, "number", "boolean", "dtype", "align", "features"};
  Lines lines("    ");
  for (const ProblemField& row : kProblemFields) {
    if (const char* meaning = kMeanings[static_cast<size_t>(row.meaning)])
      lines.add(quoted(row.at.name) + ": " + quoted(meaning) + ",");
  }
  return lines.text();
}

// "sink": ("input", "sink_dtype", (None, "heads_q", None, None), "has_sink", True, False, 64, "sink", 4)
std::string tensor_text(const attnfuzz::TensorSpec& spec) {
  constexpr const char* kRoles[] = {"input", "output", "scratch", "state"};
  constexpr const char* kElements[] = {"dtype", "f32",        "bias_dtype",  "bool",
                                       "i64",   "sink_dtype", "index_dtype", "dtype"};
  constexpr const char* kSizes[] = {nullptr,  "batch",  "heads_q", "heads_kv", "seq_q",         "seq_k",
                                    "dim_qk", "dim_v",  nullptr,   "borders",  "pages_per_seq", "select",
                                    "blocks", "stores", "slots",   "two",      nullptr};
  std::array<const char*, 4> shape = {};
  for (size_t n = 0; n < 4; ++n) shape[n] = kSizes[static_cast<size_t>(spec.shape[n])];
  return quoted(spec.name) + ": (" + quoted(kRoles[static_cast<size_t>(spec.role)]) + ", " +
         quoted(kElements[static_cast<size_t>(spec.element)]) + ", " + tuple(shape) + ", " +
         quoted(spec.asked_by) + ", " + (spec.strided() ? "True" : "False") + ", " +
         (spec.varied.stored_once ? "True" : "False") + ", " + std::to_string(spec.operations) + ", " +
         quoted(spec.at.name) + ", " + std::to_string(spec.feature) + "),";
}

std::string tensor_specs() {
  Lines lines("    ");
  for (const attnfuzz::TensorSpec& spec : attnfuzz::kTensors) {
    if ((spec.feature & kNotInPython) == 0 && (spec.operations & ~kNotInPython) != 0)
      lines.add(tensor_text(spec));
  }
  return lines.text();
}

// Packed entries, keys in pages and 32-bit lengths have words of their own, because several fields
// share one bit, or because a field's name is not clear enough. A bit that no field sets has the name of its
// tensor.
std::string feature_bits() {
  constexpr uint64_t kWithWords = ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED,
                     kLeftOut = kWithWords | kNotInPython;
  Lines lines("    ");
  for (const ProblemField& row : kProblemFields) {
    if (row.feature != 0 && row.none && (row.feature & kLeftOut) == 0)
      lines.add(quoted(row.at.name) + ": " + std::to_string(row.feature) + ",");
  }
  for (const attnfuzz::TensorSpec& spec : attnfuzz::kTensors) {
    const bool by_field = std::ranges::any_of(
        kProblemFields, [&](const ProblemField& row) { return row.feature == spec.feature; });
    if ((spec.feature & ~kLeftOut) != 0 && !by_field)
      lines.add(quoted(spec.name) + ": " + std::to_string(spec.feature) + ",");
  }
  lines.add("\"packed\": " + std::to_string(ATTN_FEATURE_RAGGED) + ",");
  lines.add("\"int32\": " + std::to_string(ATTN_FEATURE_INDEX32) + ",");
  lines.add("\"paged\": " + std::to_string(ATTN_FEATURE_PAGED) + ",");
  return lines.text();
}

std::string plan_choices() {
  Lines lines("    ");
  for (const PlanField& row : kPlanFields) {
    if (row.option)
      lines.add(quoted(row.option) + ": (" + quoted(row.at.name) + ", " + tuple(row.names) + "),");
  }
  return lines.text();
}

std::string domain_values() {
  Lines lines("    ");
  for (const DomainField& row : kDomainFields) {
    if (!row.names.empty()) lines.add(quoted(row.at.name) + ": " + tuple(row.names) + ",");
  }
  return lines.text();
}

std::string struct_bytes() {
  constexpr std::pair<const char*, size_t> kStructs[] = {
      {"Problem", sizeof(attn_problem)}, {"TensorView", sizeof(attn_tensor)},
      {"Tensors", sizeof(attn_tensors)}, {"Report", sizeof(attn_report)},
      {"Environment", sizeof(attn_env)}, {"Plan", sizeof(attn_plan)},
      {"Sizes", sizeof(attn_sizes)},     {"DomainStruct", sizeof(attn_domain)},
      {"KernelStruct", ATTN_KERNEL_MIN}};
  Lines lines("    ");
  for (const auto& [name, bytes] : kStructs) lines.add(quoted(name) + ": " + std::to_string(bytes) + ",");
  return lines.text();
}

std::string filled(std::string text) {
  const std::pair<const char*, std::string> parts[] = {{"CONSTANTS", constants()},
                                                       {"PROBLEM", struct_of(kProblemFields)},
                                                       {"FEATURE_BITS", feature_bits()},
                                                       {"OPERATIONS", operations()},
                                                       {"PROBLEM_MEANINGS", problem_meanings()},
                                                       {"TENSOR", struct_of(kTensorFields)},
                                                       {"TENSORS", struct_of(attnfuzz::kTensorsFields)},
                                                       {"TENSOR_SPECS", tensor_specs()},
                                                       {"REPORT", struct_of(kReportFields)},
                                                       {"ENVIRONMENT", struct_of(kEnvironmentFields)},
                                                       {"PLAN", struct_of(kPlanFields)},
                                                       {"PLAN_CHOICES", plan_choices()},
                                                       {"SIZES", struct_of(kSizesFields)},
                                                       {"DOMAIN", struct_of(kDomainFields)},
                                                       {"DOMAIN_VALUES", domain_values()},
                                                       {"STRUCT_BYTES", struct_bytes()},
                                                       {"KERNEL", struct_of(kKernelFields, ATTN_KERNEL_MIN)}};
  for (const auto& [name, part] : parts) {
    const std::string mark = std::string("@") + name + "@";
    const size_t at = text.find(mark);
    if (at == text.npos) die("the template has no " + mark);
    text.replace(at, mark.size(), part);
  }
  if (const size_t at = text.find('@'); at != text.npos)
    die("the template has a name too many: " + text.substr(at, 20));
  return text;
}

void write(const char* path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) die(std::string(path) + " cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) die("usage: print_contract contract.py.in contract.{py,cc}");
  std::ifstream in(argv[1], std::ios::binary);
  if (!in) die(std::string(argv[1]) + " cannot be read");
  std::string text = filled({std::istreambuf_iterator<char>(in), {}});
  if (std::string_view(argv[2]).ends_with(".cc")) {
    text =
        "#include \"properties/export/text.h\"\n\nconst char* const attnfuzz::exporting::kContractPython = "
        "R\"__(" +
        text + ")__\";\n";
  }
  write(argv[2], text);
}
