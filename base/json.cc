#include "base/json.h"

#include <exception>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/printable.h"

namespace attnfuzz {
namespace {

// The message of the JSON library without its number.
std::string syntax(const std::exception& e) {
  std::string text = e.what();
  if (const size_t end = text.find("] "); text.starts_with('[') && end != text.npos) text.erase(0, end + 2);
  return "not JSON: " + printable(text, 200);
}

// Builds the tree event by event, and stops at the first thing that is refused.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}
  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }

  bool null() override { return add(Json(nullptr)); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(int64_t value) override { return add(Json(value)); }
  bool number_unsigned(uint64_t value) override { return add(Json(value)); }
  bool number_float(double value, const std::string&) override { return add(Json(value)); }
  bool string(std::string& value) override { return add(Json(std::move(value))); }
  bool binary(Json::binary_t&) override { return fail("binary data is not JSON"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    Level& level = open_.back();
    if (!level.names.insert(name).second) {
      return fail("a field is given twice, may be given once: " + printable(name, 60));
    }
    level.name = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    return fail(syntax(e));
  }

 private:
  struct Level {
    Json value;
    std::string name = {};  // of the member that comes next
    std::set<std::string> names = {};
  };

  bool fail(std::string error) {
    error_ = std::move(error);
    return false;
  }
  bool count() {
    if (++values_ <= limits_.values) return true;
    return fail("the text holds more than " + std::to_string(limits_.values) + " values");
  }
  bool open(Json value) {
    if (!count()) return false;
    if (open_.size() == static_cast<size_t>(limits_.depth)) {
      return fail("the text is nested more than " + std::to_string(limits_.depth) + " deep");
    }
    open_.push_back({std::move(value)});
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    put(std::move(value));
    return true;
  }
  bool add(Json value) {
    if (!count()) return false;
    put(std::move(value));
    return true;
  }
  void put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = open_.back(); level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else {
      // emplace_back() skips the library's search for the name. key() has checked that it is new.
      level.value.get_ref<Json::object_t&>().emplace_back(std::move(level.name), std::move(value));
    }
  }

  const JsonLimits limits_;
  Json root_;
  std::vector<Level> open_;
  size_t values_ = 0;
  std::string error_;
};

}  // namespace

std::variant<Json, DecodeError> parse_json(std::string_view text, const JsonLimits& limits) {
  try {
    Builder builder(limits);
    if (Json::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
    return DecodeError{builder.error()};
  } catch (const Json::exception& e) {
    return DecodeError{syntax(e)};
  } catch (const std::exception& e) {
    return DecodeError{std::string("not read: ") + e.what()};
  }
}

std::optional<Json> json_line(std::string_view text) {
  auto parsed = parse_json(text);
  if (auto* j = std::get_if<Json>(&parsed)) return std::move(*j);
  return std::nullopt;
}

Json json_of(std::string_view text) {
  auto parsed = parse_json(text);
  if (auto* error = std::get_if<DecodeError>(&parsed)) throw std::runtime_error(error->message);
  return std::move(std::get<Json>(parsed));
}

std::string json_text(const Json& j, int indent) {
  return j.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string brief(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  const auto* text = value.get_ptr<const std::string*>();
  if (text != nullptr && text->size() > 60) return brief(Json(text->substr(0, 57) + "..."));
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace attnfuzz
