// Enough of an XML reader to hold a page to being well-formed.
#pragma once

#include <string>

namespace attnfuzz {

// What is wrong with it, and where; empty if nothing is. Knows the five entities
// of XML, takes <!DOCTYPE html> and no comments, processing instructions or CDATA.
std::string malformed(const std::string& text);

}  // namespace attnfuzz
