#include "report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "check/wording.hpp"
#include "cli/table.hpp"
#include "core/build_info.hpp"
#include "core/equal_slots.hpp"
#include "core/printable.hpp"
#include "files/json_text.hpp"

namespace eplb {

using Json = nlohmann::ordered_json;

namespace {

template <typename T>
Json json_or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}

Json findings_json(const std::vector<Finding>& findings) {
    Json array = Json::array();
    for (const Finding& finding : findings) {
        array.push_back({{"severity", name_of(finding.severity)},
                         {"code", finding.code},
                         {"where", finding.where},
                         {"message", finding.message},
                         {"hint", finding.hint}});
    }
    return array;
}

// What is known of counts, of one file or of a sum; null where nothing is.
struct CountFigures {
    Json total, record_slots, layers, top_k_guess;
};

CountFigures figures_of(const std::optional<CountReport>& counts) {
    CountFigures figures;
    if (!counts) return figures;
    figures.top_k_guess = json_or_null(counts->top_k_guess);
    figures.record_slots = {{"total", counts->record_slots}, {"nonzero", nullptr}, {"distinct", nullptr}};
    figures.layers = {{"total", counts->layers}, {"zero", nullptr}};
    if (counts->statistics) {
        figures.total = counts->statistics->total;
        figures.record_slots["nonzero"] = counts->statistics->filled.size();
        figures.record_slots["distinct"] = distinct(counts->statistics->first_equal);
        figures.layers["zero"] = counts->statistics->zero_layers;
    }
    return figures;
}

Json sum_json(const Report& report) {
    const CountFigures figures = figures_of(report.sum);
    return {{"files", report.files.size()},
            {"total", figures.total},
            {"record_slots", figures.record_slots},
            {"layers", figures.layers},
            {"top_k_guess", figures.top_k_guess}};
}

Json count_file_json(const FileReport& file) {
    const CountFigures figures = figures_of(file.counts);
    return {{"file", file.path},
            {"format", json_or_null(file.format)},
            {"sha256", json_or_null(file.sha256)},
            {"bytes", json_or_null(file.bytes)},
            {"dtype", file.dtype ? Json(name_of(*file.dtype)) : Json()},
            {"shape", file.dtype ? Json(file.shape) : Json()},
            {"reduction", file.counts ? Json(name_of(file.counts->reduction)) : Json()},
            {"total", figures.total},
            {"record_slots", figures.record_slots},
            {"layers", figures.layers},
            {"top_k_guess", figures.top_k_guess},
            {"saved_on", json_or_null(file.saved_on)},
            {"findings", findings_json(file.findings)}};
}

Json layout_file_json(const FileReport& file) {
    Json geometry;
    if (file.geometry) {
        geometry = {{"layers", file.geometry->layers},
                    {"experts", file.geometry->experts},
                    {"ranks", file.geometry->ranks},
                    {"slots_per_rank", file.geometry->slots_per_rank},
                    {"physical_slots", file.geometry->physical_slots()},
                    {"redundant_total", file.geometry->redundant_total()}};
    }
    return {{"file", file.path},
            {"sha256", json_or_null(file.sha256)},
            {"geometry", geometry},
            {"findings", findings_json(file.findings)}};
}

// Findings of all files, one line for each severity and code: eight files with the same note are one note.
struct Group {
    Finding first;
    std::string file;  // of the first one; empty across files
    int files = 0;     // that have such a finding
};

std::vector<Group> grouped(const Report& report) {
    std::vector<Group> groups;
    const auto add = [&](const Finding& finding, const std::string& file) {
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
            return !file.empty() && !group.file.empty() && group.first.code == finding.code &&
                   group.first.severity == finding.severity;
        });
        if (same == groups.end()) {
            groups.push_back({finding, file, 1});
        } else {
            ++same->files;
        }
    };
    for (const Finding& finding : report.findings) add(finding, "");
    for (const FileReport& file : report.files) {
        for (const Finding& finding : file.findings) add(finding, file.path);
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) { return a.first.severity > b.first.severity; });
    return groups;
}

// Breaks at spaces so that no line is longer than a wide terminal, where words allow it.
std::string wrapped(const std::string& text, const std::string& first_indent, const std::string& indent) {
    constexpr std::size_t width = 110;
    std::string result, line = first_indent;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        const std::string_view word = std::string_view(text).substr(at, end - at);
        if (line.size() + word.size() > width && line.size() > indent.size()) {
            line.pop_back();
            result += line + "\n";
            line = indent;
        }
        line += word;
        line += ' ';
        at = end + 1;
    }
    line.pop_back();
    return result + line + "\n";
}

std::string finding_text(const Group& group, bool several_files, bool verbose) {
    const Finding& finding = group.first;
    std::string place = several_files ? group.file : std::string();
    if (!finding.where.empty()) place += (place.empty() ? "" : ", ") + finding.where;
    std::string text = fmt::format("  {:<8} {}", name_of(finding.severity), finding.code);
    if (!place.empty()) text += fmt::format("  [{}]", printable(place));
    if (group.files > 1) text += fmt::format("  and {} more file{}", group.files - 1, group.files == 2 ? "" : "s");
    const std::string indent(11, ' ');
    text += "\n" + wrapped(printable(finding.message), indent, indent);
    if (!finding.hint.empty() && (verbose || finding.severity > Severity::info)) {
        text += wrapped(printable(finding.hint), indent + "-> ", indent + "   ");
    }
    return text;
}

