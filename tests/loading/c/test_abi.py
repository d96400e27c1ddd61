"""Every accepted declaration is the one that the compiler reads: random texts against its own types."""

import itertools
import random
import subprocess

import pytest
from native.build import COMPILERS, environment

from mojoview.loading.c.declaration import read_header
from mojoview.loading.c.declared import NAMED, SPECIFIED
from mojoview.memory.errors import DeclarationError

IN_C = {
    "bool": ["_Bool"],
    "float32": ["float"],
    "float64": ["double"],
    "int8": ["signed char"],
    "int16": ["short"],
    "int32": ["int"],
    "int64": ["long", "long long"],
    "status": ["int"],
    "uint8": ["unsigned char"],
    "uint16": ["unsigned short"],
    "uint32": ["unsigned"],
    "uint64": ["unsigned long", "unsigned long long"],
    "void": ["void"],
}
NUMBERS = sorted({*SPECIFIED, *NAMED} - {"void", "mv_status"})
ODD = [
    "__int128",
    "long double",
    "double _Complex",
    "char",
    "struct s",
    "enum e",
    "_Float128",
    "size_t int",
    "float int",
]
NAMES = ["real", "number", "bool", "size_t", "float64", "int32", "value"]
WORDS = [
    "const",
    "volatile",
    "register",
    "restrict",
    "__restrict",
    "__complex__",
    "__extension__",
    "/* */",
    "//\\\n x\n",
]


class Texts:
    """Random declarations, valid or not."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.number = 0

    def maybe(self, text: str, chance: float) -> str:
        return text if self.random.random() < chance else ""

    def type(self) -> str:
        known = [*NUMBERS, *NAMES, *NAMES]
        words = self.random.choice(ODD if self.random.random() < 0.06 else known).split()
        self.random.shuffle(words)
        if self.random.random() < 0.2:
            words.insert(self.random.randrange(len(words) + 1), self.random.choice(WORDS))
        return " ".join(words)

    def argument(self, name: str) -> str:
        kind = self.random.choice(["value", "pointer", "const", "array"])
        if kind == "value":
            return f"{self.type()} {self.maybe(name, 0.9)}"
        if kind == "array":
            return f"{self.maybe('const ', 0.5)}{self.type()} {name}[{self.random.choice(['', '3', '0x10', '2][3'])}]"
        return f"{self.maybe('const ', kind == 'const')}{self.type()} *{self.maybe(' restrict ', 0.2)}{name}"

    def text(self) -> tuple[str, list[str]]:
        """Return a text, and the macros that it defines."""
        self.number += 1
        lines, macros = [], []
        for _ in range(self.random.randrange(3)):
            name = self.random.choice(NAMES)
            if self.random.random() < 0.3:
                macros.append(name)
                lines.append(f"#define {name} {self.random.choice(['float', 'unsigned short', 'int', 'long long'])}")
            elif name not in " ".join(lines):
                lines.append(f"typedef {self.type()} {self.maybe('*', 0.1)}{name};")
        arguments = ", ".join(self.argument(f"x{k}") for k in range(self.random.randrange(4))) or "void"
        attribute = self.maybe(self.random.choice(["__attribute__((ms_abi))", "__attribute__((pure))"]), 0.1)
        lines.append(f"{self.type()} f{self.number}({arguments}) {attribute};")
        return "\n".join(lines) + "\n", macros


def assertion(declared) -> str:
    """Return C code that fails to compile unless the function has the type that was read."""
    slots = [[(kind, argument) for kind in IN_C[argument.dtype]] for argument in declared.arguments]
    wanted = []
    for result, *kinds in itertools.product(IN_C[declared.result], *slots):
        types = []
        for kind, argument in kinds:
            element = f"const {kind}" if argument.const else kind
            inner = "".join(f"[{extent}]" for extent in argument.extents[1:])
            types.append(f"{element} (*){inner}" if argument.pointer else kind)
        named = f"{result} ({', '.join(types) or 'void'})"
        wanted.append(f"__builtin_types_compatible_p(__typeof__({declared.name}), {named})")
    return f'_Static_assert({" || ".join(wanted)}, "{declared}");'


@pytest.mark.parametrize(
    ("seed", "number"), [(1, 250), pytest.param(2, 2000, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_accepted_declarations_have_the_types_of_the_compiler(seed, number, tmp_path):
    texts = Texts(seed)
    known = "".join(f"typedef {IN_C[dtype][0]} {name};\n" for name, dtype in NAMED.items() if name != "bool")
    program, accepted, refused = [known + "typedef _Bool bool;\n"], 0, 0
    for _ in range(number):
        text, macros = texts.text()
        try:
            header = read_header(text)
        except DeclarationError:
            refused += 1
            continue
        undefined = "".join(f"\n#undef {name}" for name in macros)
        checks = "\n".join(assertion(declared) for declared in header.functions.values())
        program.append(f"void scope{accepted}(void) {{\n{text}\n{undefined}\n{checks}\n}}\n")
        accepted += 1
    source = tmp_path / "abi.c"
    source.write_text("".join(program))
    for compiler in COMPILERS:
        # Not the qualifier volatile: it makes another type, but no other call.
        command = [compiler, "-std=gnu17", "-w", "-Dvolatile=", "-fsyntax-only", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
        assert done.returncode == 0, done.stderr[:3000]
    assert accepted > number / 5
    assert refused > number / 20
