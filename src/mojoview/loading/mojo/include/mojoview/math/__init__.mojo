"""Vector math for kernels: float32 and float64, of any width, within 2 ULP over the whole range.

    from mojoview.math import exp, log, sin

No function needs a library. A table in the documentation has the largest error of each function, which a test measures.
"""
from .angles import cos, sin, tan
from .exponentials import cosh, exp, exp2, expm1, sinh, tanh
from .logarithms import log, log10, log1p, log2
from .powers import pow, sqrt
