// Results for machines: to a file, or to a standard output that holds nothing else.
#pragma once

#include <initializer_list>
#include <string>

namespace attnfuzz {

// To the file, or to standard output where that is "-".
void write_to(const std::string& path, const std::string& text);

// If one of `paths` is "-", text for a person goes to standard error while this lives, so that standard output
// holds the results alone.
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
