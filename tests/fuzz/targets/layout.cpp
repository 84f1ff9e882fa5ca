#include "layout_io/layout_file.hpp"

#include "check/layout.hpp"
#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    LayoutExpectation expectation;
    expectation.ranks = 2;
    const LayoutReport report = check_layout(decode_raw_layout(text, "x.json"), expectation);
    const Layout layout = decode_layout(text, 2, std::nullopt);
    require(decode_layout(encode_layout(layout), 2, layout.geometry().experts) == layout);
    require(report.geometry == layout.geometry());
}
