"""What several rooms' tests share: arrays of every kind, thread runs, scripts in processes of their own."""
