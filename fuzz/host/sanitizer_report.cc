#include "fuzz/host/sanitizer_report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/subprocess.h"

namespace attnfuzz {
namespace {

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// Runs a program and returns its output, at most a page; empty if it cannot be run.
std::string output_of(const std::vector<std::string>& command) {
  return run_program(command, {.take_output = true, .silent = true, .most = 4096}).output;
}

// Shortens "/tree/kernels/forward/store.h" to the part that a person needs.
std::string short_name(const std::string& file) {
  const size_t kernels = file.rfind("/kernels/");
  return kernels == file.npos ? file : file.substr(kernels + 1);
}

// The first frame in `text` that lies in the library: "#1 0x7f... (/path/lib.so+0x1234)".
std::optional<uint64_t> frame_in(std::string_view text, const std::string& library) {
  const std::string key = library.substr(library.rfind('/') + 1) + "+0x";
  const size_t at = text.find(key);
  if (at == text.npos) return std::nullopt;
  return std::strtoull(std::string(text.substr(at + key.size(), 16)).c_str(), nullptr, 16);
}

std::string in_words(const SourcePlace& place) {
  return place.file.empty() ? "" : short_name(place.file) + ":" + std::to_string(place.line);
}

// "Write of size 4" of a line like "  Write of size 4 at 0x7f... by thread T3:".
std::string access(std::string_view text) {
  const std::string line = first_line(text);
  std::string words = line.substr(0, line.find(" at 0x"));
  words.erase(0, words.find_first_not_of(' '));
  return words;
}

// Takes the lines "file:line:column" of an inlined call, innermost first, and returns the first place outside
// the primitives and the executor: those are not at fault.
SourcePlace place_in_kernel(std::string_view text) {
  SourcePlace innermost;
  while (!text.empty()) {
    const std::string line = first_line(text);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t column = line.rfind(':');
    const size_t number = column == line.npos || column == 0 ? line.npos : line.rfind(':', column - 1);
    if (number == line.npos || line.starts_with("??")) continue;
    const SourcePlace place = {line.substr(0, number), std::atoi(line.c_str() + number + 1)};
    if (innermost.file.empty()) innermost = place;
    const bool word = line.find("/kernels/primitives/") != line.npos ||
                      line.find("/kernels/executor/") != line.npos ||
                      line.find("/kernels/cuda_source/") != line.npos;
    if (!word && line.find("/include/") == line.npos) return place;
  }
  return innermost;
}

struct Report {
  std::string_view text;  // the report from its headline on
  attn_report_kind kind;
  std::string message;
  std::optional<uint64_t> frame;
  Fault::Detail detail = Fault::Detail::kNone;
};

std::optional<Report> race(std::string_view text, const std::string& library, SourcePlaces& places) {
  const size_t at = text.find("WARNING: ThreadSanitizer: ");
  if (at == text.npos) return std::nullopt;
  text.remove_prefix(at);
  std::string what = first_line(text.substr(26));
  what = what.substr(0, what.find(" (pid"));
  Report report = {text, what.find("race") != what.npos ? ATTN_REPORT_RACE : ATTN_REPORT_ADDRESS,
                   "ThreadSanitizer: " + what, frame_in(text, library)};
  const size_t now = text.find(" of size ");
  const size_t before = text.find("  Previous ");
  if (now == text.npos || before == text.npos) return report;
  report.message += ": " + access(text.substr(text.rfind('\n', now) + 1));
  const std::optional<uint64_t> other = frame_in(text.substr(before), library);
  std::string previous = access(text.substr(before));
  report.message += "; " + previous;
  if (other) {
    if (const std::string place = in_words(places.at(*other)); !place.empty()) report.message += " at " + place;
  }
  report.message += ", and nothing orders the two";
  return report;
}

std::optional<Report> memory(std::string_view text, const std::string& library) {
  const size_t at = text.find("WARNING: MemorySanitizer: ");
  if (at == text.npos) return std::nullopt;
  text.remove_prefix(at);
  return Report{text, ATTN_REPORT_UNINITIALISED,
                "MemorySanitizer: a branch or an address depends on an uninitialised value",
                frame_in(text, library)};
}

std::optional<Report> address(std::string_view text, const std::string& library,
                              const std::function<std::string(uint64_t)>& describe_address) {
  const size_t at = text.find("ERROR: AddressSanitizer: ");
  if (at == text.npos) return std::nullopt;
  text.remove_prefix(at);
  std::string what = first_line(text.substr(25));
  uint64_t where = 0;
  if (const size_t on = what.find(" on "); on != what.npos) {
    const size_t hex = what.find("0x", on);
    if (hex != what.npos) where = std::strtoull(what.c_str() + hex, nullptr, 16);
    what.erase(on);
  }
  Report report = {text, ATTN_REPORT_ADDRESS, "AddressSanitizer: " + what, frame_in(text, library)};
  for (const char* word : {"after-free", "after-return", "after-scope"}) {
    if (what.find(word) != what.npos) report.detail = Fault::Detail::kFreed;
  }
  for (const char* kind : {"READ of size ", "WRITE of size "}) {
    if (const size_t found = text.find(kind); found != text.npos) {
      report.message += ", " + access(text.substr(found));
      break;
    }
  }
  if (where != 0) {
    if (const std::string place = describe_address(where); !place.empty()) report.message += ", " + place;
  }
  return report;
}

// "kernels/x.h:41:12: runtime error: ...": the place is part of the line.
std::optional<SanitizerFault> undefined(std::string_view text) {
  constexpr std::string_view kKey = ": runtime error: ";
  const size_t at = text.find(kKey);
  if (at == text.npos) return std::nullopt;
  const size_t begin = text.rfind('\n', at) + 1;
  std::string place(text.substr(begin, at - begin));
  SanitizerFault fault = {};
  fault.kind = ATTN_REPORT_UNDEFINED;
  const std::string what = first_line(text.substr(at + kKey.size()));
  fault.message = "UndefinedBehaviorSanitizer: " + what;
  const auto says = [&](const char* word) { return what.find(word) != what.npos; };
  if (says("overflow") || says("shift") || says("outside the range")) {
    fault.detail = Fault::Detail::kArithmetic;
  } else if (says("align")) {
    fault.detail = Fault::Detail::kAlignment;
  }
  const size_t column = place.rfind(':');
  const size_t line = column == place.npos || column == 0 ? place.npos : place.rfind(':', column - 1);
  if (line != place.npos) {
    fault.line = std::atoi(place.c_str() + line + 1);
    fault.file = short_name(place.substr(0, line));
    fault.site = "UndefinedBehaviorSanitizer at " + in_words({fault.file, fault.line});
  }
  return fault;
}

}  // namespace

SourcePlace SourcePlaces::at(uint64_t offset) {
  const auto known = known_.find(offset);
  if (known != known_.end()) return known->second;
  char hex[24];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(offset));
  std::string text;
  for (const char* program : {"llvm-symbolizer-19", "llvm-symbolizer"}) {
    text = output_of({program, "--obj=" + library_, "--functions=none", "--inlines", hex});
    if (!text.empty()) break;
  }
  return known_.emplace(offset, place_in_kernel(text)).first->second;
}

std::optional<SanitizerFault> sanitizer_fault(const std::string& output, const std::string& library,
                                              SourcePlaces& places,
                                              const std::function<std::string(uint64_t)>& describe_address) {
  if (auto fault = undefined(output)) return fault;
  std::optional<Report> report = race(output, library, places);
  if (!report) report = memory(output, library);
  if (!report) report = address(output, library, describe_address);
  if (!report) return std::nullopt;
  SanitizerFault fault = {};
  fault.kind = report->kind;
  fault.message = report->message;
  fault.detail = report->detail;
  if (report->frame) {
    const SourcePlace place = places.at(*report->frame);
    fault.file = short_name(place.file);
    fault.line = place.line;
    std::string at = in_words(place);
    if (fault.file.empty()) {
      char where[32];
      std::snprintf(where, sizeof where, "+0x%llx", static_cast<unsigned long long>(*report->frame));
      at = library.substr(library.rfind('/') + 1) + where;
      fault.message += ", at " + at;
    }
    if (fault.kind != ATTN_REPORT_RACE)
      fault.site = fault.message.substr(0, fault.message.find(':')) + " at " + at;
  }
  return fault;
}

}  // namespace attnfuzz
