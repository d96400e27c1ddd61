"""Array interfaces: `array_interface` (NumPy, import) and `cuda_interface` (both ways). Must not know pandas."""
