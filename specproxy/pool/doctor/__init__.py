"""What is wrong with a pool: first examined, then judged by pure checks."""
