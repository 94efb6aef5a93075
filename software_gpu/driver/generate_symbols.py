# SPDX-License-Identifier: Apache-2.0
"""Writes C++ from the declarations in cuda.h and cudaTypedefs.h, for the build of libcuda.so.1.

Usage: python generate_symbols.py INCLUDE_DIR OUT_DIR COMPILER...

defaults.cc        every name that cuda.h declares, as a weak function that reports that it is missing
per_thread.cc      the names with _ptsz and _ptds: they call the functions, with the thread's own stream as the null stream
symbol_table.inc   for cuGetProcAddress: X(name, CUDA version of the signature, symbol, symbol for per-thread streams),
                   and Y where the version has no type of its own
error_table.inc    X(error) for each error of CUresult
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HEAD = "// SPDX-License-Identifier: Apache-2.0\n//\n// Written by generate_symbols.py.\n"
# Names that the header's macros map to another function than the one with the next number.
ELSEWHERE = {("cuGraphInstantiate", 12000): "cuGraphInstantiateWithFlags"}


def preprocess(compiler: list[str], include: str) -> str:
    source = "#include <cuda.h>\n#include <cudaTypedefs.h>\n"
    command = [*compiler, "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", f"-I{include}", "-x", "c++", "-"]
    return subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout


def functions_of(text: str) -> dict[str, str]:
    """Returns the parameters of each function."""
    found = re.finditer(r"\bCUresult\s+(cu\w+)\s*\(([^;]*)\)\s*;", text)
    return {match[1]: " ".join(match[2].split()) for match in found}


def versions_of(text: str) -> dict[tuple[str, str], list[int]]:
    """Returns the CUDA versions of each name's signatures, by name and suffix, such as ("cuMemcpy", "_ptds")."""
    versions = defaultdict(list)
    for match in re.finditer(r"\*\s*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)\s*\(", text):
        versions[match[1], match[3] or ""].append(int(match[2]))
    return {key: sorted(found) for key, found in versions.items()}


def base_of(symbol: str) -> str:
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", symbol)


def names_of(parameters: str) -> list[str]:
    if parameters in {"", "void"}:
        return []
    return [re.findall(r"(\w+)\s*(?:\[\w*\])?$", parameter.strip())[0] for parameter in parameters.split(",")]


def write_defaults(functions: dict[str, str]) -> str:
    lines = [HEAD, '#include "driver/defaults.h"\n\nextern "C" {\n']
    lines += [
        f'__attribute__((weak)) int {symbol}() {{ return callout::software_gpu::NotSupported("{symbol}"); }}\n'
        for symbol in sorted(functions)
        if not symbol.endswith(("_ptsz", "_ptds"))
    ]
    return "".join([*lines, "}\n"])


def write_per_thread(functions: dict[str, str]) -> str:
    lines = [HEAD, '#include "driver/cuda_types.h"\n#include "driver/defaults.h"\n\nextern "C" {\n']
    for symbol, parameters in sorted(functions.items()):
        if symbol.endswith(("_ptsz", "_ptds")):
            call = f"{symbol[:-5]}({', '.join(names_of(parameters))})"
            lines.append(
                f"CUresult {symbol}({parameters}) {{\n"
                f"  const callout::software_gpu::PerThreadStreams scope;\n  return {call};\n}}\n"
            )
    return "".join([*lines, "}\n"])


def write_table(functions: dict[str, str], versions: dict[tuple[str, str], list[int]]) -> str:
    lines = [HEAD]
    for (name, kind), found in sorted(versions.items()):
        if kind:
            continue
        for number, version in enumerate(found, 1):
            symbol = name if number == 1 else f"{name}_v{number}"
            if symbol not in functions:
                sys.exit(f"cuda.h declares no {symbol}, which would be {name} since {version}")
            per_thread = next((symbol + k for k in ("_ptsz", "_ptds") if symbol + k in functions), symbol)
            lines.append(f"X({name}, {version}, {symbol}, {per_thread})\n")
        for (other, version), symbol in ELSEWHERE.items():
            if other == name:
                lines.append(f"Y({name}, {version}, {symbol}, {symbol})\n")
    return "".join(lines)


def write_errors(text: str) -> str:
    (body,) = re.findall(r"enum cudaError_enum\s*\{(.*?)\}", text, re.DOTALL)
    return HEAD + "".join(f"X({name})\n" for name in re.findall(r"\b(CUDA_\w+)\s*=", body))


def main() -> None:
    include, out, *compiler = sys.argv[1:]
    text = preprocess(compiler, include)
    functions = functions_of(text)
    written = {
        "defaults.cc": write_defaults(functions),
        "per_thread.cc": write_per_thread(functions),
        "symbol_table.inc": write_table(functions, versions_of(text)),
        "error_table.inc": write_errors(text),
    }
    Path(out).mkdir(parents=True, exist_ok=True)
    for name, content in written.items():
        (Path(out) / name).write_text(content)


if __name__ == "__main__":
    main()
