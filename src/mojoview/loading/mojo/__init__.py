"""From a Mojo file to a module of kernels: inputs, signatures, compiler, cache, import hook and notebook."""
