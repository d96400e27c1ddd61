"""Native code becomes kernels: `mojo/` compiles and imports Mojo files, `c/` loads C libraries and function pointers.

Must not know pandas or shared memory. Read `module` (what a load returns), `description`, `dlopen`, `elf` and `members`.
"""
