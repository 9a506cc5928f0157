#include "cli/print/probe.h"

#include <charconv>
#include <vector>

#include "cli/options/command.h"

namespace attnfuzz {

void add_probe_option(CLI::App& command, ProbeArguments& arguments) {
  arguments.option = command
                         .add_option("--probe", arguments.place,
                                     "print the intermediate values of one warp beside the expected ones: "
                                     "BLOCK,WARP, or X,Y,Z,WARP with "
                                     "blockIdx = X,Y,Z (default: the warp of the first wrong element)")
                         ->expected(0, 1)
                         ->type_name("[BLOCK,WARP]");
}

std::optional<ProbeRequest> parse_probe(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::vector<uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (bool more = true; more;) {
    uint32_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc()) break;
    numbers.push_back(value);
    more = rest != end && *rest == ',';
    at = more ? rest + 1 : rest;
  }
  if (at != end || (numbers.size() != 2 && numbers.size() != 4)) {
    throw UserError(
        "'" + text +
        "' names no block and warp: write --probe BLOCK,WARP as in 3,0, or X,Y,Z,WARP as in 3,0,0,0");
  }
  ProbeRequest request;
  request.warp = numbers.back();
  for (size_t axis = 0; axis + 1 < numbers.size(); ++axis) request.block[axis] = numbers[axis];
  return request;
}

ProbedCase probe(const Case& c, const Verdict& verdict, Target& target, const ProbeArguments& arguments) {
  return probe_case(verdict.failing ? *verdict.failing : c, target, parse_probe(arguments.place),
                    verdict.where);
}

}  // namespace attnfuzz
