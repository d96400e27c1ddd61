"""DLPack: `_from_dlpack` imports, `_to_dlpack` exports; `dlpack.h` has the structures. Must not know pandas."""
