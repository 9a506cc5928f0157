#include "text/json.h"

#include <exception>
#include <set>
#include <utility>
#include <vector>

#include "text/printable.h"

namespace attnfuzz {
namespace {

// What the JSON library said, without its own numbering.
std::string syntax(const std::exception& e) {
  std::string text = e.what();
  if (const size_t end = text.find("] "); text.starts_with('[') && end != text.npos) text.erase(0, end + 2);
  return "not JSON: " + printable(text, 200);
}

// Builds the tree event by event, and stops at the first thing that is refused.
template <class J>
class Builder : public nlohmann::json_sax<J> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}
  J take() { return std::move(root_); }
  const std::string& error() const { return error_; }

  bool null() override { return add(J(nullptr)); }
  bool boolean(bool value) override { return add(J(value)); }
  bool number_integer(int64_t value) override { return add(J(value)); }
  bool number_unsigned(uint64_t value) override { return add(J(value)); }
  bool number_float(double value, const std::string&) override { return add(J(value)); }
  bool string(std::string& value) override { return add(J(std::move(value))); }
  bool binary(typename J::binary_t&) override { return fail("binary data is not JSON"); }
  bool start_object(size_t) override { return open(J::object()); }
  bool start_array(size_t) override { return open(J::array()); }
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
    J value;
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
  bool open(J value) {
    if (!count()) return false;
    if (open_.size() == static_cast<size_t>(limits_.depth)) {
      return fail("the text is nested more than " + std::to_string(limits_.depth) + " deep");
    }
    open_.push_back({std::move(value)});
    return true;
  }
  bool close() {
    J value = std::move(open_.back().value);
    open_.pop_back();
    put(std::move(value));
    return true;
  }
  bool add(J value) {
    if (!count()) return false;
    put(std::move(value));
    return true;
  }
  void put(J value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = open_.back(); level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else if constexpr (std::is_same_v<J, nlohmann::ordered_json>) {
      // A name that is new, as key() knows: without the library's search for it.
      level.value.template get_ref<typename J::object_t&>().emplace_back(std::move(level.name),
                                                                         std::move(value));
    } else {
      level.value.emplace(std::move(level.name), std::move(value));
    }
  }

  const JsonLimits limits_;
  J root_;
  std::vector<Level> open_;
  size_t values_ = 0;
  std::string error_;
};

template <class J>
std::variant<J, DecodeError> parse(std::string_view text, const JsonLimits& limits) {
  try {
    Builder<J> builder(limits);
    if (J::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
    return DecodeError{builder.error()};
  } catch (const nlohmann::json::exception& e) {
    return DecodeError{syntax(e)};
  } catch (const std::exception& e) {
    return DecodeError{std::string("not read: ") + e.what()};
  }
}

}  // namespace

std::variant<nlohmann::json, DecodeError> parse_json(std::string_view text, const JsonLimits& limits) {
  return parse<nlohmann::json>(text, limits);
}

std::variant<nlohmann::ordered_json, DecodeError> parse_ordered_json(std::string_view text,
                                                                     const JsonLimits& limits) {
  return parse<nlohmann::ordered_json>(text, limits);
}

std::optional<nlohmann::ordered_json> json_line(std::string_view text) {
  auto parsed = parse_ordered_json(text);
  if (auto* j = std::get_if<nlohmann::ordered_json>(&parsed)) return std::move(*j);
  return std::nullopt;
}

}  // namespace attnfuzz
