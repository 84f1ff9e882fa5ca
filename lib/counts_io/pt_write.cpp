// The .pt that SGLang's recorder leaves: torch.save of {rank, logical_count, average_utilization_rate_over_window}.
#include <bit>
#include <string>

#include "core/error.hpp"
#include "core/tensor_view.hpp"
#include "counts_io/count_formats.hpp"
#include "files/zip.hpp"

namespace eplb {
namespace {

// Assembles a protocol 2 pickle as Python writes it, memo slots included.
class PickleWriter {
  public:
    PickleWriter() : text_("\x80\x02") {}
    PickleWriter& raw(std::string_view opcodes) {
        text_ += opcodes;
        return *this;
    }
    PickleWriter& memo() {
        raw("q").little(memo_++, 1);
        return *this;
    }
    PickleWriter& unicode(std::string_view value) { return raw("X").little(value.size(), 4).raw(value).memo(); }
    PickleWriter& global(std::string_view module, std::string_view name) {
        return raw("c").raw(module).raw("\n").raw(name).raw("\n").memo();
    }
    PickleWriter& integer(std::int64_t value) {
        const auto bits = static_cast<std::uint64_t>(value);
        if (bits < 0x100) return raw("K").little(bits, 1);
        if (bits < 0x10000) return raw("M").little(bits, 2);
        if (bits < 0x80000000) return raw("J").little(bits, 4);
        std::size_t size = 1;
        while (size < 8 && bits >> (8 * size - 1) != 0) ++size;  // LONG1 is signed
        return raw("\x8a").little(size, 1).little(bits, size);
    }
    const std::string& text() const { return text_; }

  private:
    PickleWriter& little(std::uint64_t value, std::size_t size) {
        for (std::size_t index = 0; index < size; ++index) text_ += static_cast<char>(value >> 8 * index & 0xff);
        return *this;
    }

    std::string text_;
    std::uint64_t memo_ = 0;
};

std::string recorder_pickle(const Tensor& counts, int rank) {
    const std::vector<std::int64_t>& shape = counts.shape;
    const std::int64_t layer_stride = shape[2], slot_stride = shape[1] * shape[2];
    PickleWriter pickle;
    pickle.raw("}").memo().raw("(").unicode("rank").integer(rank).unicode("logical_count");
    pickle.global("torch._utils", "_rebuild_tensor_v2")
        .raw("((")
        .unicode("storage")
        .global("torch", counts.dtype == DType::int64 ? "LongStorage" : "IntStorage");
    pickle.unicode("0").unicode("cpu").integer(shape[0] * slot_stride).raw("t").memo().raw("Q");
    pickle.integer(0).integer(shape[0]).integer(shape[1]).integer(shape[2]).raw("\x87").memo();
    pickle.integer(slot_stride).integer(layer_stride).integer(1).raw("\x87").memo();
    pickle.raw("\x89").global("collections", "OrderedDict").raw(")R").memo().raw("t").memo().raw("R").memo();
    pickle.unicode("average_utilization_rate_over_window").raw("Nu.");
    return pickle.text();
}

}  // namespace

std::vector<std::byte> encode_pt_counts(const Tensor& counts, int rank) {
    ZipWriter archive;
    archive.add("archive/data.pkl", recorder_pickle(counts, rank));
    archive.add("archive/byteorder", std::endian::native == std::endian::little ? "little" : "big");
    archive.add("archive/data/0", bytes_of(counts));
    archive.add("archive/version", "3\n");
    return archive.finish();
}

}  // namespace eplb
