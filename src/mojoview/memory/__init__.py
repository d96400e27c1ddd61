"""The descriptor ABI, leases, dtype and status codes, errors and argument checks.

Must not know anything above: views, kernels, pandas. Read `abi.h` (the descriptor that kernels receive), `_dtype`
(NumPy dtypes as its codes) and `numeric.h` (loads and stores by these codes); `_lease` (the only caller of
PyObject_GetBuffer) with `live_leases.h` and `gil_safe_decref.h`; `errors` (the tree of exceptions) and `_status`
(status codes to exceptions; `calls/errors.py` adds the arguments of the call); `check` (arguments); `extension_points`
(the calls from lower rooms into higher ones) and `when_imported` (calls after the import of another package).
`atomics.h`, `clock.h` and `futex.h` are for synchronisation in the rooms above.
"""
