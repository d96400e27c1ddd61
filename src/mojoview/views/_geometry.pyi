# Nothing of it is reached from Python: see _geometry.pxd.
