"""Recipes for small files that are made to cost memory or time: pairs of a name and the bytes."""
import io
import struct
import zipfile
import zlib

MANY = 300_000


# Pickles, opcode by opcode.
def integer(value):
    return b"K" + bytes([value]) if 0 <= value < 256 else b"\x8a\x08" + struct.pack("<q", value)


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def remember(slot):
    return b"r" + struct.pack("<I", slot)


def recall(slot):
    return b"j" + struct.pack("<I", slot)


def many(values):
    return b"(" + b"".join(values) + b"t"


def a_list(values):
    return b"](" + b"".join(values) + b"e"


def a_dict(items):
    return b"}(" + b"".join(text(key) + value for key, value in items) + b"u"


def tensor(elements, shape, strides, key=b"0", storage=b"IntStorage", location=b"cpu", offset=0):
    reference = b"(" + text(b"storage") + b"ctorch\n" + storage + b"\n" + text(key) + text(location) + integer(
        elements) + b"tQ"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + reference + integer(offset) + many(map(integer, shape)) +
            many(map(integer, strides)) + b"\x89ccollections\nOrderedDict\n)RtR")


def torch_file(root, records=(), method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method, compresslevel=6) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02" + root + b".")
        for name, content in records:
            archive.writestr(f"a/data/{name}", content)
    return file.getvalue()


def one_tensor(*arguments, root_of=lambda value: a_dict([(b"logical_count", value)]), size=16, **named):
    return torch_file(root_of(tensor(*arguments, **named)), [("0", bytes(size))])


def per_pass(map_tensor, counts, passes, records, more=()):
    """`counts(pass)` gives the opcodes of a pass' counts."""
    fields = lambda number: [(b"rank", integer(0)), (b"gatherer_key", text(b"primary")),
                             (b"forward_pass_id", integer(number)), (b"global_physical_count", counts(number)), *more]
    root = a_dict([(b"last_physical_to_logical_map", map_tensor),
                   (b"records", a_list([a_dict(fields(number)) for number in range(passes)]))])
    return torch_file(root, records)


def shared_record(count, pairs):
    """One record of many keys, recalled many times: a search along the keys is quadratic."""
    record = a_dict([(b"%07d" % index, b"N") for index in range(pairs)] + [(b"rank", integer(0))])
    root = a_dict([(b"last_physical_to_logical_map", tensor(4, [2, 2], [2, 1])),
                   (b"records", a_list([record + remember(9)] + [recall(9)] * count))])
    return torch_file(root, [("0", bytes(16))])


def overlapping_members(count):
    """Members whose data are all the same bytes: local headers in one another's extra fields."""
    size, crc = 4 << 20, zlib.crc32(bytes(4 << 20))
    payload = zlib.compressobj(9, zlib.DEFLATED, -15)
    payload = payload.compress(bytes(size)) + payload.flush()
    names = [b"a/data/%d" % index for index in range(count)]
    places, rest = [], b""
    for name in reversed(names):  # each header's extra field holds all that follow
        extra = len(rest) if len(rest) < 0xffff else 0
        header = b"PK\3\4" + struct.pack("<5H3I2H", 20, 0, 8, 0, 0, crc, len(payload), size,
                                         len(name), extra) + name
        rest = header + rest
        places.append(len(rest))
    body = rest + payload
    directory = b"".join(b"PK\1\2" + struct.pack("<6H3I5H2I", 20, 20, 0, 8, 0, 0, crc, len(payload), size, len(name), 0,
                                                 0, 0, 0, 0, len(rest) - place) + name
                         for name, place in zip(reversed(names), places))
    end = b"PK\5\6" + struct.pack("<4H2IH", 0, 0, count, count, len(directory), len(body), 0)
    return body + directory + end


