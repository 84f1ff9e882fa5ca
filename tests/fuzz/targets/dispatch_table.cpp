#include "files/mapped_file.hpp"
#include "layout_io/dispatch_file.hpp"
#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    const auto read = [](std::span<const std::byte> bytes) {
        const auto file = MappedFile::copy_of("table", bytes);
        return read_dispatch_table(file->reopen_path()).table;
    };
    const DispatchTable table = read(std::as_bytes(std::span(text)));
    for (const char* form : {"x.npy", "x.json"}) require(read(encode_dispatch_table(table, form)).slots == table.slots);
}
