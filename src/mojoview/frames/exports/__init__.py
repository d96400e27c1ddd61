"""Functions on frame and column views: pandas, Arrow, text and HTML."""