def npy(shape, data=b"", descr="<i4"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def many_keys():
    return b",".join(b'"%d":0' % index for index in range(MANY))


def counts_json(value):
    return b'{"logical_count": ' + value + b"}"


def torch_cases():
    ones = tensor(4, [2, 2], [2, 1])
    for expert in (1 << 24, (1 << 31) - 1, (1 << 63) - 1):
        yield f"map of expert {expert} on two slots", per_pass(
            tensor(2, [1, 2], [2, 1], b"1", b"LongStorage"), lambda _: tensor(2, [1, 2], [2, 1]), 1,
            [("0", bytes(8)), ("1", struct.pack("<2q", 0, expert))])
    yield "one storage for all passes", per_pass(tensor(16 << 20, [64, 1 << 18], [1 << 18, 1]) + remember(5),
                                                 lambda _: recall(5), 200, [("0", bytes(64 << 20))])
    yield "one small storage for many passes", per_pass(ones + remember(5), lambda _: recall(5), 20000,
                                                        [("0", bytes(16))])
    yield "passes of a wide storage", per_pass(
        tensor(1 << 18, [1, 1 << 18], [1 << 18, 1], b"1"),
        lambda number: tensor(12 << 20, [1, 1 << 18], [1 << 18, 1], offset=number << 18), 48,
        [("0", bytes(48 << 20)), ("1", struct.pack("<I", 0) * (1 << 18))])
    yield "passes of as many experts as slots", per_pass(
        tensor(1 << 16, [1, 1 << 16], [1 << 16, 1], b"1"),
        lambda number: tensor(15 << 20, [1, 1 << 16], [1 << 16, 1], offset=number << 16), 240,
        [("0", bytes(60 << 20)), ("1", struct.pack(f"<{1 << 16}I", *range(1 << 16)))])
    yield "passes of bytes", per_pass(
        tensor(1 << 18, [1, 1 << 18], [1 << 18, 1], b"1"),
        lambda number: tensor(60 << 20, [1, 1 << 18], [1 << 18, 1], offset=number << 18, storage=b"CharStorage"), 240,
        [("0", bytes(60 << 20)), ("1", struct.pack("<I", 0) * (1 << 18))])
    yield "a record of many keys, recalled", shared_record(100000, 50000)
    yield "a million empty records", torch_file(a_dict([(b"last_physical_to_logical_map", ones),
                                                        (b"records", a_list([b"}"] * 1000000))]), [("0", bytes(16))])
    yield "one key many times", torch_file(b"}(" + text(b"k") + remember(1) + b"N" + (recall(1) + b"N") * 100000 + b"u")
    yield "a long key in many dicts", torch_file(
        a_list([text(b"k" * (40 << 20)) + remember(1)] + [b"}(" + recall(1) + b"Nu"] * 40000))
    yield "long paths", torch_file(b"}(" + text(b"k" * (8 << 20)) + a_list([ones + remember(2)] + [recall(2)] * 90000) +
                                   b"u", [("0", bytes(16))])
    yield "a long storage key", torch_file(a_list([tensor(4, [2, 2], [2, 1], b"0" * (30 << 20)) + remember(2)] +
                                                  [recall(2)] * 90000))
    yield "tensors of sixty-four axes", torch_file(a_list(
        [tensor(4, [1] * 64, [1] * 64) + remember(2)] + [recall(2)] * 90000), [("0", bytes(16))])
    yield "many keys beside the counts", torch_file(a_dict(
        [(b"logical_count", ones)] + [(b"%06d" % index, b"N") for index in range(60000)]), [("0", bytes(16))])
    yield "memo slots far apart", torch_file(b"](" + b"N" + b"".join(remember(218971 * index % (1 << 32))
                                                                     for index in range(200000)) + b"e")
    yield "a deflated pickle of zeros", torch_file(text(bytes(63 << 20)))
    yield "a deflated pickle above its limit", torch_file(text(bytes(80 << 20)))
    yield "a storage of zeros", one_tensor(25 << 20, [1600, 64, 256], [16384, 256, 1], size=100 << 20)
    yield "a full record slot of zeros", one_tensor(15 << 20, [960, 64, 256], [16384, 256, 1], size=60 << 20)
    yield "an expanded tensor", one_tensor(4, [1 << 20, 61, 256], [0, 0, 1])
    yield "an expanded bare tensor", one_tensor(256, [1 << 30, 61, 256], [0, 0, 1], root_of=lambda value: value,
                                                size=1024)
    yield "an empty tensor of many rows", one_tensor(0, [1 << 24, 4096, 0], [0, 0, 1], size=0)
    yield "overlapping members", overlapping_members(1000)
    yield "a text of four gigabytes", torch_file(b"X\xff\xff\xff\xff")
    yield "a text of 2^63 bytes", torch_file(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f")
    yield "deep lists", torch_file(b"](" * 120000 + b"e" * 120000)
    members = [("0", bytes(16))] + [(f"{'n' * 40}{index}", b"") for index in range(60000)]
    yield "sixty thousand members", torch_file(a_list([ones + remember(2)] + [recall(2)] * 90000), members,
                                               zipfile.ZIP_STORED)


def array_cases():
    yield "npy of huge extents", npy((1 << 62, 1 << 62))
    yield "npy of an overflowing shape", npy((1 << 32, 1 << 31, 2))
    yield "npy, empty, of many rows", npy((1 << 24, 4096, 0))
    yield "npy, empty, of many record slots", npy((1 << 62, 0, 0))
    yield "npy, empty, of many experts", npy((0, 4096, 65536))
    yield "npy of a long header", b"\x93NUMPY\2\0" + struct.pack("<I", 1 << 31) + b"{" * 1000
    yield "npy of many axes", npy(tuple([1] * 10000), bytes(4))
    yield "npy of a long number", npy("(" + "9" * 60000 + ",)")
    yield "npy of a long key", b"\x93NUMPY\1\0" + struct.pack("<H", 65000) + b"{'" + b"k" * 64990 + b"':  " + b" " * 10


def json_cases():
    yield "json of deep arrays", counts_json(b"[" * MANY)
    yield "json of deep objects", b'{"a":' * MANY
    yield "json of many keys", b"{" + many_keys() + b"}"
    yield "json of many keys beside the counts", b'{"logical_count":[[1,2],[1,2]],' + many_keys() + b"}"
    yield "json of one key many times", b"{" + b",".join([b'"k":0'] * MANY) + b"}"
    yield "json of a long key", counts_json(b'[[1,2],[1,2]], "' + b"k" * (20 << 20) + b'": 0')
    yield "json of a long key twice", b'{"' + b"k" * (8 << 20) + b'":0,"' + b"k" * (8 << 20) + b'":0}'
    yield "json of a long number", counts_json(b"[[" + b"9" * MANY + b"]]")
    yield "json of a long fraction", counts_json(b"[[0." + b"1" * MANY + b"]]")
    yield "json of a long exponent", counts_json(b"[[1e" + b"9" * MANY + b"]]")
    yield "json of a long word", counts_json(b"[[" + b"x" * MANY + b"]]")
    yield "json of a long unclosed string", counts_json(b'"' + b"k" * (20 << 20))
    yield "json of many empty rows", counts_json(b"[" + b",".join([b"[]"] * MANY) + b"]")
    yield "json of many empty objects", counts_json(b"[" + b",".join([b"{}"] * MANY) + b"]")
    yield "json of one expert a row", counts_json(b"[" + b",".join([b"[1]"] * MANY) + b"]")


def layout_cases():
    whole = lambda rows: b'{"physical_to_logical_map": [' + rows + b"]}"
    yield "layout of the largest id", whole(b"[0, 9223372036854775807]")
    yield "layout of the smallest id", whole(b"[0, -9223372036854775808]")
    yield "layout of many empty rows", whole(b",".join([b"[]"] * MANY) + b",[65535]")
    yield "layout of many short rows", whole(b",".join([b"[65535]"] * MANY))
    yield "layout of 4096 rows of few experts", whole(b",".join([b"[65535]"] * 4096))
    yield "layout of texts", whole(b"[" + b",".join([b'"x"'] * MANY) + b"]")
    yield "layout of a long text", whole(b'["' + b"x" * (8 << 20) + b'"]')
    yield "layout of many keys", b"{" + many_keys() + b',"physical_to_logical_map":[[0,1]]}'
    yield "layout of one wide row", whole(b"[" + b",".join([b"0"] * MANY * 2) + b"]")


def config_cases():
    yield "config of many dense layers", b'{"num_hidden_layers": 65536, "mlp_only_layers": [' + b",".join(
        [b"4096"] * MANY) + b"]}"
    yield "config of many keys", b"{" + many_keys() + b"}"
    yield "config in config", b'{"text_config":' * 60 + b"{}" + b"}" * 60


def argument_cases():
    yield "many unknown arguments", b"--x " * MANY
    yield "many contradictions", b"--ep-size 1 --ep-size 2 " * (MANY // 4)
    yield "one long word", b"--model " + b"x" * (20 << 20)
    yield "objects in words", b"--a '{\"b\": {\"c\": 1}}' " * (MANY // 10)
