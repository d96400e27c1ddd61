"""Sphinx configuration: builds without network; every example in the pages is a doctest."""

import doctest
import inspect

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

import mojoview

project = "mojoview"
author = "The mojoview developers"
copyright = "2026, the mojoview developers"
release = version = mojoview.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.doctest"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_title = "mojoview"
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_nav_level": 2,
    "header_links_before_dropdown": 9,
    "navigation_with_keys": False,
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
}
html_sidebars = {"**": []}
html_show_sourcelink = False
numpydoc_show_class_members = False
autodoc_typehints = "none"
default_role = "code"  # what docstrings write in single backticks
exclude_patterns = ["_build"]

doctest_default_flags = doctest.ELLIPSIS | doctest.DONT_ACCEPT_TRUE_FOR_1  # messages count
doctest_global_setup = """
import numpy as np
import pandas as pd
import mojoview as mv
from mojoview import kernels
"""


class BuiltinKernels(SphinxDirective):
    """Documents every built-in kernel: they are objects, not functions, so autodoc would show them as data."""

    def run(self):
        lines = []
        for name in mojoview.kernels.__all__:
            kernel = getattr(mojoview.kernels, name)
            if not isinstance(kernel, mojoview.kernels.Kernel):
                continue
            call, _, text = inspect.cleandoc(kernel.__doc__).partition("\n")
            body = text.strip("\n").splitlines()
            self.env.app.emit("autodoc-process-docstring", "function", f"mojoview.kernels.{name}", kernel, None, body)
            lines += [f".. py:function:: mojoview.kernels.{call}", "", *(f"   {line}" for line in body), ""]
        container = nodes.container()
        self.state.nested_parse(StringList(lines, source="kernels"), 0, container)
        return container.children


def setup(app):
    app.add_directive("builtin-kernels", BuiltinKernels)
