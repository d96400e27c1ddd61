"""DLPack, out and in."""
