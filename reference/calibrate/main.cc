// attnfuzz-calibrate-cpu, attnfuzz-calibrate-cuda: measure how wrong a back
// end's elementary functions and tensor-core products are, and print it as JSON.
//
//   attnfuzz-calibrate-cuda [--stride N] [--random N] [--bits N [--arithmetic A]] > measured.json
//   attnfuzz-calibrate-cuda --answers DIRECTORY
//
//   --stride N   sweep each N-th of all 2^32 inputs of each function (cpu: 3,
//                about a minute; cuda: 1, all of them, in seconds)
//   --random N   how many random mma of 128 sums each (4000)
//   --bits N     instead, compare the bits of the functions, and of N blocks of products of each
//                kind, with the model of the arithmetic A, and print only "bits". Without
//                --arithmetic, A is the device's arithmetic, or device:h200 if that is not known
//   --answers D  write the functions' results for all fractions, for attnfuzz-fit-functions
//
// "table" has the figures that a calibration is made of, in units of 2^-24,
// rounded up; "objections" lists what no calibration can describe. Exit status:
// 0 measured, 1 measured but with objections or different bits, 2 bad use or no device.
// `attnfuzz calibrate` runs this and makes a calibration of it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "reference/calibrate/bits.h"
#include "reference/calibrate/mma_probe.h"
#include "reference/calibrate/sweep.h"
#include "reference/model/device_arithmetic.h"
#include "base/json.h"

