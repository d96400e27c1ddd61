"""Declarations of C functions on numbers and arrays of numbers.

    void scale(size_t n, double a, const double *x, double *y);
    double norm(size_t rows, size_t cols, const double x[rows][cols]);

pycparser reads them, after the compiler's own preprocessor if the text needs one. Anything else is an error with line
and column: a guessed type would be a crash or wrong numbers.
"""

from __future__ import annotations

import re

from mojoview.loading.c.declared import Argument, Declaration, Header
from mojoview.loading.c.preprocessor import preprocess
from mojoview.loading.c.reader import Reader
from mojoview.memory.errors import DeclarationError

__all__ = ["Argument", "Declaration", "Header", "read_declaration", "read_header"]

# Possessive quantifiers: text that does not match fails without backtracking.
UNNAMED = re.compile(r"\s*+(\w++(?:\s++\w++)*+)\s*+(?:\(\s*+\*\s*+\)\s*+)?\((.*)\)(?: noexcept)?(?: nogil)?\s*+", re.S)


def read_header(text: str, *, tolerant: bool = False, directory: str | None = None) -> Header:
    """Read the declarations in a text.

    Parameters
    ----------
    text : str
        Declarations of functions and typedefs of numbers. Directives and continued lines need a C compiler, whose
        preprocessor reads them.
    tolerant : bool
        List functions that cannot be called in `refused`, and skip what is not a declaration of a function.
    directory : str, optional
        Where `#include "file"` is searched; the working directory when absent.

    Raises
    ------
    DeclarationError
        The text has anything else; if `tolerant`, it cannot be split into declarations, or not preprocessed.
    """
    return Reader(preprocess(text, directory), tolerant).header()


def read_declaration(text: str) -> Declaration:
    """Parse the declaration of one function; one without a name is called "function".

    Raises
    ------
    DeclarationError
    """
    try:
        functions = read_header(text).functions
    except DeclarationError as error:
        # "double (double, int)", as in names of capsules, or the C type name "double (*)(double)".
        match = UNNAMED.fullmatch(text)
        if match is None:
            raise
        named = f"{match[1]} function({match[2]})"
        try:
            functions = read_header(named).functions
        except DeclarationError:
            raise error from None
    if len(functions) != 1:
        raise DeclarationError(f"expected one declaration of a function, got {len(functions)}")
    return next(iter(functions.values()))
