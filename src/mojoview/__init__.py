"""mojoview: the memory of NumPy arrays and pandas DataFrames, shared with native code without copying it."""
