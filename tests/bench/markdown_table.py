"""Tables as docs/benchmarks.md has them."""


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|---" + "|-:" * (len(header) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)