namespace {

using namespace attn;
using attnfuzz::Json;
using attnfuzz::json_text;

const char* name_of(Function function) {
  switch (function) {
    case Function::kEx2:
      return "ex2";
    case Function::kLg2:
      return "lg2";
    case Function::kRcp:
      return "rcp";
    case Function::kTanh:
      return "tanh";
  }
  return "";
}

const char* table_key(Function function) {
  switch (function) {
    case Function::kEx2:
      return "ex2_approx";
    case Function::kLg2:
      return "lg2_approx";
    case Function::kRcp:
      return "rcp_approx";
    case Function::kTanh:
      return "tanhf";
  }
  return "";
}

// In units of 2^-24 with five digits, rounded up: a figure in a table must not be less than the
// measurement.
double in_units(double error) {
  const double units = error * 0x1p24;
  if (!(units > 0) || std::isinf(units)) return units;
  const double digit = std::pow(10.0, std::floor(std::log10(units)) - 4);
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", std::ceil(units / digit) * digit);
  return std::strtod(text, nullptr);
}

std::string hex(uint32_t bits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", bits);
  return text;
}

Json describe(const Findings& f) {
  Json out;
  out["inputs"] = f.inputs;
  out["relative"] = in_units(f.relative);
  out["relative_at"] = hex(f.relative_at);
  if (f.absolute > 0) {
    out["absolute"] = in_units(f.absolute);
    out["absolute_at"] = hex(f.absolute_at);
  }
  out["subnormal_inputs"] = {{"taken_for_zero", f.inputs_flushed}, {"kept", f.inputs_kept}};
  out["subnormal_results"] = {{"flushed", f.results_flushed}, {"kept", f.results_kept}};
  out["largest_flushed"] = f.largest_flushed;
  out["smallest_infinite"] = f.smallest_infinite;
  out["wrong_kind"] = f.wrong;
  if (f.wrong > 0) out["first_wrong"] = hex(f.first_wrong);
  return out;
}

Json describe(const MmaFindings& f) {
  Json out;
  out["format"] = f.format;
  out["rounding_seed"] = f.rounding_seed;
  out["rounding"] = f.rounding;
  out["block"] = f.block;
  out["alignment_bits"] = f.alignment_bits;
  out["nominal_subnormals"] = f.nominal_subnormals;
  out["products"] = f.products;
  out["worst"] = f.worst;
  out["bias"] = f.bias;
  out["worst_ratio"] = std::isfinite(f.worst_ratio) ? Json(f.worst_ratio) : Json("not a number");
  return out;
}

void object(const MmaFindings& f, Json& objections) {
  const std::string where = f.format + " products, rounding seed " + std::to_string(f.rounding_seed) + ": ";
  if (!f.regular)
    objections.push_back(where + "not added in blocks of one size, or not alike in all rows and columns");
  if (!f.propagates_nan) objections.push_back(where + "0 * NaN, 0 * inf or inf - inf did not give NaN");
  if (f.worst_ratio > 1) {
    objections.push_back(where + "a random sum is further off than blocks of " + std::to_string(f.block) +
                         " and rounding to " + f.rounding + " explain");
  }
}

Json measure(const Device& device, uint32_t stride, int random) {
  Json out, table, functions, products = Json::array(), objections = Json::array();
  for (const Function function : kFunctions) {
    const Findings f = sweep(function, stride, device);
    functions[name_of(function)] = describe(f);
    table[table_key(function)] = in_units(std::max(f.relative, f.absolute));
    if (f.wrong > 0) {
      objections.push_back(std::string(name_of(function)) + ": " + std::to_string(f.wrong) +
                           " results of the wrong kind (NaN, infinity, zero, sign), the first at " +
                           hex(f.first_wrong));
    }
  }
  double unit = 0, product = 0, sum = 0, least = 0;
  int block = 16;
  for (const MmaFindings& f : probe_mma(device, random)) {
    products.push_back(describe(f));
    unit = std::max(unit, f.unit());
    block = std::min(block, f.charged_block());
    product = std::max(product, f.product_error());
    sum = std::max(sum, f.sum_error());
    if (f.nominal_subnormals) least = 0x1p-14;
    object(f, objections);
  }
  table["mma_unit"] = unit;
  table["mma_block"] = block;
  table["mma_product"] = product;
  table["mma_sum"] = sum;
  table["mma_least_f16"] = least;
  out["device"] = device.name;
  out["stride"] = stride;
  out["table"] = table;
  out["functions"] = functions;
  out["products"] = products;
  out["objections"] = objections;
  return out;
}

Json compare(const Device& device, uint32_t stride, uint64_t products, int32_t arithmetic) {
  Json out, all = Json::array();
  for (const BitFindings& f : compare_bits(device, stride, products, arithmetic)) {
    Json one = {{"what", f.what}, {"compared", f.compared}, {"differ", f.differ}};
    if (f.differ > 0) one.update({{"first", f.first}, {"got", hex(f.got)}, {"expected", hex(f.expected)}});
    all.push_back(std::move(one));
  }
  out["device"] = device.name;
  out["stride"] = stride;
  out["arithmetic"] = attnfuzz::arithmetic_name(arithmetic);
  out["bits"] = all;
  return out;
}

bool any_differs(const Json& compared) {
  for (const Json& one : compared.at("bits")) {
    if (one.at("differ").get<uint64_t>() > 0) return true;
  }
  return false;
}

void write_answers(const Device& device, const std::string& directory) {
  for (const Answers& answers : all_answers(device)) {
    const std::string path = directory + "/" + answers.function + ".bin";
    std::FILE* file = std::fopen(path.c_str(), "wb");
    const size_t written = file ? std::fwrite(answers.bits.data(), 4, answers.bits.size(), file) : 0;
    if (!file || std::fclose(file) != 0 || written != answers.bits.size())
      throw std::runtime_error("cannot write " + path);
  }
}

// A positive number up to `most`; otherwise the program ends.
long argument(const char* name, const char* text, long most) {
  char* end = nullptr;
  const long value = text ? std::strtol(text, &end, 10) : 0;
  if (value >= 1 && value <= most && *end == '\0') return value;
  throw std::runtime_error(std::string(name) + " needs a number from 1 to " + std::to_string(most));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Device device = open_device();
    std::string fault;
    device.env.size = sizeof device.env;
    device.env.shared_memory_limit = 48 * 1024;
    device.env.user = &fault;
    device.env.report = [](void* user, const attn_report* report) {
      *static_cast<std::string*>(user) = report->message;
    };
    long stride = device.default_stride, random = 4000, bits = 0;
    // The arithmetic that the executor uses, and whose model a GPU is compared with.
    int32_t arithmetic = attnfuzz::arithmetic_of_device(device.name);
    if (arithmetic == ATTN_ARITHMETIC_ANY) arithmetic = ATTN_ARITHMETIC_H200;
    bool told = false;
    std::string answers;
    for (int i = 1; i < argc; i += 2) {
      if (std::strcmp(argv[i], "--stride") == 0) {
        stride = argument(argv[i], argv[i + 1], 1L << 30);
      } else if (std::strcmp(argv[i], "--random") == 0) {
        random = argument(argv[i], argv[i + 1], 1000000);
      } else if (std::strcmp(argv[i], "--bits") == 0) {
        bits = argument(argv[i], argv[i + 1], 1L << 40);
      } else if (std::strcmp(argv[i], "--arithmetic") == 0 &&
                 attnfuzz::arithmetic_named(argv[i + 1] ? argv[i + 1] : "")) {
        arithmetic = *attnfuzz::arithmetic_named(argv[i + 1]), told = true;
      } else if (std::strcmp(argv[i], "--answers") == 0 && argv[i + 1]) {
        answers = argv[i + 1];
      } else {
        throw std::runtime_error(
            std::string(argv[i]) +
            " is not known; use [--stride N] [--random N] [--arithmetic A] [--bits N] or --answers DIRECTORY");
      }
    }
    if (bits > 0 || !answers.empty() || told) device.env.arithmetic = arithmetic;
    Json measured;
    try {
      if (!answers.empty()) return write_answers(device, answers), 0;
      measured = bits > 0
                     ? compare(device, static_cast<uint32_t>(stride), static_cast<uint64_t>(bits), arithmetic)
                     : measure(device, static_cast<uint32_t>(stride), static_cast<int>(random));
    } catch (const std::exception& error) {
      throw std::runtime_error(error.what() + (fault.empty() ? "" : ": " + fault));
    }
    std::printf("%s\n", json_text(measured, 2).c_str());
    return bits > 0 ? any_differs(measured) : !measured["objections"].empty();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attnfuzz-calibrate: %s\n", error.what());
    return 2;
  }
}
