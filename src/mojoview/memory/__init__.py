"""What everything rests on: the descriptor ABI (`abi.h`), leases, dtype codes, status codes and the error tree.

Must not know anything above: no views, no kernels, no pandas. `_lease` is the only caller of PyObject_GetBuffer;
`_status` is the only translator from status codes to exceptions.
"""
