"""No folder of src/ calls what stands below it in the table of docs/architecture.md, and files that
call each other in a circle are few."""

import glob
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# No circle of files is larger than this, but for those folders, where it may only shrink.
MOST = 10
MOST_IN = {}


def floors():
    with open(os.path.join(ROOT, "docs", "architecture.md"), encoding="utf-8") as page:
        table = [m[1] for line in page if (m := re.match(r"\| `src/(\w+)/` \|", line))]
    assert set(table) == set(os.listdir(os.path.join(ROOT, "src")))
    # keyhole-init is linked by itself, of nothing else.
    return [name for name in table if name != "init"]


def calls():
    """Of each file, as "folder/name", those that it uses a symbol of; by the objects' symbols."""
    # Of each source that is there: what lay in build/ before may be somebody's past.
    sources = [os.path.relpath(name, ROOT) for folder in floors()
               for name in glob.glob(os.path.join(ROOT, "src", folder, "**", "*.c"), recursive=True)]  # fmt: skip
    objects = [f"build/obj/{name[:-2]}.o" for name in sources]
    done = subprocess.run(["nm", "-A", "-g", *objects], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [re.match(r"build/obj/src/(\S+)\.o:\s*\w* (\w) (\w+)", line) for line in done.stdout.splitlines()]
    known = [m.groups() for m in lines if m]
    home = {symbol: name for name, kind, symbol in known if kind != "U"}
    assert home["kh_err_set"] == "base/err" and home["main"] == "cli/main"
    edges = {name[4:-2]: set() for name in sources}
    for name, kind, symbol in known:
        if kind == "U" and home.get(symbol, name) != name:
            edges[name].add(home[symbol])
    return edges


def folder_of(name):
    return name.split("/")[0]


def circles(edges):
    """The strongly connected components of more than one file (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for name in edges:
        if name not in index:
            visit(name)
    return [circle for circle in found if len(circle) > 1]


def test_no_folder_calls_what_stands_below_it():
    order = floors()
    up = {name: below for name, others in calls().items()
          if (below := sorted(o for o in others if order.index(folder_of(o)) > order.index(folder_of(name))))}  # fmt: skip
    assert up == {}


def test_files_that_call_each_other_in_a_circle_are_few():
    largest = {}
    for circle in circles(calls()):
        folders = {folder_of(name) for name in circle}
        assert len(folders) == 1, f"a circle of calls goes through {sorted(folders)}: {circle}"
        folder = folders.pop()
        if len(circle) > len(largest.get(folder, [])):
            largest[folder] = circle
    for folder in floors():
        circle = largest.get(folder, [])
        print(f"{folder:12} {len(circle):3}  {' '.join(name.split('/', 1)[1] for name in circle)}")
        assert len(circle) <= max(MOST, MOST_IN.get(folder, 0)), f"{folder}: {circle}"
    stale = {folder: len(largest.get(folder, [])) for folder, most in MOST_IN.items()
             if len(largest.get(folder, [])) < most}  # fmt: skip
    assert stale == {}, "these have shrunk: lower MOST_IN"
