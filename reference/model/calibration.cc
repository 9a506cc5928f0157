#include "reference/model/calibration.h"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/json.h"
#include "reference/model/arithmetic_names.h"
#include "reference/model/arithmetic_table.h"
#include "reference/model/device_arithmetic.h"

namespace attnfuzz {

extern const char* const kCalibrationDocumented;
extern const char* const kCalibrationExecutor;
extern const char* const kCalibrationH200;
extern const char* const kCalibrationH100;
extern const char* const kCalibrationA100;
extern const char* const kCalibrationL40S;

namespace {

constexpr double kFileUnit = 0x1p-24;

constexpr std::pair<const char*, double Calibration::*> kErrors[] = {
    {"ex2_approx", &Calibration::ex2},
    {"exp2f", &Calibration::exp2f},
    {"expf", &Calibration::expf},
    {"fast_expf", &Calibration::fast_expf},
    {"fast_expf_slope", &Calibration::fast_expf_slope},
    {"lg2_approx", &Calibration::lg2},
    {"logf", &Calibration::logf},
    {"fast_logf", &Calibration::fast_logf},
    {"rcp_approx", &Calibration::rcp},
    {"rcp_exact", &Calibration::rcp_exact},
    {"tanh_approx", &Calibration::tanh_approx},
    {"tanhf", &Calibration::tanhf},
    {"mma_unit", &Calibration::mma_unit},
};

double error_or(const Json& file, const char* key, double otherwise) {
  if (!file.contains(key)) return otherwise;
  const double error = file.at(key);
  if (!(error >= 0) || !std::isfinite(error)) throw std::runtime_error(std::string(key) + " is no error");
  return error * kFileUnit;
}

Calibration parse(const std::string& text) {
  const auto parsed = parse_json(text);
  if (const auto* error = std::get_if<DecodeError>(&parsed)) throw std::runtime_error(error->message);
  const Json& file = std::get<Json>(parsed);
  if (file.at("unit") != "2^-24") throw std::runtime_error("unit is not \"2^-24\"");
  Calibration out;
  out.name = file.at("name");
  out.device = file.value("device", "");
  out.origin = file.value("origin", "");
  out.measured = file.at("measured");
  for (const auto& [key, member] : kErrors) {
    const double error = file.at(key);
    if (!(error >= 0) || !std::isfinite(error)) throw std::runtime_error(std::string(key) + " is no error");
    out.*member = error * kFileUnit;
  }
  out.mma_block = file.at("mma_block");
  if (out.mma_block < 1) throw std::runtime_error("mma_block is not positive");
  out.mma_product = error_or(file, "mma_product", out.mma_unit);
  out.mma_sum = error_or(file, "mma_sum", 2 * out.mma_unit);
  // A calibration without the measurement must assume the worst.
  out.mma_least_f16 = file.value("mma_least_f16", 0x1p-14);
  if (!(out.mma_least_f16 >= 0 && out.mma_least_f16 <= 1))
    throw std::runtime_error("mma_least_f16 is not 0..1");
  const std::string arithmetic = file.value("arithmetic", kArithmeticNames[0]);
  const auto number = arithmetic_named(arithmetic);
  if (!number) throw std::runtime_error("arithmetic '" + arithmetic + "' is not known");
  out.arithmetic = *number;
  return out;
}

}  // namespace

const Calibration& documented() {
  static const Calibration parsed = parse(kCalibrationDocumented);
  return parsed;
}
const Calibration& executor() {
  static const Calibration parsed = parse(kCalibrationExecutor);
  return parsed;
}
const Calibration& h200() {
  static const Calibration parsed = parse(kCalibrationH200);
  return parsed;
}

const Calibration& arithmetic_table(int32_t arithmetic) {
  static const Calibration a100 = parse(kCalibrationA100), l40s = parse(kCalibrationL40S);
  switch (arithmetic) {
    case ATTN_ARITHMETIC_H200:
      return h200();
    case ATTN_ARITHMETIC_A100:
      return a100;
    case ATTN_ARITHMETIC_L40S:
      return l40s;
    default:
      return executor();
  }
}

const Calibration& device_table(std::string_view device) {
  static const Calibration h100 = parse(kCalibrationH100);
  for (const Calibration* table : {&h200(), &h100})
    if (device.find(table->device) != std::string_view::npos) return *table;
  const int32_t arithmetic = arithmetic_of_device(device);
  return is_proven(arithmetic) ? arithmetic_table(arithmetic) : documented();
}

const Calibration& table_for(int32_t arithmetic, const Calibration& given) {
  const Calibration& named = arithmetic_table(given.arithmetic);
  const bool of_these = !given.error_cap && given.name == named.name && given.origin == named.origin;
  return of_these ? arithmetic_table(arithmetic) : given;
}

Calibration parse_calibration(const std::string& text, std::string* error) {
  try {
    error->clear();
    return parse(text);
  } catch (const std::exception& reason) {
    *error = std::string("not a calibration: ") + reason.what();
    return documented();
  }
}

Calibration read_calibration(const std::string& path, std::string* error) {
  const auto text = read_file(path);
  if (const auto* why = std::get_if<DecodeError>(&text)) {
    *error = why->message;
    return documented();
  }
  Calibration out = parse_calibration(std::get<std::string>(text), error);
  if (!error->empty()) *error = path + ": " + *error;
  return out;
}

std::string calibration_text(const Calibration& calibration) {
  Json file;
  file["name"] = calibration.name;
  file["device"] = calibration.device;
  file["measured"] = calibration.measured;
  file["origin"] = calibration.origin;
  file["unit"] = "2^-24";
  for (const auto& [key, member] : kErrors) file[key] = calibration.*member / kFileUnit;
  file["mma_block"] = calibration.mma_block;
  file["mma_product"] = calibration.mma_product / kFileUnit;
  file["mma_sum"] = calibration.mma_sum / kFileUnit;
  file["mma_least_f16"] = calibration.mma_least_f16;
  if (calibration.arithmetic != ATTN_ARITHMETIC_ANY)
    file["arithmetic"] = arithmetic_name(calibration.arithmetic);
  return json_text(file, 2) + "\n";
}

}  // namespace attnfuzz
