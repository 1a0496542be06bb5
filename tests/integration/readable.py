"""readable.py - what lies in the readable pages of a process, as a debugger would find it"""


def found(pid, needles):
    """Where any of these bytes stand in pages that can be read without opening them: a list."""
    longest = max(map(len, needles))
    places = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            where, rights, *rest = line.split()
            low, high = (int(x, 16) for x in where.split("-"))
            if "[v" in line or high - low > 1 << 30 or rights[:3] == "---":
                continue
            for at in range(low, high, 1 << 20):
                try:
                    mem.seek(at)
                    piece = mem.read(min((1 << 20) + longest, high - at))
                except (OSError, ValueError, OverflowError):
                    continue
                places += [(hex(at + piece.find(n)), rights, rest[-1] if len(rest) > 3 else "anonymous")
                           for n in needles if n in piece]  # fmt: skip
    return places
