# Nothing of it is reached from Python: see _export.pxd.
