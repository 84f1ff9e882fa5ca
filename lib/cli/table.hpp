// Plain text tables for a terminal.
#pragma once

#include <string>
#include <vector>

namespace eplb::cli {

// Columns are as wide as their longest cell; the first column is left-aligned, the others right-aligned; two spaces
// between. Every row has as many cells as the header.
class Table {
  public:
    explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    std::string text(const std::string& indent = "  ") const;  // lines end with '\n'

  private:
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace eplb::cli