std::string number_of(std::size_t number, const char* noun) {
    return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string verdict_text(const Report& report) {
    std::size_t tally[3] = {0, 0, 0}, undecodable = 0;
    const auto count = [&](const std::vector<Finding>& findings) {
        for (const Finding& finding : findings) ++tally[static_cast<std::size_t>(finding.severity)];
    };
    count(report.findings);
    for (const FileReport& file : report.files) {
        count(file.findings);
        undecodable += file.undecodable.has_value();
    }
    std::string answer = report.layout ? "OK: a legal layout" : "OK: counts that can be fitted";
    if (report.exit_code() != 0) {
        answer = report.layout ? "NO: not to be loaded" : "NO: not to be fitted";
        if (tally[2] == 0) answer = "NO (--strict): look at the warnings first";
    }
    if (undecodable != 0) {
        answer = report.files.size() == 1
                     ? "NO: cannot be read"
                     : fmt::format("NO: {} of {} files cannot be read", undecodable, report.files.size());
    }
    return fmt::format("{} ({}, {}, {})\n", answer, number_of(tally[2], "error"), number_of(tally[1], "warning"),
                       number_of(tally[0], "note"));
}

std::string fact(const char* name, const std::string& value) {
    return fmt::format("  {:<13} {}\n", name, printable(value));
}

// The facts of counts, of one file or of a sum.
std::string figure_facts(const CountReport& counts) {
    std::string text;
    if (counts.statistics) {
        const CountStatistics& statistics = *counts.statistics;
        const int different = distinct(statistics.first_equal);
        text += fact(
            "counts",
            fmt::format(
                "{} in {} of {} record slots{}", statistics.total, statistics.filled.size(), statistics.record_slots,
                different < static_cast<int>(statistics.filled.size()) ? fmt::format(", {} distinct", different) : ""));
        text += fact("layers", fmt::format("{}, {} with counts{}", statistics.layers,
                                           static_cast<std::size_t>(statistics.layers) - statistics.zero_layers.size(),
                                           statistics.zero_layers.empty()
                                               ? ""
                                               : fmt::format(" (zero: {})", number_ranges(statistics.zero_layers))));
    }
    if (counts.top_k_guess) text += fact("top-k", fmt::format("{}, guessed from the totals", *counts.top_k_guess));
    return text;
}

std::string count_facts(const FileReport& file, bool verbose) {
    std::string text = fact("file", file.path);
    if (file.format) {
        text += fact("content", fmt::format("{}, {} [{}], {} bytes{}", *file.format, name_of(*file.dtype),
                                            fmt::join(file.shape, ", "), *file.bytes,
                                            file.saved_on ? fmt::format(", saved on {}", *file.saved_on) : ""));
    } else if (file.bytes) {
        text += fact("content", fmt::format("{} bytes", *file.bytes));
    }
    if (verbose && file.sha256) text += fact("sha256", *file.sha256);
    if (!file.counts) return text;
    text += fact("reduction", name_of(file.counts->reduction));
    return text + figure_facts(*file.counts);
}

std::string layout_facts(const FileReport& file, bool verbose) {
    std::string text = fact("file", file.path);
    if (file.geometry) {
        text += fact("layout", fmt::format("{} layers, {}", file.geometry->layers, describe(*file.geometry)));
    }
    if (file.table) {
        text += fact("table", fmt::format("{} ranks x {} layers x {} experts", file.table->ranks, file.table->layers,
                                          file.table->experts));
    }
    if (verbose && file.sha256) text += fact("sha256", *file.sha256);
    if (verbose && file.map_hash) text += fact("map hash", *file.map_hash);
    return text;
}

std::string files_table(const Report& report) {
    cli::Table table({"file", "format", "type", "record slots", "layers", "counts", "reduction"});
    for (const FileReport& file : report.files) {
        const auto* statistics = file.counts && file.counts->statistics ? &*file.counts->statistics : nullptr;
        const auto filled = [](std::size_t part, int all) { return fmt::format("{}/{}", part, all); };
        table.add({printable(file.path), file.format.value_or("-"),
                   file.dtype ? std::string(name_of(*file.dtype)) : "-",
                   statistics ? filled(statistics->filled.size(), statistics->record_slots) : "-",
                   statistics ? filled(static_cast<std::size_t>(statistics->layers) - statistics->zero_layers.size(),
                                       statistics->layers)
                              : "-",
                   statistics ? fmt::format("{}", statistics->total) : "-",
                   file.counts ? name_of(file.counts->reduction) : "-"});
    }
    return table.text();
}

}  // namespace

int Report::exit_code() const {
    const Severity no = strict ? Severity::warning : Severity::error;
    int code = any_at_least(findings, no) ? 1 : 0;
    for (const FileReport& file : files) {
        code = std::max(code, file.undecodable ? static_cast<int>(file.undecodable->code()) : 0);
        code = std::max(code, any_at_least(file.findings, no) ? 1 : 0);
    }
    return code;
}

std::string report_json(const Report& report) {
    Json files = Json::array();
    for (const FileReport& file : report.files) {
        files.push_back(report.layout ? layout_file_json(file) : count_file_json(file));
    }
    Json json{{"tool", "eplb-validate"},
              {"version", version()},
              {"ok", report.exit_code() == 0},
              {"files", std::move(files)},
              {"findings", findings_json(report.findings)}};
    if (report.sum) json["sum"] = sum_json(report);
    return json_text(json);
}

std::string report_text(const Report& report, bool verbose) {
    std::string text = verdict_text(report);
    const bool as_table = report.files.size() > 1 && !report.layout;
    if (as_table) text += files_table(report);
    for (const FileReport& file : report.files) {
        if (as_table && !verbose) break;
        text += report.layout ? layout_facts(file, verbose) : count_facts(file, verbose);
    }
    if (report.sum) {
        text += fact("sum", fmt::format("of {}", number_of(report.files.size(), "file")));
        text += figure_facts(*report.sum);
    }
    for (const Group& group : grouped(report)) text += finding_text(group, report.files.size() > 1, verbose);
    return text;
}

}  // namespace eplb
