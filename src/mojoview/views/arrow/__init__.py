"""The Arrow C data interface: `_from_arrow` imports, `_to_arrow` exports.

Read `format` (types and records) with `c_data.h` (the structures), `_from_arrow`, `arrays` (views of types whose
items are not in place) with `elements` (indices), `chunked` (streams) and `_to_arrow`. Must not know pandas.
"""
