#include "fuzz/host/worker_description.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/printable.h"
#include "fuzz/host/confinement.h"
#include "fuzz/host/refused_calls.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

// Strings one after the other, each with its NUL.
class Strings {
 public:
  explicit Strings(const wire::Description& d) : text_(d.text, std::min<size_t>(d.text_bytes, sizeof d.text)) {}
  bool good() const { return good_; }
  std::string next() {
    const size_t end = text_.find('\0');
    if (end == text_.npos) {
      good_ = false;
      return "";
    }
    std::string s(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return s;
  }

 private:
  std::string_view text_;
  bool good_ = true;
};

// The kernel's function that the worker is in; null if it is in none.
const char* function_of(wire::Doing doing) {
  switch (doing) {
    case wire::Doing::kPlanning:
      return "plan()";
    case wire::Doing::kRunning:
      return "run()";
    case wire::Doing::kPartialStage:
      return "partial()";
    case wire::Doing::kReduceStage:
      return "reduce()";
    case wire::Doing::kDescribingPartials:
      return "partials()";
    case wire::Doing::kTelling:
      return "a method of the class";
    case wire::Doing::kLoading:
    case wire::Doing::kNothing:
      break;
  }
  return nullptr;
}

std::string in_words(wire::Doing doing) {
  if (const char* function = function_of(doing)) return std::string("in ") + function;
  return doing == wire::Doing::kLoading ? "while the library was loaded" : "between two calls";
}

// Says what lies at an address in the worker.
std::string place(uint64_t address, uint64_t arena_base) {
  const uint64_t offset = address - arena_base;
  if (address < 4096) return "null pointer (0x" + hex(address) + ")";
  if (address < arena_base || offset >= Arena::kBytes) return "address 0x" + hex(address);
  for (int t = kTensorCount - 1; t >= 0; --t) {
    const uint64_t begin = Arena::slot_offset(static_cast<TensorId>(t));
    if (offset < begin) continue;
    const std::string slot = std::string("the memory of ") + name_of(static_cast<TensorId>(t));
    const uint64_t past = offset - begin;
    if (past < Arena::kSlotBytes) return "byte " + std::to_string(past) + " of " + slot;
    return std::to_string(past - Arena::kSlotBytes + 1) + " bytes past the end of " + slot;
  }
  return std::to_string(Arena::kPage - offset) + " bytes before the memory of q";
}

template <size_t N>
std::string text(const char (&from)[N]) {
  return printable({from, strnlen(from, N)});
}

}  // namespace

std::optional<KernelInfo> kernel_info(const wire::Description& d) {
  Strings strings(d);
  KernelInfo info;
  info.backend = d.backend == ATTN_CUDA ? ATTN_CUDA : ATTN_CPU;
  info.features = d.features;
  if (d.cache > 0 && d.cache <= static_cast<int32_t>(CacheKind::kOwn))
    info.cache = static_cast<CacheKind>(d.cache);
  if (d.has_domain) info.domain = d.domain;
  info.has_stages = d.has_stages != 0;
  info.exact_name = strings.next();
  info.name = kernel_label(info.exact_name);
  info.description = printable(strings.next());
  info.build.hash = printable(strings.next());
  info.build.compiler = printable(strings.next());
  info.build.flags = printable(strings.next());
  info.build.root = strings.next();
  info.device = printable(strings.next());
  info.note = printable(strings.next());
  for (uint32_t i = 0; i < d.kernel_count && strings.good(); ++i) {
    std::string name = kernel_label(strings.next());
    info.library_kernels.emplace_back(std::move(name), strings.next() == "cuda" ? ATTN_CUDA : ATTN_CPU);
  }
  for (uint32_t i = 0; i < d.variant_count && strings.good(); ++i)
    info.variants.push_back(printable(strings.next()));
  for (uint32_t i = 0; i < d.file_count && strings.good(); ++i) {
    std::string name = strings.next();
    info.build.files.emplace_back(std::move(name), strings.next());
  }
  info.worker.hash = strings.next();
  info.worker.root = strings.next();
  for (uint32_t i = 0; i < d.worker_file_count && strings.good(); ++i) {
    std::string name = strings.next();
    info.worker.files.emplace_back(std::move(name), strings.next());
  }
  if (!strings.good() || info.name.empty()) return std::nullopt;
  return info;
}

std::string exit_message(const std::string& ending, const wire::Wire& wire, const std::string& library) {
  const wire::Crash crash = wire.crash;
  std::string message = ending + " " + in_words(wire.doing);
  if (crash.signal == 0) return message;
  if (crash.signal == SIGSYS)
    message += ", of " + call_name(crash.call) + ", which no untrusted kernel may call";
  const bool has_address = (crash.signal == SIGSEGV || crash.signal == SIGBUS) && crash.code > 0;
  // This fault comes from the processor without an address.
  if (crash.signal == SIGSEGV && crash.code == SI_KERNEL)
    message += ", an address that is not aligned as its instruction needs, or that no memory has";
  else if (has_address)
    message += ", " + place(crash.address, wire.description.arena_base);
  const uint64_t begin = wire.description.library_begin, end = wire.description.library_end;
  if (crash.pc >= begin && crash.pc < end) {
    message += ", at " + library.substr(library.rfind('/') + 1) + "+0x" + hex(crash.pc - begin);
  }
  return message;
}

Exploit exploit_of(const wire::Wire& wire, ExitReason exit_reason, std::optional<int> exit_status) {
  const wire::Crash crash = wire.crash;
  if (exit_reason == ExitReason::kExit)
    return exit_status == wire::kExitBells ? Exploit::kDescriptors : Exploit::kEnds;
  if (exit_reason != ExitReason::kSignal) return Exploit::kNone;
  if (crash.signal == SIGSYS) {
    for (const RefusedCall& call : kRefusedCalls) {
      if (call.number != crash.call) continue;
      static constexpr Exploit kOfPurposes[] = {Exploit::kProcess,  Exploit::kSignal, Exploit::kMemory,
                                                Exploit::kNetwork,  Exploit::kFile,   Exploit::kHandler,
                                                Exploit::kPrivilege};
      return kOfPurposes[static_cast<size_t>(call.purpose)];
    }
  }
  // The memory of inputs is readable and not writable, so the fault is a write.
  if (crash.signal != SIGSEGV) return Exploit::kNone;
  const uint64_t offset = crash.address - wire.description.arena_base;
  for (const TensorId t : kInputs) {
    const uint64_t begin = Arena::slot_offset(t);
    if (wire.description.backend == ATTN_CPU && offset >= begin && offset - begin < Arena::kSlotBytes)
      return Exploit::kInputs;
  }
  return Exploit::kNone;
}

std::string call_in_words(wire::Doing doing) {
  const char* function = function_of(doing);
  return function == nullptr ? in_words(doing) : function;
}

std::string place_of(uint64_t address, const wire::Wire& wire) {
  return place(address, wire.description.arena_base);
}

std::optional<Fault> fault(const wire::Report& r) {
  if (!r.given) return std::nullopt;
  Fault f;
  f.kind = static_cast<attn_report_kind>(
      r.kind >= ATTN_REPORT_LAUNCH && r.kind <= ATTN_REPORT_RACE ? r.kind : ATTN_REPORT_DEVICE);
  std::copy(std::begin(r.block), std::end(r.block), f.block.begin());
  std::copy(std::begin(r.thread), std::end(r.thread), f.thread.begin());
  f.message = text(r.message);
  f.file = text(r.file);
  f.line = r.line;
  f.shared_bytes = r.shared_bytes;
  return f;
}

}  // namespace attnfuzz
