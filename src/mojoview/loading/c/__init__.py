"""Functions of C libraries and function pointers as kernels, described by C declarations.

Must not know the Mojo compiler (`mojo/`).

Reading order:

* `declaration`: from text to declarations.
* `preprocessor`: comments, continued lines, and directives by the compiler's preprocessor.
* `reader`: declarations of the preprocessed text, by pycparser.
* `declared`: `Declaration`, and the types of C that are numbers of NumPy.
* `prototypes`: from a declaration to a signature: arrays, sizes, scalars.
* `library`: `load_library`.
* `pointers`: `from_function`.
"""
