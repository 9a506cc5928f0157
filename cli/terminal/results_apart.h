// Results for machines: to a file, or to a standard output that holds nothing else.
#pragma once

#include <initializer_list>
#include <string>

namespace attnfuzz {

// To the file, or to standard output where that is "-".
void write_to(const std::string& path, const std::string& text);

// Where one of `paths` is "-": while it lives what is printed for a person goes to standard error, so that
// standard output holds the results alone.
class ResultsApart {
 public:
  explicit ResultsApart(std::initializer_list<std::string> paths);
  ~ResultsApart();
  ResultsApart(const ResultsApart&) = delete;
  ResultsApart& operator=(const ResultsApart&) = delete;

 private:
  int stdout_ = -1;  // kept for them
};

}  // namespace attnfuzz
