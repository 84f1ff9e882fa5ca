"""Writes torch files of the counts 1..24 as [2, 3, 4], in every way that the reader knows, into the folder argv[1]."""

import collections
import os
import sys
import zipfile

import torch

folder = sys.argv[1]
counts = torch.arange(1, 25).reshape(2, 3, 4)


def save(name, value, **options):
    torch.save(value, os.path.join(folder, name), **options)


def recorder(tensor):
    return dict(rank=0, logical_count=tensor, average_utilization_rate_over_window=None)


for dtype in ("uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"):
    save(f"good-{dtype}.pt", recorder(counts.to(getattr(torch, dtype))))
for protocol in (2, 3, 4, 5):
    save(f"good-protocol{protocol}.pt", recorder(counts.int()), pickle_protocol=protocol)
save("good-ordered.pt", collections.OrderedDict(recorder(counts.int())))
save("good-list.pt", [counts.int()])
save("good-tuple.pt", (counts.int(), "note"))
save("good-bare.pt", counts.int())
save("good-parameter.pt", torch.nn.Parameter(counts.float()))
save("good-rate.pt", dict(recorder(counts), average_utilization_rate_over_window=0.75))

wide = torch.zeros(2, 4, 8, dtype=torch.int32)
wide[:, 1:, 1::2] = counts
save("good-view.pt", recorder(wide[:, 1:, 1::2]))  # an offset of 9 and strides 32, 8, 2
save("good-transposed.pt", recorder(counts.permute(2, 0, 1).contiguous().permute(1, 2, 0)))

# The same file as a server on an NPU leaves it, and as other zip tools pack it.
with zipfile.ZipFile(os.path.join(folder, "good-int32.pt")) as source:
    records = {name: source.read(name) for name in source.namelist()}
pickle_name = next(name for name in records if name.endswith("/data.pkl"))
on_npu = records[pickle_name].replace(b"X\x03\x00\x00\x00cpu", b"X\x05\x00\x00\x00npu:0")
assert on_npu != records[pickle_name]
constructor = b"ctorch_npu.utils.storage\n_rebuild_npu_tensor\n"
head, tail = on_npu.split(b"ctorch._utils\n_rebuild_tensor_v2\n")
arguments_end = tail.index(b")Rq\x0ct") + len(b")Rq\x0c")  # after the OrderedDict of hooks
as_npu = head + constructor + tail[:arguments_end] + b"\x88" + tail[arguments_end:]
for name, text, method in (
    ("good-npu-storage.pt", on_npu, zipfile.ZIP_STORED),
    ("good-npu-tensor.pt", as_npu, zipfile.ZIP_STORED),
    ("good-deflated.pt", records[pickle_name], zipfile.ZIP_DEFLATED),
):
    with zipfile.ZipFile(os.path.join(folder, name), "w", method) as target:
        for record, content in records.items():
            target.writestr(record, text if record == pickle_name else content)

save("bad-legacy.pt", recorder(counts), _use_new_zipfile_serialization=False)
save("bad-sparse.pt", recorder(counts.float().to_sparse()))
save("bad-complex.pt", recorder(counts.to(torch.complex64)))
save("bad-quantized.pt", recorder(torch.quantize_per_tensor(counts.float(), 1.0, 0, torch.qint8)))
save("bad-module.pt", torch.nn.Linear(2, 2))
torch.jit.script(torch.nn.Linear(2, 2)).save(os.path.join(folder, "bad-script.pt"))
