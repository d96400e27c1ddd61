"""DataFrames and rings between processes.

Read `frame_layout` (a DataFrame as bytes) with `json_values` (labels and attributes as JSON), `shared_frame`
(`SharedFrame`), `records` (records of a ring as DataFrames). Must not know views of frames.
"""
