#!/usr/bin/env python3
"""Adds up callgrind's counts by the source file that the instructions are from, inlined ones included.

usage: instructions.py FILE PART...     prints the total, and what of it is from files with one of these
                                        parts in their names; the last line is their sum
"""

import collections
import re
import sys

NAMED = re.compile(r"(fl|fi|fe|cfi|cfl)=\((\d+)\)(?: (.*))?")
# Costs of a line: its number (relative, or the same as before), and the instructions.
COST = re.compile(r"(?:\+\d+|-\d+|\*|\d+) (\d+)")


def by_file(path):
    """Counts of one callgrind.out file."""
    names, counts = {}, collections.Counter()
    file, is_call = None, False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if named := NAMED.match(line):
                kind, number, name = named.groups()
                if name:
                    names[number] = name.strip()
                if kind in ("fl", "fi", "fe"):
                    file = names.get(number)
            elif line.startswith("calls="):
                # The next line has what the called function cost, which is counted there.
                is_call = True
            elif cost := COST.match(line):
                if not is_call:
                    counts[file] += int(cost[1])
                is_call = False
    return counts


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    counts = by_file(sys.argv[1])
    total = sum(counts.values())
    print(f"{total:>15,}  all")
    parts = 0
    for file, count in counts.most_common():
        if file and any(part in file for part in sys.argv[2:]):
            parts += count
            print(f"{count:>15,}  {100 * count / max(total, 1):6.3f} %  {file}")
    print(f"{parts:>15,}  {100 * parts / max(total, 1):6.3f} %  together")


main()
