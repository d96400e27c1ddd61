"""`Snapshot`: large arrays, published whole and pinned by their readers."""
