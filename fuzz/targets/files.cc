// Fuzzes the readers of cases, reproducers, sequences of calls, ledgers, calibrations, a campaign's lines and
// units with arbitrary bytes. Bytes that a reader accepts must be written and read back as the same value; all
// other bytes must be refused with a reason; and text that is printed from any bytes must be harmless. The
// readers run in this process, instrumented.
//
// Bytes are mutated as libFuzzer does, and half the time as a case. Such bytes still decode, and reach code
// behind the first wrong byte.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/json.h"
#include "base/printable.h"
#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/jobs/journal.h"
#include "fuzz/campaign/store/ledger.h"
#include "fuzz/targets/unit.h"
#include "properties/case/codec/codec.h"
#include "properties/case/words.h"
#include "properties/reduce/reproducer.h"
#include "properties/sequences/session/codec.h"
#include "properties/sequences/session/story.h"
#include "reference/model/calibration.h"

// libFuzzer's own function; absent in a replay.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace attnfuzz;

// An assertion that names the fault, in every build.
void hold(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "attnfuzz: %s\n", what);
  std::abort();
}

void one_line(const DecodeError& error) {
  hold(!error.message.empty(), "a refusal without a reason");
  hold(error.message.size() < 4096, "a refusal longer than anyone reads");
  hold(printable(error.message) == error.message, "a refusal that is not one printable line");
}

bool read_case(std::string_view bytes) {
  const auto read = decode(bytes);
  if (const auto* error = std::get_if<DecodeError>(&read)) return one_line(*error), false;
  const Case& c = std::get<Case>(read);
  const std::string text = encode(c);
  const auto again = decode(text);
  hold(std::holds_alternative<Case>(again), "what encode() wrote is refused");
  hold(std::get<Case>(again) == c, "a case differs after it was written and read");
  hold(encode(std::get<Case>(again)) == text, "the text of a case is not canonical");
  // Contradictions that the reader accepts are found here, before anything is allocated.
  if (!illegal(c)) describe(c);
  return true;
}

bool read_reproducer(std::string_view bytes) {
  const auto read = decode_reproducer(bytes);
  if (const auto* error = std::get_if<DecodeError>(&read)) return one_line(*error), false;
  const Reproducer& r = std::get<Reproducer>(read);
  const std::string text = encode(r, "file.attn.json");
  const auto again = decode_reproducer(text);
  hold(std::holds_alternative<Reproducer>(again), "a reproducer that was written is refused");
  hold(std::get<Reproducer>(again).c == r.c, "a reproducer's case differs after it was written and read");
  hold(encode(std::get<Reproducer>(again), "file.attn.json") == text,
       "the text of a reproducer is not canonical");
  hold(!reproducer_name(r).empty(), "a reproducer without a name");
  return true;
}

bool read_session(std::string_view bytes) {
  const auto read = sequences::decode_session(bytes);
  if (const auto* error = std::get_if<DecodeError>(&read)) return one_line(*error), false;
  const auto& [chain, found] = std::get<sequences::SessionFile>(read);
  const std::string text = encode(chain, found);
  const auto again = sequences::decode_session(text);
  hold(std::holds_alternative<sequences::SessionFile>(again), "a sequence that was written is refused");
  hold(std::get<sequences::SessionFile>(again).chain == chain,
       "a sequence differs after it was written and read");
  hold(encode(std::get<sequences::SessionFile>(again).chain, found) == text,
       "the text of a sequence is not canonical");
  hold(sequences::story(chain.last).size() == chain.last.steps.size(), "a story without some of its steps");
  return true;
}

// parse_json() must agree with the library's parser on all bytes that are within its limits.
void read_json(std::string_view bytes) {
  const auto read = parse_json(bytes);
  if (const auto* error = std::get_if<DecodeError>(&read)) return one_line(*error);
  const auto& json = std::get<Json>(read);
  hold(json == Json::parse(bytes, nullptr, false), "two readers of JSON disagree");
  const auto again = parse_json(json_text(json));
  hold(std::holds_alternative<Json>(again) && std::get<Json>(again) == json,
       "JSON differs after it was written and read");
}

void read_tables_and_lines(std::string_view bytes) {
  const std::string text(bytes);
  try {
    parse_ledger(text, "ledger.json", {{"fa1"}, {"plain"}});
  } catch (const std::exception& e) {
    hold(*e.what() != 0 && std::strlen(e.what()) < 4096, "a ledger is refused without a short reason");
  }
  std::string error;
  const Calibration calibration = parse_calibration(text, &error);
  if (error.empty()) {
    hold(calibration_text(parse_calibration(calibration_text(calibration), &error)) ==
             calibration_text(calibration),
         "a calibration differs after it was written and read");
  }
  if (const auto line = parse_series_line(text))
    hold(parse_series_line(line_of(*line)).has_value(), "a lost line");
  if (const auto line = parse_corpus_line(text))
    hold(parse_corpus_line(line_of(*line)).has_value(), "a lost line");
  hold(parse_trace(text_of(parse_trace(text))).size() == parse_trace(text).size(), "a trace has lost a case");
}

void show(std::string_view bytes) {
  const std::string line = printable(bytes), lines = printable_lines(bytes), label = kernel_label(bytes);
  hold(printable(line) == line && printable_lines(line) == line, "one line is not printable");
  hold(line.find('\n') == line.npos && line.size() <= kMostShown, "one line has a line feed or is too long");
  hold(printable_lines(lines) == lines, "lines are not printable");
  hold(label.find('/') == label.npos && kernel_label(label) == label, "a kernel's label is no file name");
  const std::string word = shell_word(bytes);
  hold(printable(word, word.size()) == word, "a shell's word is not printable");
  for (const char ch : in_literal(bytes))
    hold(ch >= ' ' && ch <= '~' && ch != '"', "a character would end or break a literal");
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const bool is_case = read_case(bytes), is_reproducer = read_reproducer(bytes),
             is_session = read_session(bytes);
  hold(is_case + is_reproducer + is_session <= 1, "one text is read as two kinds of file");
  read_json(bytes);
  read_tables_and_lines(bytes);
  show(bytes);
  hold(case_of(bytes).has_value() == (is_case || is_reproducer), "a unit and its text do not agree");
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (seed % 2 == 0 || !LLVMFuzzerMutate) {
    const std::string next =
        mutated({reinterpret_cast<const char*>(data), size}, GeneratorConfig{}, seed, max_size);
    if (!next.empty()) {
      std::memcpy(data, next.data(), next.size());
      if (seed % 4 == 0 || !LLVMFuzzerMutate) return next.size();
      size = next.size();
    }
  }
  return LLVMFuzzerMutate ? LLVMFuzzerMutate(data, size, max_size) : size;
}
