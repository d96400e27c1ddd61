"""Sphinx configuration: builds without network; every example in the pages is a doctest."""

import mojoview

project = "mojoview"
author = "The mojoview developers"
copyright = "2026, the mojoview developers"
release = version = mojoview.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.doctest"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_nav_level": 2, "navigation_with_keys": False, "navbar_end": ["theme-switcher"], "show_prev_next": False}
html_sidebars = {"**": []}
html_show_sourcelink = False
numpydoc_show_class_members = False
autodoc_typehints = "none"
exclude_patterns = ["_build"]

doctest_global_setup = """
import numpy as np
import pandas as pd
import mojoview as mv
from mojoview import kernels
"""
