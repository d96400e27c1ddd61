"""Mojo source files become kernels: compiler, cache, import hook, decorator, notebook magics.

Must not know C declarations (`c/`).

Reading order, from `load` downwards:

* `loader`: `load`: from source to `KernelModule`.
* `inputs`: the arguments of `load` as files for the compiler; `source`: reader of Mojo text, imports and exports.
* `compilation`: one compilation and its cache key; `compiler`: finding and running `mojo`, its runtime libraries;
  `diagnostics`: its messages.
* `examine`: signatures, cross-checked from source, `mojo doc` and LLVM text.
* `cache`: compiled kernels on disk.
* `hook`: `enable_hook`, imports of Mojo files; `import_cache`: imports that skip hashing the sources.
* `decorator`: `native`; `notebook`: `%%mojo`, `%mojo_time`.
* `aot`: `compile_library`, libraries for machines without a compiler.
* `include_path`: directory of the Mojo package for kernel authors, `include/`.
"""
