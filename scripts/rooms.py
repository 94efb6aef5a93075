# SPDX-License-Identifier: Apache-2.0
"""Computes the dependences between rooms: folders of src, and modules and packages of python/callout.

Usage: python scripts/rooms.py
Prints the numbers of rooms and of arrows (dependences), and the cycles. check_layers.py checks the arrows.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/callout"
DOOR = "callout"  # the room of the package's own __init__.py, which imports public modules
INCLUDE = re.compile(r'#\s*include\s*"([\w/]+)/')

Arrows = dict[tuple[str, str], list[str]]  # (room, room that it needs) -> source lines


def python_arrows() -> Arrows:
    """Returns the imports between rooms of the package, including those inside functions and for types."""
    arrows: Arrows = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        own = room_of(path)
        for node in ast.walk(ast.parse(path.read_text())):
            for room in _imported(node, path):
                if room != own:
                    arrows.setdefault((own, room), []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return arrows


def room_of(path: Path) -> str:
    """Returns the room of a file of the package."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return DOOR if first == "__init__" else first


def _imported(node: ast.AST, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            name, *inside = alias.name.split(".")
            if name == "callout":
                yield inside[0] if inside else DOOR
    elif isinstance(node, ast.ImportFrom):
        module = node.module.split(".") if node.module else []
        if node.level:
            folder = path.relative_to(PACKAGE).parent.parts
            module = [*folder[: len(folder) - node.level + 1], *module]
        elif module[:1] == ["callout"]:
            module = module[1:]
        else:
            return
        if module:
            yield module[0]
        else:
            for alias in node.names:
                yield alias.name if _is_room(alias.name) else DOOR


def _is_room(name: str) -> bool:
    return any((PACKAGE / place).exists() for place in (name, f"{name}.py", f"{name}.pyi"))


def source_arrows() -> Arrows:
    """Returns the includes between folders of src, without those of tests."""
    arrows: Arrows = {}
    source = ROOT / "src"
    rooms = {path.parent.relative_to(source).as_posix() for path in source.rglob("*.cc")}
    for path in sorted([*source.rglob("*.cc"), *source.rglob("*.h")]):
        own = path.parent.relative_to(source).as_posix()
        if own == "testing" or path.stem.endswith("_test"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            included = INCLUDE.search(line)
            if included and included[1] != own and included[1] in rooms:
                arrows.setdefault((own, included[1]), []).append(f"{path.relative_to(ROOT)}:{number}")
    return arrows


def circles(arrows: Mapping[tuple[str, str], object]) -> list[list[str]]:
    """Returns groups of rooms that need each other, directly or indirectly."""
    needs: dict[str, set[str]] = {}
    for room, needed in arrows:
        needs.setdefault(room, set()).add(needed)
    reached = {room: _reached(room, needs) for room in needs}
    found = {
        tuple(sorted(other for other in reached[room] if room in reached.get(other, ()))) for room in sorted(reached)
    }
    return sorted(map(list, found - {()}))


def _reached(room: str, needs: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = set(needs.get(room, ()))
    while ahead:
        one = ahead.pop()
        if one not in reached:
            reached.add(one)
            ahead |= needs.get(one, set())
    return reached


def floors(arrows: Mapping[tuple[str, str], object]) -> list[list[str]]:
    """Returns the rooms by floor, each directly above the rooms that it needs. Requires that there are no cycles."""
    left = {room for arrow in arrows for room in arrow}
    result = []
    while left:
        lowest = {room for room in left if not any(needed in left for own, needed in arrows if own == room)}
        if not lowest:
            raise ValueError(f"circles: {circles(arrows)}")
        result.append(sorted(lowest))
        left -= lowest
    return result


def main() -> None:
    for name, arrows in (("src", source_arrows()), ("python/callout", python_arrows())):
        rooms = {room for arrow in arrows for room in arrow}
        found = circles(arrows)
        print(f"{name}: {len(rooms)} rooms, {len(arrows)} arrows, {len(found)} circles")
        for circle in found:
            print("  circle:", ", ".join(circle))
        if not found:
            print(f"  {len(floors(arrows))} floors")


if __name__ == "__main__":
    main()
