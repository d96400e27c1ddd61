# Nothing of it is reached from Python: see _capi.pxd.
