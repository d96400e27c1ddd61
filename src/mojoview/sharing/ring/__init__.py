"""`Ring`: a stream of messages through a segment."""
