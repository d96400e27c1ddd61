"""Native code becomes kernels: Mojo sources (`mojo/`), C libraries and function pointers (`c/`).

Builds the `Kernel` objects of `calls/`. Must not know pandas or shared memory. Nothing here is imported by
`import mojoview`.

Reading order:

* `exports`: the kernels of a library and its refused exports, as data.
* `elf`: symbols, dependencies and run path of a shared object.
* `description`: signatures as JSON, and the signature file beside a library.
* `dlopen`: opening a shared object, addresses of its functions.
* `module`: `KernelModule`, the result of every load.
* `c/`: `load_library`, `from_function`.
* `mojo/`: `load`, `enable_hook`, `native`, the notebook magics, ahead-of-time builds.
* `members`: `python_attribute`, `python_callable` for classes that hold kernels.
"""
