"""`State`: a small record with one writer and many readers."""
