"""`SharedFrame`: a DataFrame that other processes read."""
