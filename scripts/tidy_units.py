# SPDX-License-Identifier: Apache-2.0
"""Prints the translation units of a build that cover the given sources. A joined unit parses common headers once."""

import argparse
import json
import re
import sys
from pathlib import Path


def sources_of(unit: Path) -> set[Path]:
    """Returns the sources that a unit compiles: the files that a joined unit includes, or the unit itself."""
    if unit.parent.name != "Unity":
        return {unit}
    return {Path(name).resolve() for name in re.findall(r'#include "(.*\.cc)"', unit.read_text())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="has compile_commands.json")
    parser.add_argument("sources", type=Path, nargs="+")
    arguments = parser.parse_args()
    left = {source.resolve() for source in arguments.sources}
    for command in json.loads((arguments.build / "compile_commands.json").read_text()):
        unit = Path(command["file"])
        if not left.isdisjoint(sources_of(unit)):
            left -= sources_of(unit)
            print(unit)
    for source in sorted(left):
        print(f"{source}: no target of {arguments.build} compiles it", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
