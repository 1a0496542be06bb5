"""No folder of src/ calls what stands below it in the table of docs/architecture.md."""

import glob
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def floors():
    with open(os.path.join(ROOT, "docs", "architecture.md"), encoding="utf-8") as page:
        table = [m[1] for line in page if (m := re.match(r"\| `src/(\w+)/` \|", line))]
    assert set(table) == set(os.listdir(os.path.join(ROOT, "src")))
    # keyhole-init is linked by itself, of nothing else.
    return [name for name in table if name != "init"]


def test_no_folder_calls_what_stands_below_it():
    order = floors()
    # Of each source that is there: what lay in build/ before may be somebody's past.
    sources = [os.path.relpath(name, ROOT) for folder in order
               for name in glob.glob(os.path.join(ROOT, "src", folder, "**", "*.c"), recursive=True)]  # fmt: skip
    objects = [f"build/obj/{name[:-2]}.o" for name in sources]
    done = subprocess.run(["nm", "-A", "-g", *objects], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [re.match(r"build/obj/src/(\w+)/(\S+):\s*\w* (\w) (\w+)", line) for line in done.stdout.splitlines()]
    known = [m.groups() for m in lines if m]
    home = {symbol: folder for folder, _, kind, symbol in known if kind != "U"}
    assert home["kh_err_set"] == "base" and home["main"] == "cli"
    up = [f"src/{folder}/{name} calls {symbol} of {home[symbol]}" for folder, name, kind, symbol in known
          if kind == "U" and symbol in home and order.index(home[symbol]) > order.index(folder)]  # fmt: skip
    assert up == []
