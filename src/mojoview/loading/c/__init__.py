"""Functions of C libraries and function pointers as kernels, described by C declarations.

Must not know the Mojo compiler (`mojo/`).

Reading order:

* `declaration`: parser of C declarations.
* `prototypes`: from a declaration to a signature: arrays, sizes, scalars.
* `library`: `load_library`.
* `pointers`: `from_function`.
"""
